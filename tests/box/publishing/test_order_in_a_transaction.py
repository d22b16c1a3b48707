"""A transaction's messages are taken in in the order in which it published them, wherever they were received."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.operators import resubmit
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.views.trace import StepKind
from seriatim.operations import invariants, messages, trace
from tests.box.fed import feed
from tests.dialogs.talking import far_of

#: Their names are in the order of the alphabet, and "web" is where each transaction begins.
LOCATIONS = "web", "box"
SIX = range(6)
ORDER = sq.MessageType("order", properties={"customer": "string", "shop": "string", "version": "long", "nth": "long"})
QUEUES = (
    sq.Queue("fifo", sq.Fifo(), group="customer"),
    sq.Queue("best-effort", sq.BestEffort(max_rows=100), group="customer", sequence="version"),
    sq.Queue("first", sq.Standard(start="first", late="deliver"), group="customer", sequence="nth"),
    sq.Queue("gated", sq.Unordered(), group="customer", gate="out"),
    sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal"),
)


@pytest.fixture
def box(box):
    box.define(ORDER, *QUEUES)
    return box


def order(nth, queue="fifo", **more):
    """A message at one location or the other; all are of one customer, and of one version."""
    context = {"location": LOCATIONS[nth % 2], "customer": "c", "version": 1, "nth": nth, "to": queue}
    return sq.Message(type="order", message_id=f"{queue} {nth}", body=b"%d" % nth, context=context | more)


def received(box, queue="fifo"):
    """What leaves a queue, in order."""
    found = []
    while True:
        with box.session() as tx:
            if (delivery := tx.receive(queue, limit=100)) is None:
                return found
            found += [int(one.body) for one in delivery]


def in_one_call(box, *made):
    box.publish(made)


def in_one_call_of_a_transaction(box, *made):
    with box.session() as tx:
        tx.publish(made)


def in_calls(box, *made):
    with box.session() as tx:
        for one in made:
            tx.publish(one)


def in_calls_with_keys(box, *made):
    with box.session() as tx:
        for one in made:
            tx.publish(one, unique=one.message_id)


def in_one_call_with_keys(box, *made):
    in_one_call(box, *(order(int(one.body), one.context["to"], unique_key=one.message_id) for one in made))


def by_sql(box, *made):
    with psycopg.connect(box.dsn) as connection:
        for one in made:
            publish_by_sql(box, connection, one)


def by_both(box, *made):
    """By turns in Python and in SQL, which leaves the message to be routed."""
    with box.session() as tx:
        for nth, one in enumerate(made):
            publish_by_sql(box, tx.connection, one) if nth % 3 else tx.publish(one)


def publish_by_sql(box, connection, message):
    context = dict(message.context)
    location = context.pop("location")
    connection.execute(
        f"SELECT {box.schema}.publish('order', %s, %s, %s, location => %s)",
        [message.body, psycopg.types.json.Jsonb(context), message.message_id, location],
    )


def by_a_pipeline(box, *made):
    """As two tasks of Spark write them, into the queue that they name."""
    rows = [{"message_id": one.message_id, "body": one.body, **one.context} for one in made]
    halves = [pa.RecordBatch.from_pylist(half) for half in (rows[:3], rows[3:]) if half]
    with Staging(box.dsn, box.schema, incoming=Incoming("order")) as staging:
        staging.merge("w", 0, [staging.stage("w", 0, [half], number) for number, half in enumerate(halves)])


WITHOUT_KEYS = in_one_call, in_one_call_of_a_transaction, in_calls, by_sql, by_both, by_a_pipeline
WAYS = (*WITHOUT_KEYS, in_calls_with_keys, in_one_call_with_keys)


@pytest.mark.parametrize("publish", WAYS)
def test_over_two_locations_they_leave_as_they_were_published(box, publish):
    publish(box, *map(order, SIX))
    assert received(box) == [*SIX]
    assert invariants.broken(box) == []


def test_each_location_numbers_its_own_without_a_gap(box):
    in_one_call(box, *map(order, SIX))
    with box.session() as tx:
        rows = f"SELECT location, number, body FROM {box.schema}.messages ORDER BY location DESC, number"
        found = [(location, number, int(body)) for location, number, body in tx.connection.execute(rows)]
    assert found == [("web", 1, 0), ("web", 2, 2), ("web", 3, 4), ("box", 1, 1), ("box", 2, 3), ("box", 3, 5)]


@pytest.mark.parametrize("publish", WAYS)
def test_equal_versions_leave_in_that_order(box, publish):
    publish(box, *(order(nth, "best-effort") for nth in SIX))
    assert received(box, "best-effort") == [*SIX]


@pytest.mark.parametrize("publish", WITHOUT_KEYS)
def test_the_first_of_a_transaction_begins_the_group(box, publish):
    publish(box, *(order(nth, "first") for nth in (4, 5, 6, 7, 3)))
    assert received(box, "first") == [4, 5, 6, 7, 3]


@pytest.mark.parametrize("publish", [one for one in WITHOUT_KEYS if one is not by_both])
def test_places_at_a_gate_are_given_in_that_order(box, publish):
    publish(box, *(order(nth, "gated") for nth in SIX))
    while True:  # in any order, each with a result
        with box.session() as tx:
            if (delivery := tx.receive("gated", limit=1)) is None:
                break
            for one in delivery:
                tx.publish(sq.Message(type="order", body=one.body, context={"to": "out", "version": 1}), cause=one)
    assert received(box, "out") == [*SIX]


def test_results_at_one_place_of_a_gate_leave_in_that_order(box):
    box.publish(order(0, "gated"))
    with box.session() as tx:
        (one,) = tx.receive("gated", limit=1)
        for nth in SIX:
            context = {"to": "out", "location": LOCATIONS[nth % 2], "version": 1}
            tx.publish(sq.Message(type="order", body=b"%d" % nth, context=context), cause=one)
    assert received(box, "out") == [*SIX]


def test_a_transaction_is_behind_those_that_were_committed_before(box):
    """It began first, and has the other's location as its first one."""
    with box.session() as late:
        late.publish([order(4, location="box"), order(5, location="web")])
        box.publish([order(0), order(1)])
        in_calls(box, order(2), order(3))
    assert received(box) == [0, 1, 2, 3, 4, 5]


def test_what_was_published_before_leaves_the_others_in_their_order(box):
    box.publish(order(3))
    with box.session() as tx:
        tx.publish([order(0), order(3), order(1)])
        tx.publish([order(0), order(2), order(1), order(4)])
    assert received(box) == [3, 0, 1, 2, 4]
    in_one_call(box, *map(order, SIX))
    assert received(box) == [5]


def test_what_a_savepoint_takes_back_leaves_the_others_in_their_order(box):
    with box.session() as tx:
        tx.publish(order(0))
        with tx.connection.transaction(force_rollback=True):
            tx.publish([order(1), order(2)])
        tx.publish([order(3), order(2)])
        tx.publish(order(1))
    assert received(box) == [0, 3, 2, 1]


def test_more_than_a_turn_takes_in_comes_in_that_order(box):
    many = 500
    in_calls(box, *map(order, range(many)))
    found = []
    while True:
        with box.session() as tx:
            if (delivery := tx.receive("fifo", limit=7)) is None:
                break
            found += [int(one.body) for one in delivery]
    assert found == [*range(many)]


def test_one_at_a_time_they_come_in_that_order(box):
    in_one_call(box, *map(order, SIX))
    for nth in SIX:
        with box.session() as tx:
            assert [int(one.body) for one in tx.receive("fifo", limit=1)] == [nth]


@pytest.mark.parametrize("publish", [in_one_call, in_calls, by_sql])
def test_what_nobody_wanted_is_routed_again_in_that_order(box, publish, monkeypatch):
    monkeypatch.setattr(resubmit, "_BATCH", 2)
    publish(box, *(order(nth, None) for nth in SIX))
    box.tick()
    assert messages.resubmit(box) == resubmit.Resubmitted(0, 6)
    box.define(sq.Subscription("all", where="type = 'order'", to="fifo"))
    assert messages.resubmit(box) == resubmit.Resubmitted(6, 0)
    assert received(box) == [*SIX]


def test_what_was_invalid_is_routed_again_in_that_order(box, monkeypatch):
    monkeypatch.setattr(resubmit, "_BATCH", 2)
    box.define(sq.Queue("strict", sq.Fifo(), group="shop"))
    in_one_call(box, *(order(nth, "strict") for nth in SIX))
    box.define(sq.Queue("strict", sq.Fifo(), group=sq.Group("shop", default="none")))
    assert messages.resubmit(box, queue="strict") == resubmit.Resubmitted(6, 0)
    assert received(box, "strict") == [*SIX]


def test_what_people_see_is_in_that_order(box):
    in_one_call(box, *map(order, SIX))
    names = [f"fifo {nth}" for nth in SIX]
    assert [one.message.message_id for one in box.peek("fifo")] == names
    assert [one.message_id for one in messages.messages(box, queue="fifo")] == names
    steps = trace.trace_group(box, "fifo", "c")
    assert [one.message_id for one in steps if one.kind == StepKind.RECEIVED] == names
    (head,) = box.peek("fifo", limit=1)
    assert head.message.message_id == names[0]


def test_what_a_disabled_trigger_left_is_numbered_in_that_order(box):
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"ALTER TABLE {box.schema}.arrivals DISABLE TRIGGER number_at_commit")
    in_calls(box, *map(order, range(3)))
    in_one_call_of_a_transaction(box, *map(order, range(3, 6)))
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"ALTER TABLE {box.schema}.arrivals ENABLE ALWAYS TRIGGER number_at_commit")
    box.tick()
    assert received(box) == [*SIX]


def test_two_dialogs_of_a_conversation_group_are_read_as_they_were_sent(box):
    """What a service sends is received at the other one: "Web" and "Box" have one queue, and here one group."""
    box.define(
        sq.Contract("Talk", {"Note": "any"}),
        *(
            sq.Service(name, queue=queue, contracts=["Talk"])
            for name, queue in (("Web", "desk"), ("Box", "desk"), ("Home", "home"))
        ),
    )
    with box.session() as tx:
        web = tx.begin_dialog("Web", "Home", contract="Talk")
        other = tx.begin_dialog("Box", "Home", contract="Talk", related_to=web)
        tx.send_many([(web, "Note", b"-1"), (other, "Note", b"-1")])
    assert received(box, "home") == [-1, -1]
    sides = far_of(box, web), far_of(box, other)
    with box.session() as tx:
        tx.send_many([(sides[nth % 2], "Note", b"%d" % nth) for nth in SIX])
        for nth in SIX:
            tx.send(sides[nth % 2], "Note", b"%d" % (6 + nth))
    assert received(box, "desk") == [*range(12)]


def test_a_pipeline_reads_them_in_that_order(box):
    in_one_call(box, *map(order, SIX))
    with feed(box, "fifo") as reading:
        reader, batch, _ = reading.next("", 0, 100)
        rows = [
            row
            for part in reading.parts(reader, 0, batch)
            for some in reading.read(0, batch, part, {})
            for row in some.to_pylist()
        ]
    assert [int(row["body"]) for row in rows] == [*SIX]
