"""What is published while messages of a queue with a gate are worked on: whose place it takes, and where it goes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from psycopg.types.json import Jsonb

import seriatim as sq
from seriatim.box.definitions.gates import Gates
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.publishing.publisher import Publisher
from seriatim.operations import dead_letters, edits, groups, messages
from seriatim.operations.grants import grant
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.testing.work import work_off
from tests.box import roles
from tests.box.shop import rows

BY = {"actor": "ann", "reason": "a test"}
TYPES = (
    sq.MessageType("order", {"location_key": "string", "kind": "string"}),
    sq.MessageType("priced", {"kind": "string"}),
    sq.MessageType("out", {"kind": "string"}),
)
WORK = sq.Queue("work", sq.Fifo(), group="location_key", gate=sq.Gate("out", through=["price"]))
PRICE = sq.Queue("price", sq.Unordered())
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
AUDIT = sq.Queue("audit", sq.Unordered())
LEADING = (
    sq.Subscription("work", where="type = 'order'", to="work"),
    sq.Subscription("price", where="type = 'priced'", to="price"),
    sq.Subscription("out", where="type = 'out'", to="out"),
    sq.Subscription("audit", where="origin_queue = 'work' AND origin_ordinal >= 2", to="audit"),
)


def order(kind="plain", group="a", **given):
    return sq.Message(type="order", context={"location_key": group, "kind": kind}, **given)


def out(kind="plain", **given):
    return sq.Message(type="out", context={"kind": kind}, **given)


def entries(box, queue):
    """The entries of a queue: status, group, sequence, and whose place each takes at which gate."""
    return [
        tuple(one)
        for one in rows(
            box,
            "SELECT entry.status::text, entry.group_key, entry.sequence, gate.queue AS gate, entry.origin_group,"
            " entry.origin_number FROM {schema}.entries AS entry JOIN {schema}.queues AS place USING (queue_id)"
            f" LEFT JOIN {{schema}}.queues AS gate ON gate.queue_id = entry.gate_id WHERE place.queue = '{queue}'"
            " ORDER BY entry.entry_id",
        )
    ]


@pytest.fixture
def gated(box):
    box.define(*TYPES, WORK, PRICE, OUT, AUDIT, *LEADING)
    return box


def test_results_take_the_place_of_their_causes(gated):
    gated.publish([order("one"), order("two"), order("three", "b")])
    assert entries(gated, "work") == [("arrived", key, None, "out", None, None) for key in ("a", "a", "b")]
    with gated.session() as tx:
        for message in tx.receive("work", limit=10):
            tx.publish(out(message.context["kind"]))
    assert entries(gated, "out") == [("placed", "a", 1, "out", None, 1), ("placed", "a", 2, "out", None, 2)]
    assert entries(gated, "audit") == [("arrived", "", None, None, None, None)]


def test_a_publisher_and_the_box_know_the_same_places(gated):
    """Of gates in a row, too: a queue that is a gate and has one."""
    gated.define(
        replace(OUT, gate="last"), sq.Queue("last", sq.Standard(), group="origin_group", sequence="origin_ordinal")
    )
    with gated.session() as tx:
        definitions = tx.access.known.read(tx.transaction)
    gates, queues = Gates(definitions), ("work", "price", "out", "last", "audit")
    carried = [{}] + [
        {"origin_queue": origin, "origin_group": "a", "origin_incarnation": 0, "origin_ordinal": 7}
        for origin in (*queues, "elsewhere")
    ]
    ids = {name: definitions.queues[name].queue_id for name in queues}
    seen = set()
    for name in queues:
        for context in carried:
            query = "SELECT gate_id, origin_group, origin_number FROM {schema}.place_at_gate(%s, %s)"
            found = rows(gated, query, ids[name], Jsonb(context))
            place = tuple(found[0]) if found else (None, None, None)
            assert gates.place(ids[name], context) == place, (name, context)
            seen.add((place[0] is None, place[0] == ids[name], place[1], place[2]))
    assert seen == {
        (True, False, None, None), (False, False, None, None), (False, True, None, 7), (False, False, "a", 7),
    }  # fmt: skip


def fail(message, tx):
    raise sq.Business("no")


def told(message):
    """What a message says of its origin, its parent and what it belongs to."""
    names = ("origin_queue", "origin_group", "origin_incarnation", "origin_ordinal", "parent_id", "correlation_id")
    return tuple(message.context.get(name) for name in names)


def test_two_hops_keep_the_first_origin(gated):
    gated.publish([order(message_id="first"), order("two", message_id="second")])
    work_off(gated, "work", lambda message, tx: sq.Message(type="priced", context={"kind": message.context["kind"]}))
    assert entries(gated, "price") == [("arrived", "", None, "out", "a", 1), ("arrived", "", None, "out", "a", 2)]
    seen = []

    def check(message, tx):
        seen.append(message)
        given = {"kind": "whole"} if message.context["kind"] == "plain" else {"kind": "own", "correlation_id": "mine"}
        tx.publish(sq.Message(type="out", context=given))
        return sq.Message(type="out", context=message.context)  # with an origin that is its own

    work_off(gated, "price", check)
    assert [told(one) for one in seen] == [
        ("work", "a", 0, 1, "first", "first"),
        ("work", "a", 0, 2, "second", "second"),
    ]
    placed = rows(gated, "SELECT context, origin_number FROM {schema}.entries JOIN {schema}.spool USING (arrival_id, position)"
                  " WHERE status = 'placed' ORDER BY entry_id")  # fmt: skip
    assert [
        (one.context["origin_ordinal"], one.context["parent_id"], one.context["correlation_id"]) for one in placed
    ] == [
        (1, seen[0].message_id, "first"),
        (1, "first", "first"),
        (2, seen[1].message_id, "mine"),
        (2, "second", "second"),
    ]
    assert [one.origin_number for one in placed] == [1, 1, 2, 2]


def invalid(box, queue):
    """Why a queue has set messages aside as invalid."""
    return [one.reason for one in rows(box, "SELECT aside.reason FROM {schema}.aside JOIN {schema}.queues USING (queue_id)"
                                       " WHERE queue = %s AND disposition = 'invalid' ORDER BY entry_id", queue)]  # fmt: skip


def test_of_several_messages_in_hand_each_result_names_its_cause(gated):
    gated.publish([order("one"), order("two")])
    with gated.session() as tx:
        delivery = tx.receive("work", limit=10)
        first, second = delivery.messages
        with pytest.raises(sq.UsageError, match="results from one of 2 messages in hand, and doesn't say from which"):
            tx.publish(out())
        tx.publish(out("second"), cause=second)
        tx.publish([sq.Answer(first, out("first")), sq.Answer(second, out("second"))], cause=first)
        with pytest.raises(sq.UsageError, match="can't be the cause: it is not in hand"):
            tx.publish(out(), cause=out())
        delivery.done()
        tx.publish(out("after"), cause=first)
    assert [(number, group) for _, group, _, _, _, number in entries(gated, "out")] == [
        (2, "a"), (1, "a"), (2, "a"), (1, "a"),
    ]  # fmt: skip
    with gated.session() as tx, pytest.raises(sq.UsageError, match="not in hand"):
        tx.publish(out(), cause=first)


def test_where_no_gate_is_an_answer_is_its_message(gated):
    gated.define(sq.Queue("plain", sq.Fifo(), group="kind"))
    gated.publish(sq.Message(type="out", context={"kind": "x", "to": "plain"}))
    with gated.session() as tx:
        (message,) = tx.receive("plain").messages
        result = sq.Answer(message, sq.Message(type="order", body=b"x", context={"location_key": "a"}, message_id="m"))
        assert tx.publish([result], cause=message, unique="k") == ["m"]
        with pytest.raises(sq.UsageError, match="not in hand"):
            tx.publish(order(), cause=result)
    (stored,) = rows(gated, "SELECT context, body FROM {schema}.spool WHERE message_id = 'm'")
    belongs = dict.fromkeys(("parent_id", "correlation_id"), message.message_id)
    assert (stored.context, bytes(stored.body)) == ({"location_key": "a", "unique_key": "k", **belongs}, b"x")
    for wrong in (lambda: sq.Answer(out(), out()), lambda: sq.Answer(message, [out()])):
        with pytest.raises(sq.UsageError, match="is not a"):
            wrong()


@pytest.mark.parametrize("options", [{}, {"mode": "leased", "lease": 5}])
def test_handlers_answer_with_causes(gated, options):
    gated.publish([order("one"), order("two"), order("three")])

    def together(batch, tx):
        *others, last = batch.messages
        for _ in batch:
            tx.publish(out("by iterating"))
        return [sq.Answer(last, out("last")), *[sq.Answer(one, out("other")) for one in others]]

    work_off(gated, "work", together, batch=True, **options)
    placed = rows(gated, "SELECT context ->> 'kind' AS kind, origin_number AS number FROM {schema}.entries"
                  " JOIN {schema}.spool USING (arrival_id, position) WHERE status = 'placed' ORDER BY entry_id")  # fmt: skip
    assert [tuple(one) for one in placed] == [
        *[("by iterating", number) for number in (1, 2, 3)],
        *[("last", 3), ("other", 1), ("other", 2)],
    ]
    gated.publish([order("one"), order("two")])
    faults = []

    def nameless(batch, tx):
        try:
            tx.publish(out())
        except sq.UsageError as error:
            faults.append(error.what)
        for _ in batch:
            pass
        tx.publish(out("of the last"))

    work_off(gated, "work", nameless, batch=True, **options)
    assert ["and doesn't say from which" in one for one in faults] == [True]
    work_off(gated, "work", lambda message, tx: None, **options)
    assert entries(gated, "out")[-1][-1] == 5


def test_asyncio_handlers_and_sessions(gated):
    gated.publish([order("one"), order("two"), order("three")])

    async def handle(message, tx):
        await tx.publish(out(message.context["kind"]))

    work_off(gated, "work", handle)

    async def receive():
        async with sq.AsyncMessageBox(gated) as box, box.session() as tx:
            delivery = await tx.receive("work", limit=10)
            await tx.publish(out(), cause=delivery.messages[1])
            async for _ in delivery:
                await tx.publish(out())

    gated.publish([order(), order()])
    asyncio.run(receive())
    assert [one[-1] for one in entries(gated, "out")] == [1, 2, 3, 5, 4, 5]


def test_another_session_on_the_connection_is_told_where_to_publish(gated):
    gated.publish(order())
    told = "another session on this connection has a message of queue 'work'"
    with gated.session() as tx:
        tx.receive("work")
        with gated.session(connection=tx.connection) as other, pytest.raises(sq.UsageError, match=told):
            other.publish(out())


def test_a_gate_takes_results_alone(gated):
    gated.define(sq.Queue("far", sq.Fifo(), group="kind", gate="far out"), sq.Queue("far out", **vars_of(OUT)))
    gated.publish(out("nothing in hand"))
    gated.publish(order())

    def elsewhere(message, tx):
        gated.publish(out("by another session"))
        return [sq.Message(type="out", context={"kind": "x", "to": to}) for to in ("far", "far out")]

    work_off(gated, "work", elsewhere)
    for_out = "no origin: a gate takes what results from messages of 'work'; publish it in the session that has such"
    assert [one.startswith(for_out) for one in invalid(gated, "out")] == [True, True]
    assert invalid(gated, "far") == ["already on its way to gate 'out'"]
    assert [one.split(":")[0] for one in invalid(gated, "far out")] == ["no origin of queue 'far', but of 'work'"]
    assert [one[-1] for one in entries(gated, "out")] == [1, 1]
    with gated.session() as tx, pytest.raises(sq.Unrouted, match="no origin"):
        tx.publish(out(), unrouted="refuse")


def vars_of(queue):
    return {"policy": queue.policy, "group": queue.group, "sequence": queue.sequence}


def test_what_comes_back_into_the_queue_keeps_its_place(gated):
    gated.publish(order("first"))
    work_off(gated, "work", lambda message, tx: order("again", "z") if message.context["kind"] == "first" else out())
    assert entries(gated, "out") == [("placed", "a", 1, "out", None, 1)]
    gated.publish(order("first"))
    with gated.session() as tx:
        for _ in tx.receive("work"):
            tx.publish(order("again", "z"))
    assert entries(gated, "work") == [("arrived", "z", None, "out", "a", 2)]


def test_results_of_what_a_gate_gives_carry_no_origin_or_the_place_at_its_own_gate(gated):
    then = (sq.Queue("then", sq.Unordered()), sq.Subscription("then", where="type = 'done'", to="then"))
    last = (sq.Queue("last", **vars_of(OUT)), sq.Subscription("last", where="type = 'done'", to="last"))
    gated.define(sq.MessageType("done"), *then)
    for gate in (None, "last"):
        if gate is not None:
            gated.define(replace(OUT, gate=gate), *last)
        gated.publish(order())
        work_off(gated, "work", lambda message, tx: out())
        work_off(gated, "out", lambda message, tx: sq.Message(type="done"))
    assert entries(gated, "last") == [("placed", "a", 2, "last", None, 2)]
    done = rows(gated, "SELECT context FROM {schema}.spool WHERE type = 'done' ORDER BY arrival_id")
    assert [one.context.get("origin_queue") for one in done] == [None, "out"]


def test_nobody_else_writes_an_origin(gated):
    forged = {"kind": "x", **dict(zip(ORIGIN, ("work", "a", 0, 1), strict=True))}
    message = sq.Message(type="out", context=forged)
    for publish in (gated.publish, lambda one: gated.publish([one, sq.Message(type="unknown", context=forged)])):
        with pytest.raises(
            sq.UsageError, match="origin_group, origin_incarnation, origin_ordinal, origin_queue can't be"
        ):
            publish(message)
    with gated.session() as tx, pytest.raises(psycopg.errors.InvalidParameterValue, match='property "origin_group"'):
        tx.connection.execute(f"SELECT {gated.schema}.publish('out', '', '{{\"origin_group\": \"a\"}}')")
    with pytest.raises(sq.UsageError, match="origin_queue"):
        sq.Schedule("s", "* * * * *", "out", context={"origin_queue": "work"})
    with pytest.raises(sq.UsageError, match="'Origin_Group' is the name of a column that seriatim adds"):
        sq.MessageType("out", {"Origin_Group": "string"})
    with Staging(gated.dsn, gated.schema, incoming=Incoming("out")) as staging:
        columns = {"kind": ["x"], **{name: [value] for name, value in forged.items() if name != "kind"}}
        staging.merge("writer", 0, [staging.stage("writer", 0, [pa.RecordBatch.from_pydict(columns)])])
    (kept,) = rows(
        gated, "SELECT problem, context FROM {schema}.unrouted JOIN {schema}.spool USING (arrival_id, position)"
    )
    assert kept.problem.startswith("property 'origin_queue' can't be given")
    assert kept.context["origin_queue_"] == "work"
    gated.publish(order())
    with gated.session() as tx:
        for received in tx.receive("work"):
            with pytest.raises(sq.UsageError, match="carries another origin than its cause"):
                tx.publish(sq.Message(type="out", context={**forged, "origin_ordinal": 7}))
            tx.publish(sq.Message(type="out", context=forged), cause=received)
    assert entries(gated, "out") == [("placed", "a", 1, "out", None, 1)]


TRACE_PARENT, TRACE_STATE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=1"


@pytest.mark.parametrize(
    ("own", "its", "has"),
    [
        ({"origin_ordinal": True}, {}, {"origin_ordinal": 1, "parent_id": "m", "correlation_id": "m"}),
        ({"parent_id": None, "correlation_id": "c"}, {}, {"parent_id": "m", "correlation_id": "c"}),
        ({"parent_id": "p"}, {"correlation_id": "c"}, {"parent_id": "p", "correlation_id": "c"}),
        ({}, {"traceparent": TRACE_PARENT}, {"traceparent": TRACE_PARENT, "tracestate": None}),
        # A result with a part of a trace keeps that part, and gets no other from its cause.
        ({"tracestate": TRACE_STATE}, {"traceparent": TRACE_PARENT}, {"traceparent": None, "tracestate": TRACE_STATE}),
        ({"traceparent": TRACE_PARENT}, {"tracestate": TRACE_STATE}, {"traceparent": TRACE_PARENT, "tracestate": None}),
    ],
)
def test_what_a_result_has_of_its_own_stays(gated, own, its, has):
    context = {"location_key": "a", "kind": "plain", **its}
    gated.publish(sq.Message(type="order", context=context, message_id="m"))
    with gated.session() as tx:
        delivery = tx.receive("work")
        tx.publish(sq.Message(type="out", context={"kind": "plain", **own}))
        delivery.done()
    with gated.session() as tx:
        (found,) = tx.receive("out").messages
    assert {name: found.context.get(name) for name in has} == has
    assert type(found.context["origin_ordinal"]) is int


def test_what_is_routed_later_has_its_place_too(gated):
    """Published through SQL, by a pipeline, with a unique key, unrouted or invalid first, and put back."""
    with gated.session() as tx:
        for context in ({"location_key": "a"}, {}):
            tx.connection.execute(f"SELECT {gated.schema}.publish('order', '', %s)", [Jsonb(context)])
    gated.tick()
    with Staging(gated.dsn, gated.schema, incoming=Incoming("order")) as staging:
        rows_of = pa.RecordBatch.from_pydict({"location_key": ["b"], "kind": ["staged"]})
        staging.merge("writer", 0, [staging.stage("writer", 0, [rows_of])])
    gated.publish(order(group="c"), unique="k")
    assert entries(gated, "work") == [("arrived", key, None, "out", None, None) for key in "abc"]
    gated.define(replace(WORK, group=replace(WORK.group, default="nobody")))
    assert messages.resubmit(gated, queue="work").routed == 1
    assert entries(gated, "work")[3:] == [("arrived", "nobody", None, "out", None, None)]

    gated.define(sq.MessageType("priced", {"kind": "string"}, "well_formed_json"))

    def price(message, tx):
        return sq.Message(type="priced", context={"kind": message.context.get("kind")}, body=b"{")

    work_off(gated, "work", price)
    assert rows(gated, "SELECT FROM {schema}.entries") == []
    gated.define(sq.MessageType("priced", {"kind": "string"}))
    assert messages.resubmit(gated).routed == 4
    places = [("a", 1), ("b", 1), ("c", 1), ("nobody", 1)]
    assert [one[3:] for one in entries(gated, "price")] == [("out", *place) for place in places]
    work_off(gated, "price", fail, fails=True)
    assert entries(gated, "price") == []
    for one in dead_letters.dead_letters(gated, "price"):
        dead_letters.requeue(gated, one.entry_id, **BY)
    assert sorted(one[3:] for one in entries(gated, "price")) == [("out", *place) for place in places]


def test_an_edit_leaves_the_origin_as_it_is(gated):
    gated.define(
        sq.Queue("check", sq.Fifo(), group="kind"),
        replace(WORK, gate=replace(WORK.gate, through=["price", "check"])),
        sq.Subscription("check", where="type = 'priced'", to="check"),
    )
    gated.publish([order("x"), order("y")])
    work_off(gated, "work", lambda message, tx: sq.Message(type="priced", context={"kind": message.context["kind"]}))
    work_off(gated, "check", fail, fails=True)
    lines = [json.loads(edits.line_of(one)) for one in edits.export(gated, queue="check")]
    assert [one["context"]["origin_ordinal"] for one in lines] == [1, 2]

    def planned(line):
        return edits.plan(gated, edits.read([json.dumps(line).encode()], "x.jsonl"))

    for name, value in (("origin_ordinal", 7), ("origin_queue", None)):
        (fault,) = planned(lines[0] | {"context": lines[0]["context"] | {name: value}}).faults
        assert f"property '{name}' can't be changed by an edit" in str(fault)
    (done,) = edits.retry(gated, planned(lines[0] | {"body": "{}"}), **BY)
    assert done.changed == ("body",)
    seen = []
    work_off(gated, "check", lambda message, tx: seen.append((message.body, message.context["origin_ordinal"])))
    assert seen == [(b"{}", 1)]
    dead = groups.skip_message(gated, "check", "y", **BY)
    assert dead.after == "ready"
    for one in dead_letters.dead_letters(gated, "check"):
        dead_letters.requeue(gated, one.entry_id, **BY)
    assert [one[3:] for one in entries(gated, "check")] == [("out", "a", 2)]


def test_a_role_carries_the_origin_of_queues_that_it_works_on(gated):
    roles.make(gated, "works", "tells")
    grant(gated, "works", receive=["work"], publish=["out"])
    grant(gated, "tells", publish=["out"], receive=["audit"])
    gated.publish(order(group="g"))
    with roles.as_role(gated, "works") as own, own.session() as tx:
        for _ in tx.receive("work"):
            tx.publish([out(), out()])
            tx.publish(out())
    assert [one[-1] for one in entries(gated, "out")] == [1, 1, 1]
    forged = sq.Message(type="out", context=dict(zip(ORIGIN, ("work", "g", 0, 1), strict=True)))
    for name in ("works", "tells"):
        with roles.as_role(gated, name) as own, own.session() as tx:
            given = {"delay": None, "visible_at": None, "wait": 0, "own": True, "carried": True}
            publisher = Publisher(own.access, forged, **given)
            if name == "works":  # as its sessions do
                publisher.publish(tx.transaction)
                continue
            with pytest.raises(
                psycopg.errors.InvalidParameterValue, match="and those of an origin or a link can't be given"
            ):
                publisher.publish(tx.transaction)
