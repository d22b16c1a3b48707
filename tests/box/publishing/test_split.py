"""However what a group has is cut into deliveries, put back and rolled back, it leaves once, in order, with its ordinals."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seriatim as sq
from tests.soak import sized

POLICIES = {
    "standard": sq.Standard(),
    "delivers late": sq.Standard(start="first", late="deliver"),
    "fifo": sq.Fifo(),
    "best effort": sq.BestEffort(max_rows=3),
    "unit of work": sq.UnitOfWork(size=6),
}
TYPE = sq.MessageType("split", properties={"key": "string", "number": "long"})
_RUNS = itertools.count(1)


@dataclass(frozen=True)
class Receive:
    """A transaction that receives so many, and what then becomes of the delivery and of the transaction."""

    limit: int
    ends: str


PUBLISHED = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9)), min_size=1, max_size=8)
RECEIVED = st.builds(
    Receive, st.sampled_from([1, 2, 50]), st.sampled_from(["done", "put back", "rolled back", "put back, then done"])
)
STEPS = st.lists(st.one_of(PUBLISHED, RECEIVED), min_size=1, max_size=14)


@pytest.fixture(scope="module")
def box(postgresql):
    with sq.MessageBox.open(postgresql, schema="split") as opened:
        opened.define(
            TYPE, *(sq.Queue(name, policy, group="key", sequence="number") for name, policy in POLICIES.items())
        )
        yield opened


class Queue:
    """One queue of the box, in which every example has groups of its own; and the same in memory beside it."""

    def __init__(self, box, name):
        self.box, self.name, self.policy = box, name, POLICIES[name]
        self.run = next(_RUNS)
        self.expected = sq.Sequencer(self.policy)
        self.left, self.wanted = {}, {}
        self.count = itertools.count()

    def publish(self, items):
        messages = [(f"{key}{self.run}", number, next(self.count)) for key, number in items]
        with self.box.session() as tx:
            tx.publish(
                [
                    sq.Message(type="split", message_id=f"{self.run}/{n}",
                               context={"key": key, "number": number, "to": self.name})
                    for key, number, n in messages
                ]
            )  # fmt: skip
        self.take(self.expected.offer(messages))

    def take(self, outcome):
        for one in outcome.released:
            self.wanted.setdefault(one.group, []).append((one.value, one.ordinal, one.late))

    def receive(self, how):
        """What a delivery brought that was completed and committed; None if there was none."""
        with self.box.session() as tx:
            delivery = tx.receive(self.name, limit=how.limit)
            if delivery is None:
                return False
            assert isinstance(self.policy, sq.UnitOfWork) or len(delivery) <= how.limit
            if how.ends == "put back, then done":
                seen = self.seen(delivery)
                delivery.put_back()
                delivery = tx.receive(self.name, limit=how.limit, group=delivery.group)
                again = self.seen(delivery)
                # A look is a round of its own, and may release more.
                assert (again[: len(seen)] if isinstance(self.policy, sq.BestEffort) else again) == seen
            if how.ends == "put back":
                return True
            delivery.done()
            if how.ends == "rolled back":
                tx.connection.rollback()
                return True
        self.left.setdefault(delivery.group, []).extend(self.seen(delivery))
        return True

    @staticmethod
    def seen(delivery):
        return [(int(one.message_id.split("/")[1]), one.ordinal, one.late) for one in delivery.messages]

    def drain(self, limit):
        while self.receive(Receive(limit, "done")):
            pass


@pytest.mark.soak
@pytest.mark.dear
@pytest.mark.parametrize("name", [name for name in POLICIES if name != "best effort"])
@given(steps=STEPS, last=st.sampled_from([1, 2, 50]))
@settings(max_examples=sized(500, 25, 5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_order_and_ordinals_are_those_of_the_kernel(box, name, steps, last):
    queue = Queue(box, name)
    for step in steps:
        if isinstance(step, Receive):
            queue.receive(step)
        else:
            queue.publish(step)
    queue.drain(last)
    assert queue.left == queue.wanted


@pytest.mark.soak
@given(steps=STEPS, last=st.sampled_from([1, 2, 50]))
@settings(max_examples=sized(500, 25, 5), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rounds_leave_once_by_their_ordinals(box, steps, last):
    """Which round a message gets into depends on who looks when: so only what holds of any rounds."""
    queue = Queue(box, "best effort")
    published = set()
    for step in steps:
        if isinstance(step, Receive):
            queue.receive(step)
        else:
            queue.publish(step)
            published |= {f"{key}{queue.run}" for key, _ in step}
    queue.drain(last)
    assert set(queue.left) == published
    for left in queue.left.values():
        assert [ordinal for _, ordinal, _ in left] == list(range(1, len(left) + 1))
        assert len({number for number, _, _ in left}) == len(left)
