"""Idle groups expire: they leave a tombstone, or nothing; and a state that sees new groups all the time stays as small as it was."""

from __future__ import annotations

import json
import statistics
from typing import Any

import pytest

from seriatim import BestEffort, Fifo, Group, Queue, Standard, UnitOfWork
from seriatim.spark.control.commands import LOOK, Command
from seriatim.spark.resequence import bucket, commands
from seriatim.spark.state.cold_groups import cold_counts
from seriatim.spark.state.group_index import Index
from seriatim.spark.state.packets import from_bytes
from tests.soak import sized
from tests.spark.resequence.one_bucket import OneBucket, packet

SECOND = 1_000_000


class Operator(OneBucket):
    """One bucket whose groups expire. Times are seconds."""

    def __init__(self, policy: Any, to: str = "tombstone", after: float | None = 10) -> None:
        # Of a policy that takes messages by arrival, the number is only that.
        super().__init__(Queue("q", policy, Group("key", expire_after=after, expire_to=to), "number"))  # type: ignore[arg-type]
        self.arrived = 0
        self.report: dict[str, Any] = {}

    def call(
        self, now: float, *rows: tuple[str, int], size: int | None = None, commands: tuple[Command, ...] = ()
    ) -> Any:
        """What is decided, sorted: key, number, disposition, ordinal, incarnation."""
        given = [(key, number, self.arrived + nth) for nth, (key, number) in enumerate(rows)]
        self.arrived += len(rows)
        out = self.called(round(now * SECOND), [packet(given, size)], commands)
        self.report = json.loads(next(one for one in out["report"] if one))
        tables = [from_bytes(bytes(packet)) for packet in out["packet"] if packet is not None]
        rows_ = [row for table in tables for row in table.to_pylist()]
        names = ("key", "number", "disposition", "ordinal", "incarnation")
        return sorted((tuple(row.get(name) for name in names) for row in rows_), key=str)

    @property
    def state(self) -> Index:
        value = self.index()
        assert value is not None
        return Index.from_bytes(value, None)

    def at_hand(self) -> set[str]:
        """The groups in the index."""
        return {key.decode() for key in self.state.queues["q"].keys.to_pylist()}

    def hot_bytes(self) -> int:
        """What a call reads and writes, whatever it gets."""
        return len(self.index() or b"")

    def cold_bytes(self) -> int:
        """What is read for the keys of a call only."""
        return sum(map(len, self.bodies().values()))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(bucket, "LEAST_PUT_AWAY", 2)


def test_a_tombstone_has_what_decides_about_a_message_that_comes_all_the_same():
    operator = Operator(Standard(hole_timeout=1, on_hole="skip"))
    operator.call(0, ("a", 1), ("a", 3), ("b", 1), ("c", 1))
    assert operator.call(2) == [("a", 3, "released", 2, None)]
    assert operator.call(10.5, ("c", 2)) == [("c", 2, "released", 2, None)]
    assert operator.at_hand() == {"a", "b", "c"}  # one of them has expired, and they go together
    operator.call(12.5)
    assert operator.at_hand() == {"c"}
    assert (cold_counts(operator.state.cold), operator.report["groups"]) == ({"q": 2}, {"q": 3})
    assert operator.call(13, ("a", 2), ("a", 1), ("a", 4), ("b", 1)) == [
        ("a", 1, "duplicate", None, None),
        ("a", 2, "late", None, None),
        ("a", 4, "released", 3, None),
        ("b", 1, "duplicate", None, None),
    ]
    assert operator.at_hand() == {"a", "b", "c"}
    assert operator.report["groups"] == {"q": 3}


def test_what_is_forgotten_begins_as_a_new_incarnation():
    operator = Operator(Standard(), to="nothing")
    assert operator.call(0, ("a", 1), ("b", 1)) == [("a", 1, "released", 1, 0), ("b", 1, "released", 1, 0)]
    assert operator.call(9, ("b", 2)) == [("b", 2, "released", 2, 0)]
    # As if it had been looked at just before: this message is too late by a second.
    assert operator.call(11, ("a", 1), ("b", 3)) == [("a", 1, "released", 1, 1), ("b", 3, "released", 3, 0)]
    again = operator.call(12, ("a", 1), ("c", 1))
    assert again == [("a", 1, "duplicate", None, None), ("c", 1, "released", 1, 1)]
    operator.call(30)
    assert operator.at_hand() == set()
    assert operator.state.queues["q"].forgotten == 2
    assert operator.call(31, ("a", 1)) == [("a", 1, "released", 1, 2)]
    assert operator.cold_bytes() == 0


@pytest.mark.parametrize("to", ["tombstone", "nothing"])
def test_what_waits_or_was_stopped_stays(to):
    operator = Operator(Standard(), to=to)
    operator.call(0, ("held", 2), ("idle", 1), ("lazy", 1), ("stopped", 1))
    suspend = Command("suspend", "q", "stopped", "ada", "a test")
    operator.call(1, commands=(suspend,))
    operator.call(100)
    assert operator.at_hand() == {"held", "stopped"}


@pytest.mark.parametrize("policy", [Fifo(), BestEffort(), UnitOfWork(size=2), UnitOfWork(size="size", timeout=5)])
def test_each_policy_remembers_or_forgets(policy):
    given = {"size": 2} if isinstance(policy, UnitOfWork) and policy.size == "size" else {}
    for to in ("tombstone", "nothing"):
        operator = Operator(policy, to=to)
        operator.call(0, ("a", 1), ("a", 2), ("b", 1), ("b", 2), **given)
        operator.call(100)
        assert operator.at_hand() == set()
        ((_, _, disposition, ordinal, _),) = operator.call(101, ("a", 1), **given) or [("a", 1, "held", None, None)]
        if to == "nothing":
            assert (disposition, ordinal) == (("held", None) if isinstance(policy, UnitOfWork) else ("released", 1))
        else:
            kept = {Fifo: ("released", 3), BestEffort: ("late", None), UnitOfWork: ("duplicate", None)}
            assert (disposition, ordinal) == kept[type(policy)]


def test_a_command_reaches_a_group_that_has_expired():
    operator = Operator(Standard())
    operator.call(0, ("a", 1), ("b", 1))
    operator.call(100)
    assert operator.at_hand() == set()
    operator.call(101, commands=(Command("reset", "q", "a", "ada", "a test", {"next": 7}),))
    (answer,) = operator.report["answers"]
    assert (answer["result"], answer["before"]) == ("done", "ready")
    assert operator.call(102, ("a", 7)) == [("a", 7, "released", 2, None)]
    assert operator.at_hand() == {"a"}


def test_a_look_sees_groups_that_have_expired(monkeypatch):
    monkeypatch.setattr(commands, "MOST_SEEN", 5)
    operator = Operator(Standard())
    operator.call(0, *((f"g{number}", 1) for number in range(6)), ("held", 2))
    operator.call(100)
    operator.call(101, ("g1", 2))
    assert operator.at_hand() == {"g1", "held"}

    def seen(**filter_):
        operator.call(102, commands=(Command(LOOK, None, None, "ada", "a test", filter_),))
        (answer,) = operator.report["answers"]
        assert operator.at_hand() == {"g1", "held"}  # it changes nothing
        return sorted((one["group"], one["state"], one["ordinal"]) for one in answer.get("groups", ())), answer.get(
            "more", 0
        )

    resting = [(f"g{number}", "ready", 1 + (number == 1)) for number in range(6)]
    assert seen(states=["ready"], key="g[0-9]*") == ([], 0)
    assert seen(states=["ready"], key="g?") in [([*resting[:n], *resting[n + 1 :]], 1) for n in range(6)]
    assert seen(group="g3") == ([("g3", "ready", 1)], 0)
    assert seen(group="g9") == ([], 0)
    for filter_ in ({"waits": True}, {"states": ["waiting", "suspended"]}, {"older_than": 1}):
        assert seen(**filter_) == ([("held", "waiting", 0)], 0)


def test_a_state_in_which_nothing_has_expired_is_written_as_one_without_expiry():
    values = []
    for after in (10, None):
        operator = Operator(Standard(), after=after)
        operator.call(0, ("a", 1))
        values.append(operator.index())
    assert values[0] == values[1]


@pytest.mark.soak
@pytest.mark.parametrize("to", ["tombstone", "nothing"])
def test_a_state_with_churn_stays_as_small_as_it_was(to, monkeypatch):
    """Each batch has new groups, which never come again, and the same few that always come."""
    monkeypatch.setattr(bucket, "LEAST_PUT_AWAY", 64)
    batches, new = sized(2_000, 200), 50
    operator = Operator(Standard(), to=to, after=10)
    written: list[int] = []
    for batch in range(batches):
        steady = tuple((f"steady-{one}", batch + 1) for one in range(20))
        fresh = tuple((f"new-{batch}-{one}", 1) for one in range(new))
        decided = operator.call(batch, *steady, *fresh)
        assert len(decided) == 20 + new
        written.append(operator.hot_bytes())
    fifth = batches // 5
    first, last = (statistics.median(part) for part in (written[fifth : 2 * fifth], written[-fifth:]))
    assert last <= 1.15 * first
    assert len(operator.at_hand()) <= 20 + 12 * new + 64 + 100
    assert operator.report["groups"] == {"q": 20 + batches * new if to == "tombstone" else 20 + 10 * new}
    cold = operator.cold_bytes()
    assert cold <= 40 * batches * new if to == "tombstone" else cold == 0
