"""Many groups, queues, subscriptions and waiting messages: what a call costs doesn't grow with what it has nothing to do with.

At full size it takes 20 minutes.
"""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import invariants, queues
from tests.box.shop import rows
from tests.soak import sized

pytestmark = pytest.mark.soak

#: Groups, queues, subscriptions, messages that wait in one group.
GROUPS, QUEUES, SUBSCRIPTIONS, WAITING = (
    sized(100_000, 600), sized(5_000, 60), sized(10_000, 120), sized(1_000_000, 2_000),
)  # fmt: skip
#: A call publishes so many.
_CALL = 5_000
EVENT = sq.MessageType("event", properties={"key": "string", "n": "long", "kind": "long"})


def event(key, n, kind=0):
    return sq.Message(type="event", context={"key": key, "n": n, "kind": kind})


def publish(box, events):
    for at in range(0, len(events), _CALL):
        box.publish(events[at : at + _CALL])


def define(box, policy=None):
    box.define(
        EVENT, sq.Queue("q", policy or sq.Standard(), group="key", sequence="n"),
        sq.Subscription("all", where="type = 'event'", to="q"),
    )  # fmt: skip


def worked_on(box, count, **options):
    """What a worker does until it has been given so many messages."""
    found = []

    def handle(message, tx):
        found.append((message.context["key"], message.sequence))
        if len(found) >= count:
            worker.stop()

    worker = sq.Worker(box, "q", handle, **options)
    worker.run()
    return found


def test_each_of_many_groups_is_handed_out_once(box):
    define(box)
    publish(box, [event(f"g{at}", n) for n in (2, 1) for at in range(GROUPS)])
    found = worked_on(box, 2 * GROUPS, workers=4)
    assert sorted(found) == sorted((f"g{at}", n) for n in (1, 2) for at in range(GROUPS))
    assert invariants.broken(box) == []


def test_many_queues_and_subscriptions(box):
    box.define(EVENT, *(sq.Queue(f"q{at}", sq.Fifo(), group="key") for at in range(QUEUES)))
    box.define(
        *(
            sq.Subscription(f"s{at}", where=f"type = 'event' AND kind = {at}", to=f"q{at % QUEUES}")
            for at in range(SUBSCRIPTIONS)
        )
    )
    publish(box, [event("a", 1, kind) for kind in range(SUBSCRIPTIONS)])
    assert sum(one.arrived for one in queues.queues(box)) == SUBSCRIPTIONS
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other, other.session() as tx:
        found = list(tx.receive(f"q{QUEUES - 1}", limit=50))
    assert [one.context["kind"] for one in found] == list(range(QUEUES - 1, SUBSCRIPTIONS, QUEUES))
    assert box.define(sq.Subscription("s0", where="type = 'event' AND kind = 0", to="q0")) == []
    box.tick()
    assert invariants.broken(box) == []


def test_a_long_group_goes_in_order_and_others_go_beside_it(box):
    define(box)
    publish(box, [event("long", n) for n in range(1, WAITING + 1)])
    publish(box, [event("other", 1)])
    with box.session() as tx:
        first = tx.receive("q", limit=50)
        with box.session() as beside:
            assert [one.context["key"] for one in beside.receive("q")] == ["other"]
        assert [one.sequence for one in first] == list(range(1, 51))
    assert worked_on(box, WAITING - 50, workers=2) == [("long", n) for n in range(51, WAITING + 1)]


def test_many_that_wait_behind_a_hole_come_when_it_is_filled(box):
    define(box)
    publish(box, [event("held", n) for n in range(2, WAITING + 1)])
    with box.session() as tx:
        assert tx.receive("q") is None
    publish(box, [event("held", 1)])
    found = worked_on(box, WAITING, workers=2)
    assert found == [("held", n) for n in range(1, WAITING + 1)]
    assert rows(box, "SELECT count(*) AS n FROM {schema}.entries")[0].n == 0
