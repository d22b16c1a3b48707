"""A gate: results leave in the order of the messages that they came from."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import events, groups, invariants
from tests.box.shop import rows

BY = {"actor": "ann", "reason": "it is lost"}
JOB = sq.MessageType("job", {"key": "string", "n": "long"})
DONE = sq.MessageType("done", {"origin_group": "string", "origin_ordinal": "long", "of": "string"})
WORK = sq.Queue("work", sq.Fifo(), group="key", gate="out", errors="continue", attempts=1)
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
WAY = sq.Queue("price", sq.Fifo(), group="of")
ALL = (
    sq.Subscription("work", where="type = 'job'", to="work"),
    JOB, DONE, OUT, WORK,
)  # fmt: skip


def marked(tx):
    """Stand-in."""
    box = tx.access.schema
    with tx.connection.cursor() as c:
        c.execute(f"UPDATE {box}.entries SET gate_id = (SELECT queue_id FROM {box}.queues WHERE queue = 'out') WHERE queue_id = (SELECT queue_id FROM {box}.queues WHERE queue='work') AND gate_id IS NULL")
        c.execute(f"UPDATE {box}.entries SET gate_id = (SELECT queue_id FROM {box}.queues WHERE queue = 'out'), origin_group=x.context->>'origin_group', origin_number = (x.context->>'origin_ordinal')::bigint FROM {box}.spool x WHERE x.arrival_id = entries.arrival_id AND x.position=entries.position AND queue_id = (SELECT queue_id FROM {box}.queues WHERE queue='price') AND gate_id IS NULL")
        c.execute(f"UPDATE {box}.entries SET gate_id = queue_id, origin_number = sequence, status = 'placed' WHERE queue_id = (SELECT queue_id FROM {box}.queues WHERE queue='out') AND gate_id IS NULL")


def publish(box, count, key="a"):
    with box.session() as tx:
        tx.publish([sq.Message(type="job", context={"key": key, "n": n}) for n in range(1, count + 1)])
        marked(tx)


def result(message, name, to="out"):
    origin = message.context.get("origin_group", message.context.get("key")), message.context.get("origin_ordinal", message.ordinal)
    return sq.Message(type="done", context={"origin_group": origin[0], "origin_ordinal": origin[1], "of": name, "to": to})


def received(box, queue="out", limit=100):
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=limit)
            if delivery is None:
                return found
            found += [(one.context["of"], one.ordinal, one.late) for one in delivery]


@pytest.fixture
def gated(box):
    box.define(*ALL)
    yield box
    assert invariants.broken(box) == []


def put(box, message_ids, name):
    """A result by hand, of numbers."""


def work(box, *answers, queue="work", group=None, limit=None):
    """Work on the next messages, together; what each answers, by the text of its result."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=limit or len(answers), group=group)
        for message, its in zip(delivery, answers, strict=True):
            for one in its.split():
                to = "price" if one.startswith("p") else "out"
                tx.publish(result(message, one, to))
        marked(tx)


def test_results_leave_by_number_with_the_results_of_their_place(gated):
    publish(gated, 3)
    work(gated, "a b", "", "c")
    assert received(gated) == [("a", 1, False), ("b", 2, False), ("c", 3, False)]
    (view,) = groups.groups(gated, "out")
    assert (view.group, view.next) == ("a", 4)
    assert [(one.kind, one.first, one.last) for one in events.events(gated, queue="out")] == [("void", 2, 2)]
    publish(gated, 1)
    work(gated, "d")
    assert received(gated) == [("d", 4, False)]


def test_a_hop(gated):
    gated.define(WAY, sq.Queue("work", sq.Fifo(), group="key", gate="out", through=["price"], errors="continue", attempts=1))
    publish(gated, 4)
    work(gated, "p1 x1", "p2", "p3", "x4")
    assert received(gated) == []
    work(gated, "x2", queue="price", group="p2")
    assert received(gated) == []
    (view,) = groups.groups(gated, "out")
    print(view)
    work(gated, "", queue="price", group="p3")
    assert received(gated) == []
    work(gated, "y1 z1", queue="price", group="p1")
    assert received(gated) == [("x1", 1, False), ("y1", 2, False), ("z1", 3, False), ("x2", 4, False), ("x4", 5, False)]
