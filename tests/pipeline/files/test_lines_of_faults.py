"""Each parameter of each declaration with a bad value: the error names the parameter, and the file's reader its line.

Names and values are words that are parameters, too, so that a reader that looks for them in an error's text would find the wrong line.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seriatim.errors import PolicyError, UsageError
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files import box_file, pipeline_file
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.schedule import Schedule
from seriatim.regions import regions_file
from seriatim.regions.regional_queue import RegionalQueue

LONG = "x" * 200


@dataclass(frozen=True)
class Case:
    """An entry whose `key` is at fault: its lines are those of its kind, with `lines` in place of them or behind them; None: left out."""

    key: str
    lines: Mapping[str, str | None]

    def __str__(self) -> str:
        return ", ".join(f"{key}: {value}"[:40] for key, value in self.lines.items())


def case(key: str, value: str | None = None, /, **lines: str | None) -> Case:
    return Case(key, lines if value is None else {**lines, key: value})


NUMBERED = {"policy": "standard", "group": "sequence", "sequence": "group"}
QUEUE = [
    case("policy", "nothing"),
    case("policy", "first"),
    case("policy", "standard", sequence=None),
    case("policy", "fifo", group=None, sequence=None),
    case("group", "''"),
    case("group", "[1]"),
    case("sequence", "''"),
    case("group", "{by: sequence, default: ''}"),
    case("group", "{by: ''}"),
    case("group", "{whole_queue: false}"),
    case("group", "{by: sequence, keep: errors}"),
    case("errors", "keep"),
    case("priority", "''"),
    case("keep", "errors"),
    case("keep.done_for", "0s"),
    case("keep.done_for", "-1"),
    case("keep.done_for", "99999d"),
    case("keep", "{done: nothing, done_for: 1d}"),
    case("keep.events", "some"),
    case("max_messages", "0"),
    case("max_messages", "5", group="{by: sequence, by_type: {errors: {policy: standard}}}"),
    case("max_messages", "{messages: 5, when_full: keep}"),
    case("max_messages.when_full", "refuse"),
    case("enabled", "1"),
    case("group", "{by: sequence, expire_after: 0s}"),
    case("group", "{expire_after: 1d}", policy="unordered", sequence=None),
    case("retry", "5"),
    case("retry.attempts", "0"),
    case("retry.delay", "99999d"),
    case("retry.factor", "0.5"),
    case("retry.factor", "keep"),
    case("retry.ceiling", "99999d"),
    case("retry.jitter", "2"),
    case("recover", "-1"),
    case("recover.limit", "-1"),
    case("recover.delay", "99999d"),
    case("recover.factor", "true"),
    case("activation", "5"),
    case("retry.rollbacks", "-1"),
    case("group", "{by: sequence, by_type: group}"),
    case("group", "{by: sequence, by_type: {keep: {policy: unordered}}}"),
    case("group", "{by: sequence, by_type: {keep: {policy: unit_of_work, size: 3}}}"),
    case("group", "{by: sequence, by_type: {'keep/level': {policy: fifo}}}"),
    case("group", f"{{by: sequence, by_type: {{{LONG}: {{policy: fifo}}}}}}"),
    case("compare", "[]"),
    case("compare", "group", policy="fifo", sequence=None),
    case("group", "{by: sequence, opens: ' '}"),
    case("group", "{by: sequence, opens: \"errors = 'keep'\"}", policy="best_effort"),
    case("group", "{by: sequence, closes: ' '}"),
    case("group", "{by: sequence, closes: \"errors = 'keep'\"}", policy="best_effort"),
    case("group", "{by: sequence, unopened_timeout: 0s}"),
    case("group", "{by: sequence, unopened_timeout: 1d}"),
    case("gate", "keep"),
    case("gate", LONG),
    case("gate", "errors", policy="unordered", group=None, sequence=None),
    case("gate.through", "errors"),
    case("gate", "{queue: errors, through: keep}"),
    case("gate", f"{{queue: errors, through: {LONG}}}"),
    case("gate", "{queue: errors, open_at_most: 0}"),
    case("at", LONG, policy="fifo", sequence=None),
    case("policy", "standard", at="errors"),
    case("group", "errors", at="keep", policy="unordered", sequence=None),
    case("keep", "faults", at="errors", policy="fifo", sequence=None),
    case("retry.attempts", "7", at="errors", policy="fifo", sequence=None),
    case("at.queue", "errors"),
    case("at", f"{{link: errors, queue: {LONG}}}", policy="fifo", sequence=None),
    case("at.lanes", "8"),
    case("at", "{link: errors, lanes: 0}", policy="unordered", group=None, sequence=None),
    case("at", "{link: errors, lanes: 8}", policy="fifo", sequence=None),
]  # fmt: skip
ACTIVATION = [
    case("handler", "minimum maximum"),
    case("handler", "maximum.py"),
    case("minimum", "-1"),
    case("minimum", "5", maximum="2"),
    case("maximum", "1000"),
    case("batch", "1"),
    case("run_as", LONG),
    case("enabled", "1"),
    case("port", f"'http: {{url: https://maximum/{LONG * 60}}}'", handler=None),
    case("port", "'http: {url: https://mode}'"),
    case("pace", "5"),
    case("pace.run_length", "0"),
    case("pace.rate", "0"),
    case("pace.rate", "minimum"),
    case("mode", "lease"),
    case("mode", "leased", handler=None),
    case("pace.turn_limit", "1us"),
    case("pace.turn_limit", "10d"),
    case("lease", "0s"),
    case("lease", "99999d"),
    case("lease", "{time: 30s, heartbeat: 20s}"),
    case("faults.transient", "minimum"),
    case("faults.transient", "[]"),
    case("faults.business", "'lease:'"),
]  # fmt: skip
PATHS = {"certificate": "/queues/box.pem", "key": "/queues/key.pem", "authority": "/queues/url.pem"}
URL = {"url": "https://queues", **PATHS, "dsn": None}
LINK = [
    case("dsn", "' '"),
    case("dsn", "host=box password=key", box="0198c0de-0000-7000-8000-000000000000"),
    case("dsn", "host=queues", **(URL | {"dsn": "host=queues"})),
    case("url", "http://box", **{key: value for key, value in URL.items() if key != "url"}),
    case("url", "https://key:box@queues", **{key: value for key, value in URL.items() if key != "url"}),
    case("certificate", "/box.pem"),
    case("key", "/box.pem"),
    case("authority", "/box.pem"),
    case("certificate", "box.pem", **{one: URL[one] for one in ("dsn", "url", "key", "authority")}),
    case("key", "box.pem", **{one: URL[one] for one in ("dsn", "url", "certificate", "authority")}),
    case("authority", "box.pem", **{one: URL[one] for one in ("dsn", "url", "certificate", "key")}),
    case("url", "https://queues", dsn=None),
    case("box", "queues"),
    case("queues", LONG),
    case("queues", "[]"),
    case("keep_sent", "31d"),
    case("max_waiting", "0"),
    case("stream_idle", "0s"),
    case("insecure", "1"),
    case("insecure", "true", **URL),
    case("schema", LONG),
    case("schema", "box", **URL),
]  # fmt: skip
TYPE = [
    case("properties", "[schema]"),
    case("properties.body", "string"),
    case("properties.BODY", "string"),
    case("properties.validation", "decimal(99,2)"),
    case("properties.validation", "$.schema[["),
    case("properties.schema", "/validation", properties="{schema: /validation, other: $.schema}"),
    case("properties", "{schema: $.validation}", validation="empty"),
    case("validation", "schema"),
    case("validation", "valid_json"),
    case("validation", "well_formed_xml", properties="{schema: $.validation}"),
    case("schema", "schema.json"),
    case("schema", "validation.json", validation="valid_json"),
    case("schema", "fitting.json", validation="well_formed_json"),
    case("namespaces", "{'1 schema': urn:validation}"),
    case("namespaces", "{schema: urn:validation}", properties="{validation: $.schema}"),
]  # fmt: skip
SCHEDULE = [
    case("cron", "body type"),
    case("cron", "99 * * * *"),
    case("cron", "0 0 31 2 *"),
    case("cron", "'* * * * body'"),
    case("type", "''"),
    case("timezone", "Europe/Body"),
    case("body", "[type]"),
    case("body", "b" * 1_000_001),
    case("context", "[type]"),
    case("context.ticket", "1"),
    case("context.body", "1", due_property="body"),
    case("content_type", "''"),
    case("due_property", LONG),
    case("catch_up", "body"),
]  # fmt: skip
SUBSCRIPTION = [
    case("where", "5"),
    case("where", "' '"),
    case("to", LONG),
    case("state", "to"),
    case("starts", "to where", correlate="state"),
    case("starts", "to:where"),
    case("correlate", "state"),
    case("correlate", LONG, starts="to:where"),
]  # fmt: skip
SERVICE = [
    case("queue", LONG, contracts="queue"),
    case("contracts", LONG),
    case("contracts", "[]"),
    case("retention", "1"),
    case("at", LONG, queue=None),
]  # fmt: skip
CONTRACT = [
    case("any", "nobody"),
    case("target", "target"),
    case(LONG, "initiator", target=None),
    case("http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog", "any"),
]  # fmt: skip
LOCATION = [case("last_number", "0")]
SETTINGS = [case("unrouted", "nothing")]

STANDARD = [
    case("start", "two"),
    case("settle", "1s"),
    case("start", "1.5"),
    case("increment", "0"),
    case("hole_timeout", "-1"),
    case("hole_timeout", "on_hole"),
    case("hole_retries", "-1", hole_timeout="1s"),
    case("on_hole", "late"),
    case("on_hole", "skip"),
    case("on_hole", "skip", hole_timeout="0s"),
    case("late", "start"),
    case("capacity", "0"),
    case("remember", "99999"),
    case("restart_after", "-1"),
    case("on_restart", "late"),
    case("on_restart", "suspend", restart_after="0"),
]  # fmt: skip
BEST_EFFORT = [
    case("by", "window"),
    case("window", "by"),
    case("buffer", "101", window="1s"),
    case("max_rows", "0"),
    case("window", "1s", max_rows="5"),
    case("late", "by"),
]  # fmt: skip
UNIT_OF_WORK = [
    case("start", "2", size="3"),
    case("once", "seldom", size="3"),
    case("on_timeout", "by", size="3", timeout="5s"),
    case("size", "0"),
    case("last", "5", size=None),
    case("size", "last", last="size = 1"),
    case("policy", "unit_of_work", size=None),
    case("timeout", "size"),
]  # fmt: skip
CONTENT = [
    case("group", "''"),
    case("sequence", "''"),
    case("group", "{by: compare, default: ''}"),
    case("policy", "standard", group=None),
    case("policy", "standard", sequence=None),
    case("compare", "opens", policy="fifo", sequence=None),
    case("group", "{by: compare, opens: \"compare = 'closes'\"}", policy="best_effort"),
    case("group", "{by: compare, closes: \"compare = 'opens'\"}", policy="best_effort"),
    case("group", "{by: compare, unopened_timeout: 1d}"),
    case("group", "{expire_after: 1d}", policy="unordered", sequence=None),
    case("group", "{by: compare, expire_to: nothing}"),
    case("group", "{by: compare, expire_after: 1d, expire_to: group}"),
    case("group", "{by: compare, by_type: true}"),
]  # fmt: skip
REGIONAL = [
    case("group", "''"),
    case("sequence", "''"),
    case("start", "first"),
    case("increment", "0"),
    case("attempts", "0"),
    case("errors", "priority"),
    case("retry_delay", "-1"),
    case("hole_timeout", "0s"),
    case("priority", "''"),
    case("keep", "priority"),
    case("keep.done_for", "99999d"),
    case("keep", "{done: nothing, done_for: 1d}"),
    case("expire_after", "-1"),
]  # fmt: skip

#: A declaration; a file with an entry, at whose end its lines stand; what these are, if nothing is wrong; and the cases.
KINDS: Mapping[str, tuple[type, str, Mapping[str, str], list[Case]]] = {
    "queue": (Queue, "queues:\n  keep:\n", NUMBERED, QUEUE),
    "activation": (
        Activation,
        "queues:\n  errors:\n    policy: fifo\n    group: keep\n    activation:\n",
        {"handler": "rate:lease"},
        ACTIVATION,
    ),
    "link": (Link, "links:\n  queues:\n", {"dsn": "host=queues sslmode=verify-full"}, LINK),
    "type": (MessageType, "types:\n  schema:\n", {}, TYPE),
    "schedule": (Schedule, "schedules:\n  body:\n", {"cron": "'* * * * *'", "type": "body"}, SCHEDULE),
    "subscription": (Subscription, "subscriptions:\n  to:\n", {"where": "TRUE", "to": "where"}, SUBSCRIPTION),
    "service": (Service, "services:\n  contracts:\n", {"queue": "contracts"}, SERVICE),
    "contract": (Contract, "contracts:\n  types:\n", {"target": "any"}, CONTRACT),
    "location": (Location, "locations:\n  name:\n", {}, LOCATION),
    "settings": (BoxSettings, "settings:\n", {}, SETTINGS),
    "regional": (RegionalQueue, "queues:\n  keep:\n", {"group": "sequence", "sequence": "group"}, REGIONAL),
    "standard": (Standard, "queues:\n  late:\n", NUMBERED, STANDARD),
    "best_effort": (BestEffort, "queues:\n  late:\n", NUMBERED | {"policy": "best_effort"}, BEST_EFFORT),
    "unit_of_work": (
        UnitOfWork,
        "queues:\n  late:\n",
        NUMBERED | {"policy": "unit_of_work", "size": "3"},
        UNIT_OF_WORK,
    ),
    "fifo": (Fifo, "queues:\n  late:\n", {"policy": "fifo", "group": "sequence"}, []),
    "unordered": (Unordered, "queues:\n  late:\n", {"policy": "unordered"}, []),
    "content": (Queue, "", {"policy": "standard", "group": "compare", "sequence": "opens"}, CONTENT),
}

REGIONS = "primary: host=a\nsecondary: host=b\njournal: host=c\n"
PIPELINE = """\
name: small
receive:
  - location: crm
    source: {format: json, path: inbox}
    promote: {compare: $.key, opens: {path: $.n, type: long}}
route:
  - to: keep
    deliver: {format: json, path: out}
    resequence:
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("inbox").mkdir()
    Path("validation.json").write_text('{"type": "schema"}', encoding="utf-8")
    Path("fitting.json").write_text('{"type": "object"}', encoding="utf-8")


def entry_of(head: str, base: Mapping[str, str], one: Case) -> tuple[str, int]:
    """The text of a file, and the number of the line that is at fault; that of the entry's first line, if the key isn't in it."""
    _, _, inner = one.key.partition(".")
    lines = {**base, **one.lines}
    outer = one.key
    if inner and one.key in lines:
        value, outer = lines.pop(one.key), one.key.partition(".")[0]
        if outer not in lines:
            lines[outer] = f"\n{'':10}{inner}: {value}"
    indent = " " * (
        len(head.rstrip("\n").rpartition("\n")[2]) - len(head.rstrip("\n").rpartition("\n")[2].lstrip()) + 2
    )
    text, at = head, None
    for key, value in lines.items():
        if value is not None:
            text += f"{indent}{key}: {value}\n"
            if key == outer.partition(".")[0] or key == outer:
                at = text.count("\n")
    assert at is not None, one.key
    return text, at


def lines_at_fault(kind: str, text: str) -> list[int]:
    """The numbers of the lines of all faults of a file."""
    if kind == "content":
        found = pipeline_file.examine(written(text), {})[1]
    elif kind == "regional":
        try:
            regions_file.load(written(text), {})
        except UsageError as error:
            return [
                int(line.split(":")[1]) for line in str(error).replace("\n  ", "\n").splitlines() if line.count(":") > 1
            ]
        return []
    else:
        found = box_file.examine(written(text), {})[1]
    return [int(str(one).split(":")[1]) for one in found]


def written(text: str) -> str:
    Path("file.yaml").write_text(text, encoding="utf-8")
    return "file.yaml"


def head_of(kind: str) -> str:
    return {"content": PIPELINE, "regional": REGIONS + KINDS["regional"][1]}.get(kind, KINDS[kind][1])


CASES = [pytest.param(kind, one, id=f"{kind}-{one}") for kind, (_, _, _, cases) in KINDS.items() for one in cases]


@pytest.mark.parametrize(("kind", "one"), CASES)
def test_a_bad_value_is_told_in_its_line(kind, one):
    text, line = entry_of(head_of(kind), KINDS[kind][2], one)
    assert lines_at_fault(kind, text) == [line], text


def test_an_entry_without_a_fault_has_none():
    for kind, (_, _, base, _) in KINDS.items():
        text = head_of(kind) + "".join(f"          {key}: {value}\n" for key, value in base.items())
        assert lines_at_fault(kind, text if base else f"{head_of(kind).rstrip()} {{}}\n") == [], kind


def test_every_parameter_has_a_bad_value():
    known: dict[type, set[str]] = {}
    for declaration, _, _, cases in KINDS.values():
        known.setdefault(declaration, {"name"}).update(one.key.partition(".")[0] for one in cases)
    del known[Contract]  # whose parameter is the entry itself
    for declaration, tried in known.items():
        assert {one.name for one in fields(declaration)} - tried == set(), declaration.__name__


#: What a declaration needs besides the parameter that is tried.
GIVEN: Mapping[type, Mapping[str, Any]] = {
    Queue: {"name": "keep", "policy": Standard(), "group": "sequence", "sequence": "group"},
    Activation: {"handler": "rate:lease"},
    Link: {"name": "queues", "dsn": "host=queues sslmode=verify-full"},
    MessageType: {"name": "schema"},
    Schedule: {"name": "body", "cron": "* * * * *", "type": "body"},
    Subscription: {"name": "to", "where": "TRUE", "to": "where"},
    Service: {"name": "contracts", "queue": "contracts"},
    Contract: {"name": "types", "types": {"target": "any"}},
    Location: {"name": "name"},
    BoxSettings: {},
    RegionalQueue: {"name": "keep", "group": "sequence", "sequence": "group"},
    Standard: {},
    BestEffort: {},
    UnitOfWork: {"size": 3},
}  # fmt: skip
#: And what some parameters need, so that their values matter.
BESIDES: Mapping[tuple[type, str], Mapping[str, Any]] = {
    (Queue, "at"): {"policy": Fifo(), "sequence": None},
    (Activation, "port"): {"handler": None},
    (Link, "url"): {"dsn": None},
    (MessageType, "schema"): {"validation": "valid_json"},
    (Subscription, "starts"): {"correlate": ["state"]},
    (Subscription, "correlate"): {"starts": "to:where"},
    (UnitOfWork, "last"): {"size": None},
    (Service, "at"): {"queue": None, "contracts": ()},
}  # fmt: skip
WORST = (
    object(),
    [[]],
    {1: 2},
    "",
    "\0",
    LONG,
    -1,
    1e9,
    float("nan"),
    10**400,
    True,
    b"keep",
    "group keep errors body",
)


PARAMETERS = [
    pytest.param(declaration, one.name, id=f"{declaration.__name__}-{one.name}")
    for declaration in GIVEN
    for one in fields(declaration)
]


@pytest.mark.parametrize(("declaration", "parameter"), PARAMETERS)
def test_an_error_names_the_parameter_at_fault(declaration, parameter):
    besides = GIVEN[declaration] | BESIDES.get((declaration, parameter), {})
    refused = 0
    for value in WORST:
        error = refusal(partial(declaration, **besides | {parameter: value}))
        if error is not None:
            refused += 1
            assert error.arguments, str(error)
            assert error.arguments[0].partition(".")[0] == parameter, str(error)
    assert refused


def refusal(call: Callable[[], object]) -> UsageError | None:
    try:
        call()
    except UsageError as error:
        return error
    return None


def test_an_error_keeps_its_arguments_on_its_way_from_a_process():
    error = PolicyError("wrong", where="here", remedy="mend it", argument=("window", "max_rows"))
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.arguments) == (PolicyError, str(error), ("window", "max_rows"))
