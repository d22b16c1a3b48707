"""Times of arrival as engines give them: in any order within a group, and of messages that arrived after a timer was due."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.policy import BestEffort, Policy, Standard, UnitOfWork
from seriatim.kernel.values.columns import running_latest
from seriatim.kernel.values.time import FOREVER, NEVER, micros
from tests.kernel.arrival_times import SKIPPING, arrivals, check_falling_times, check_settled

POLICIES = (SKIPPING, Standard(hole_timeout=2), BestEffort(window=3), UnitOfWork(size=4, timeout=5))


def same(one: kernel.Outcome, other: kernel.Outcome) -> None:
    for mine, theirs in ((one.state.groups, other.state.groups), (one.state.held, other.state.held)):
        assert mine.lists() == theirs.lists()
    assert one.decided.lists() == other.decided.lists()
    assert one.events.lists() == other.events.lists()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 20)), min_size=1, max_size=10),
    start=st.integers(0, 12),
)
def test_an_earlier_time_counts_as_the_latest(policy: Policy, rows: list[tuple[int, int, int]], start: int) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    latest: list[tuple[int, int, float]] = []
    for group in range(3):
        mine = [row for row in rows if row[0] == group]
        times = list(accumulate((time for _, _, time in mine), max, initial=start))[1:]
        latest += [(group, number, time) for (_, number, _), time in zip(mine, times, strict=True)]
    begun = kernel.new_state(policy, 3).with_groups(clock=np.full(3, micros(start), np.int64))
    one, other = (kernel.offer(policy, begun, arrivals(*given)) for given in (rows, latest))
    same(one, other)
    for now in (13, 40):
        one, other = (kernel.advance(policy, outcome.state, micros(now)) for outcome in (one, other))
        same(one, other)


def test_the_latest_time_so_far_is_found_for_any_numbers() -> None:
    group = np.array([0, 0, 0, 3, 3, 4])
    times = np.array([5, NEVER, 7, FOREVER, 2, NEVER])
    assert running_latest(group, times).tolist() == [5, 5, 7, FOREVER, FOREVER, NEVER]
    assert running_latest(group[:1], times[:1]).tolist() == [5]


def test_times_that_fall() -> None:
    check_falling_times()


def test_what_is_settled_as_of_a_due_time() -> None:
    check_settled()


def test_a_timeout_of_nearly_all_time_overflows_nothing() -> None:
    policy = Standard(hole_timeout="53000000d", on_hole="skip")
    taken = kernel.offer(policy, kernel.new_state(policy, 1), arrivals((0, 2, 0), (0, 4, 1), (0, 6, 2)))
    assert not len(kernel.advance(policy, taken.state, micros("40000000d")).decided)
    assert kernel.advance(policy, taken.state, FOREVER - 1).decided.sequence.tolist() == [2]
