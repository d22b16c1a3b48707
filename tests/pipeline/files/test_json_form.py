"""Declarations become JSON and come back as they were."""

from __future__ import annotations

import json
from dataclasses import replace

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from seriatim import FaultKinds, Group, Keep, Lease, Limit, Pace, Recover, Retry
from seriatim.errors import SchemaMismatch, UsageError
from seriatim.kernel.fields import LONGEST_DAYS
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered, remembering
from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.declared.activation import MOST_READERS, Activation
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import KEEP
from seriatim.pipeline.declared.subscription import STATES, Subscription
from seriatim.pipeline.declared.work_limits import MOST_RUN, Mode
from seriatim.pipeline.files.json_form import from_json, storable, to_json
from seriatim.pipeline.types.message import Message
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.typed_message import MessageTypes

TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
NAMES = st.text(TEXT, min_size=1, max_size=128)
# What a person would write, and any number of microseconds.
PERIODS = st.sampled_from(["100s", "5m", "1.5h", "250ms", "7d", 0.1, 86_400]) | st.integers(
    1, LONGEST_DAYS * 86_400_000_000
).map(lambda us: us / 1_000_000)
WIDE = st.integers(-(2**62), 2**62)
LATE = st.sampled_from(["set_aside", "deliver", "suspend"])
TYPES = st.sampled_from(["string", "long", "double", "boolean", "timestamp", "decimal( 12, 2 )", "decimal(38,38)"])
PROPERTY_NAMES = st.from_regex(r"x[a-z0-9_]{0,20}", fullmatch=True)
WORDS = st.from_regex(r"[a-z]{1,9}", fullmatch=True)


def policies() -> st.SearchStrategy[Policy]:
    others = {
        "start": st.just("first") | WIDE,
        "increment": st.integers(1, 2**62),
        "hole_retries": st.integers(0, 10_000),
        "late": LATE,
        "capacity": st.none() | st.integers(1, 2**62),
    }
    standard = st.builds(Standard, hole_timeout=st.none() | PERIODS, **others) | st.builds(
        Standard, hole_timeout=PERIODS, on_hole=st.just("skip"), **others
    )
    windows = st.builds(BestEffort, window=PERIODS, buffer=st.floats(0, 100) | st.integers(0, 100), late=LATE)
    rounds = st.builds(
        BestEffort, by=st.sampled_from(["number", "time"]), max_rows=st.none() | st.integers(1, 2**62), late=LATE
    )
    sized = st.builds(UnitOfWork, size=NAMES | st.integers(1, 2**62), timeout=st.none() | PERIODS)
    ended = st.builds(UnitOfWork, last=filters(), timeout=st.none() | PERIODS)
    return st.one_of(st.just(Unordered()), st.just(Fifo()), standard, windows, rounds, sized, ended)


def filters() -> st.SearchStrategy[str]:
    return st.text(TEXT, min_size=1, max_size=200).filter(str.strip)


@st.composite
def activations(draw: st.DrawFn) -> Activation:
    maximum = draw(st.integers(1, MOST_READERS))
    handler, role = draw(st.none() | st.sampled_from(["a:b", "a.b:c"])), draw(st.none() | NAMES)
    flags = draw(st.booleans()), draw(st.booleans())
    port = draw(st.none() | NAMES) if handler is None else None
    pace = Pace(
        draw(st.none() | st.integers(1, MOST_RUN)),
        rate=draw(st.none() | st.integers(1, 1000) | st.floats(0.001, 1e6)),
        turn_limit=draw(st.none() | st.sampled_from([0.5, "60s", 86_400])),
    )
    lease = Lease(draw(st.sampled_from([30.0, "5m", 3])), heartbeat=draw(st.sampled_from([None, 1, "0.5s"])))
    mode = draw(st.sampled_from(Mode)).value if handler or port else "transactional"
    said = draw(st.lists(st.sampled_from(["a:E", "a.b:C", "OSError", "ValueError"]), max_size=4, unique=True))
    return Activation(
        handler,
        minimum=draw(st.integers(0, maximum)),
        maximum=maximum,
        batch=flags[0],
        run_as=role,
        enabled=flags[1],
        port=port,
        faults=FaultKinds(transient=said[:2], business=said[2:]),
        pace=pace,
        mode=mode,
        lease=lease,
    )


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    keep, most = draw(st.sampled_from(KEEP)), draw(st.none() | st.integers(1, 2**53))
    policy = draw(policies())
    group = Group(
        draw(NAMES),
        default=draw(st.none() | NAMES.filter(lambda name: len(name.encode()) <= 1024)),
        expire_after=None if isinstance(policy, Unordered) else draw(st.none() | PERIODS),
    )
    return Queue(
        draw(NAMES),
        policy,
        group,
        draw(NAMES),
        errors=draw(st.sampled_from(("suspend", "continue", "stop"))),
        priority=draw(st.none() | NAMES),
        keep=Keep(
            keep,
            done_for=draw(st.none() | PERIODS) if keep != "nothing" else None,
            events=draw(st.sampled_from(("usual", "all"))),
        ),
        max_messages=most and Limit(most, when_full=draw(st.sampled_from(("wait", "refuse")))),
        enabled=draw(st.booleans()),
        retry=Retry(
            draw(st.integers(1, 1000)),
            delay=draw(PERIODS),
            factor=draw(st.floats(1, 100)),
            ceiling=draw(PERIODS),
            jitter=draw(st.floats(0, 1)),
            rollbacks=draw(st.none() | st.integers(1, 1000)),
        ),
        recover=Recover(draw(st.integers(0, 1000)), draw(PERIODS), draw(st.floats(1, 100))),
        activation=draw(st.none() | activations()),
    )


@st.composite
def message_types(draw: st.DrawFn) -> MessageType:
    sort = draw(st.sampled_from(["json", "xml"]))
    prefix = "" if sort == "json" else "o:"
    paths = WORDS.map(lambda word: f"$.{word}" if sort == "json" else f"/{prefix}{word}/@id")
    promoted = st.fixed_dictionaries({"path": paths}, optional={"type": TYPES})
    properties = draw(st.dictionaries(PROPERTY_NAMES, TYPES | promoted | st.fixed_dictionaries({"type": TYPES}), max_size=5))  # fmt: skip
    valid, schema = ("valid_json", '{"type": "object"}') if sort == "json" else ("valid_xml", _XSD)
    validation = draw(st.sampled_from(["none", f"well_formed_{sort}", valid]))
    return MessageType(
        draw(NAMES),
        properties,
        validation,  # type: ignore[arg-type]
        schema if validation == valid else None,
        {"o": "urn:orders"} if sort == "xml" else {},
    )


_XSD = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="order" type="xs:string"/></xs:schema>'

DECLARATIONS = st.one_of(
    st.builds(Location, NAMES, st.integers(1, LAST_NUMBER)),
    message_types(),
    queues(),
    st.builds(Subscription, NAMES, filters(), NAMES, st.sampled_from(STATES)),
    st.builds(
        Subscription,
        NAMES,
        filters(),
        NAMES,
        starts=st.sampled_from(["a:b", "a.b:c"]),
        correlate=st.lists(NAMES, min_size=1, max_size=3, unique=True),
    ),
)


def judged(definition):
    """A declaration as a box judges by it: a queue with the number of messages that it remembers."""
    if not isinstance(definition, Queue):
        return definition
    of_types = definition.group.by_type
    of_types = None if of_types is None else {kind: remembering(one) for kind, one in of_types.items()}
    return replace(definition, policy=remembering(definition.policy), group=replace(definition.group, by_type=of_types))


@given(DECLARATIONS)
def test_what_is_kept_comes_back_as_it_was(definition):
    kept = json.dumps(to_json(definition), allow_nan=False)
    # jsonb keeps no order of keys.
    read = json.loads(json.dumps(json.loads(kept), sort_keys=True))
    again = from_json(type(definition), read)
    assert again == judged(definition)
    assert to_json(again) == json.loads(kept)


@settings(max_examples=30)
@given(definitions=st.lists(DECLARATIONS, min_size=1, max_size=20))
def test_postgresql_keeps_it_as_it_is(postgresql, definitions):
    with psycopg.connect(postgresql) as connection:
        rows = connection.execute(
            "SELECT kept FROM unnest(%s::jsonb[]) WITH ORDINALITY AS given (kept, place) ORDER BY place",
            [[Jsonb(to_json(one)) for one in definitions]],
        ).fetchall()
    assert [from_json(type(one), kept) for one, (kept,) in zip(definitions, rows, strict=True)] == [
        judged(one) for one in definitions
    ]


def test_the_format_does_not_change_unnoticed():
    queue = Queue("q", Standard(hole_timeout="100s"), "key", "n", keep=Keep("faults", done_for="7d"))
    assert to_json(queue) == {
        "version": 1,
        "name": "q",
        "policy": {
            "name": "standard",
            "start": 1,
            "settle": None,
            "increment": 1,
            "hole_timeout": 100.0,
            "hole_retries": 0,
            "on_hole": "wait",
            "late": "set_aside",
            "capacity": None,
            "remember": 64,
            "restart_after": 8,
            "on_restart": "report",
        },
        "group": "key",
        "sequence": "n",
        "default_group": None,
        "errors": "suspend",
        "priority": None,
        "keep": "faults",
        "keep_for": 604800.0,
        "failures": "without_body",
        "max_messages": None,
        "when_full": "wait",
        "enabled": True,
        "expire_after": None,
        "attempts": 5,
        "retry_delay": 1.0,
        "retry_factor": 2.0,
        "retry_ceiling": 300.0,
        "retry_jitter": 0.2,
        "recoveries": 0,
        "recover_delay": 60.0,
        "recover_factor": 2.0,
        "activation": None,
        "rollbacks": 5,
        "level": "queue",
        "policies": {},
        "events": "usual",
        "compare": None,
        "opens": None,
        "closes": None,
        "unopened_timeout": None,
        "gate": None,
        "through": [],
        "open_at_most": 100_000,
        "at": None,
        "remote": None,
        "lanes": 16,
    }
    by_type = to_json(Queue("q", Standard(), Group("key", by_type={"note": Fifo()}), "n"))
    assert (by_type["level"], by_type["policies"]) == ("type", {"note": {"name": "fifo"}})
    best = {"name": "best_effort", "by": "number", "window": 5.0, "buffer": 0.1, "max_rows": None, "late": "set_aside"}
    unit = {
        "name": "unit_of_work",
        "size": None,
        "last": "end",
        "timeout": None,
        "start": 1,
        "once": True,
        "on_timeout": "dead",
    }
    policies = [Unordered(), Fifo(), BestEffort(window=5), UnitOfWork(last="end")]
    assert to_json(Queue("q", group="key", activation=Activation("a:b")))["activation"] == {
        "handler": "a:b", "minimum": 0, "maximum": 1, "batch": False, "run_as": None, "enabled": True,
        "port": None, "run_length": None, "rate": None, "mode": "transactional", "turn_limit": None, "lease": 30.0,
        "heartbeat": None, "transient": [], "business": [],
    }  # fmt: skip
    kept = [to_json(Queue("q", policy, "key", "n"))["policy"] for policy in policies]
    assert kept == [{"name": "unordered"}, {"name": "fifo"}, best, unit]
    assert to_json(Location("crm", 9)) == {"version": 1, "name": "crm", "last_number": 9}
    subscription = {
        "version": 1,
        "name": "s",
        "where": "TRUE",
        "to": "q",
        "state": "started",
        "starts": None,
        "correlate": [],
    }
    assert to_json(Subscription("s", "TRUE", "q")) == subscription
    starts = Subscription("s", "TRUE", "q", starts="orders:handle", correlate=("order_id", "shipment_id"))
    assert to_json(starts) == subscription | {"starts": "orders:handle", "correlate": ["order_id", "shipment_id"]}
    assert to_json(MessageType("order", {"a": "long", "b": {"path": "$.b"}})) == {
        "version": 1,
        "name": "order",
        "properties": {"a": "long", "b": {"type": "string", "path": "$.b"}},
        "validation": "none",
        "schema": None,
        "namespaces": {},
    }


def test_several_paths_are_kept_as_a_list():
    kind = MessageType("change", {"row": {"type": "long", "path": ("$.after.id", "$.before.id")}})
    kept = to_json(kind)
    assert kept["properties"] == {"row": {"type": "long", "path": ["$.after.id", "$.before.id"]}}
    assert from_json(MessageType, json.loads(json.dumps(kept))) == kind
    with pytest.raises(UsageError, match="half a surrogate pair can't be stored"):
        to_json(MessageType("change", {"row": {"path": ["$.a", "$.\ud800"]}}))


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        (Queue("q", UnitOfWork(size=len), "key", "n"), "queue 'q': size is a function, which a message box can't keep"),
        (
            Queue("q", UnitOfWork(last=bool), "key", "n"),
            "queue 'q': last is a function, which a message box can't keep",
        ),
        (Queue("q", UnitOfWork(last=" "), "key", "n"), "queue 'q': last is not a filter"),
        (Queue("q", group="x" * 129), "is not a property (group of queue 'q')"),
        (Queue("q", group="key", priority="a\0"), "is not a property (priority of queue 'q')"),
        (Queue("q", group=Group("key", default="é" * 513)), "queue 'q': default can't be a key"),
        (Queue("q", group=Group("key", default="a\0")), "queue 'q': default can't be a key"),
        (
            Queue("q", group=Group("key", expire_after="1h", expire_to="nothing")),
            "queue 'q': expire_to is for destinations of pipelines",
        ),
        (Queue("q", Standard(hole_timeout="10001d"), "key", "n"), "queue 'q': hole_timeout is too long"),
    ],
)
def test_what_a_box_cannot_have(queue, told):
    for check in (storable, to_json):
        with pytest.raises(UsageError) as error:
            check(queue)
        assert told in str(error.value)


@pytest.mark.parametrize("text", ["a = 'b\0'", "a = '\ud800'"])
def test_text_that_postgresql_cannot_hold_is_refused(text):
    with pytest.raises(UsageError, match=r"where of Subscription 's': text with a NUL or half a surrogate"):
        to_json(Subscription("s", text, "q"))
    with pytest.raises(UsageError, match=r"policy of Queue 'q': text with a NUL or half a surrogate"):
        to_json(Queue("q", UnitOfWork(last=text), "key", "n"))


def test_what_is_no_declaration_is_refused():
    with pytest.raises(UsageError, match="str can't be stored in a message box"):
        to_json("queue")  # type: ignore[arg-type]


def test_what_is_kept_by_a_newer_seriatim_is_refused():
    kept = {**to_json(Queue("q", group="key")), "version": 2}
    with pytest.raises(
        SchemaMismatch, match=r"Queue 'q': it is stored in version 2, .* knows version 1 \(upgrade seriatim\)"
    ):
        from_json(Queue, kept)


@pytest.mark.parametrize(
    "changed",
    [
        {"version": None},
        {"version": 0},
        {"colour": "red"},
        {"policy": {"name": "strict"}},
        {"policy": {"name": "standard", "hole": 3}},
        {"policy": {}},
        {"policy": None},
        {"errors": "ignore"},
        {"name": None},
    ],
)
def test_what_somebody_else_wrote_is_refused(changed):
    with pytest.raises(SchemaMismatch, match="what the box has of it can't be read") as error:
        from_json(Queue, {**to_json(Queue("q", group="key")), **changed})
    assert error.value.remedy == "define it again"


def test_what_lacks_a_key_has_its_default_and_what_it_needs_is_refused():
    kept = to_json(Subscription("s", "TRUE", "q"))
    for key in kept:
        lacking = {name: value for name, value in kept.items() if name != key}
        if key in {"version", "name", "where", "to"}:
            with pytest.raises(SchemaMismatch):
                from_json(Subscription, lacking)
        else:
            assert from_json(Subscription, lacking) == Subscription("s", "TRUE", "q")
    with pytest.raises(SchemaMismatch, match="colour is unknown"):
        from_json(Subscription, {**kept, "colour": "red"})
    with pytest.raises(SchemaMismatch):
        from_json(Subscription, [])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("validation", "schema", "body"),
    [
        ("valid_json", '{"pattern": "(?=a)a"}', b'"a"'),
        ("valid_xml", '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="(a|aa)*"/></xs:restriction></xs:simpleType></xs:element></xs:schema>', b"<a>a</a>"),
    ],
)  # fmt: skip
def test_a_type_whose_schema_was_good_elsewhere_stops_its_own_messages_only(validation, schema, body):
    plain = to_json(MessageType("order", properties={"customer": "string"}))
    kept = {**plain, "validation": validation, "schema": schema}
    read = from_json(MessageType, kept)
    assert to_json(read) == kept
    assert "the type's schema can't be used, define it again: the pattern" in str(read.violation(body))
    typed = MessageTypes([read, MessageType("other")]).typed(
        [Message(type="order", body=body), Message(type="other", body=body)]
    )
    assert [problem is None for problem in typed.problems] == [False, True]
    with pytest.raises(SchemaMismatch):
        from_json(MessageType, {**kept, "properties": {"customer": "nothing"}})
