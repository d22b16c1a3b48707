"""A group of which the next numbers have come: what is found without columns is what the rules find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim import Fifo, Policy, Standard, UnitOfWork
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.policy import with_stays
from seriatim.kernel.groups.state import Flag, Groups, State
from seriatim.kernel.policies.next_numbers import OneGroup, after_next_numbers
from seriatim.kernel.values.outcome import Disposition, EventKind
from tests.kernel import strategies
from tests.soak import full, sized

pytestmark = pytest.mark.soak

prove = settings(max_examples=sized(8_000, 400, 80), derandomize=not full(), deadline=None, database=None)


def arrivals(numbers: Sequence[int], times: Sequence[int], voids: Sequence[int] = (), first_ref: int = 0) -> Arrivals:
    count = len(numbers)
    none = np.zeros(count, np.int64)
    return Arrivals(
        none,
        np.array(numbers, np.int64),
        first_ref + np.arange(count),
        np.array(times, np.int64),
        np.full(count, NOT_SAID, np.int64),
        np.array([number not in voids for number in numbers], np.int64),
        none,
    )


def only(state: State) -> OneGroup:
    return OneGroup(*(int(getattr(state.groups, name)[0]) for name in Groups.__match_args__))


def is_empty(state: State) -> bool:
    return not len(state.held) and not len(state.skipped)


@st.composite
def what_comes(draw: st.DrawFn, policy: Standard) -> tuple[State, list[int], list[int]]:
    """A group that something has happened to, numbers that mostly are its next ones, in any order, and which are voids."""
    state = kernel.new_state(policy, 1)
    before = draw(st.lists(st.integers(-2, 6), max_size=6))
    state = kernel.offer(policy, state, arrivals(before, range(len(before)))).state
    if draw(st.booleans()):
        flag = draw(st.sampled_from([*Flag]))
        state = state.with_groups(flags=state.groups.flags | int(flag))
    first, step = only(state).next, policy.increment
    numbers = [first + step * at for at in range(draw(st.integers(0, 6)))]
    if numbers and draw(st.integers(0, 3)) == 0:
        numbers[draw(st.integers(0, len(numbers) - 1))] += draw(st.sampled_from([-1, 1, step, 9]))
    voids = draw(st.lists(st.sampled_from(numbers), max_size=3)) if numbers else []
    return state, draw(st.permutations(numbers)), sorted(set(voids))


@prove
@given(policy=strategies.standards, data=st.data())
def test_it_is_what_the_rules_find(policy: Standard, data: st.DataObject) -> None:
    state, came, voids = data.draw(what_comes(policy))
    messages = sorted(number for number in came if number not in voids)
    found = after_next_numbers(policy, only(state), messages, voids, 100 + len(came) - 1) if is_empty(state) else None
    if found is None:
        return
    outcome = kernel.offer(policy, state, arrivals(came, [100 + at for at in range(len(came))], voids, 100))
    released = outcome.decided.take(outcome.decided.disposition == Disposition.RELEASED)
    assert found == only(outcome.state)
    assert released.sequence.tolist() == messages
    assert released.ordinal.tolist() == [only(state).ordinal + 1 + at for at in range(len(messages))]
    assert not outcome.decided.late.any()
    assert len(outcome.decided) == len(came)
    assert is_empty(outcome.state)
    assert set(outcome.events.kind.tolist()) == ({int(EventKind.VOID)} if voids else set())


@pytest.mark.parametrize("policy", [Standard(), Standard(start=0, increment=3, hole_timeout=5, on_hole="skip")])
def test_next_numbers_of_a_group_that_holds_nothing_are_enough(policy: Standard) -> None:
    new = only(kernel.new_state(policy, 1))
    first, step = new.next, policy.increment
    after = after_next_numbers(policy, new, [first, first + step, first + 3 * step], [first + 2 * step], 7)
    assert after is not None
    assert (after.next, after.ordinal, after.last, after.clock) == (first + 4 * step, 3, first + 3 * step, 7)
    again = after_next_numbers(policy, after, [after.next], [], 5)
    assert again is not None
    assert (again.next, again.ordinal, again.clock) == (first + 5 * step, 4, 7)


@pytest.mark.parametrize(
    ("policy", "numbers"),
    [
        (Standard(), []),
        (Standard(), [2]),
        (Standard(), [1, 1]),
        (Standard(), [1, 3]),
        (Standard(), [0, 1]),
        (Standard(start="first"), [1]),
        (Standard(capacity=9), [1]),
        (with_stays(Standard(), opens=True, closes=False, unopened_timeout=None), [1]),
        (Fifo(), [1]),
        (UnitOfWork(size=1), [1]),
    ],
)
def test_whatever_else_it_is_the_rules_are_asked(policy: Policy, numbers: list[int]) -> None:
    assert after_next_numbers(policy, only(kernel.new_state(policy, 1)), numbers, [], 0) is None


def test_the_last_numbers_of_all_are_left_to_the_rules() -> None:
    group = only(kernel.new_state(Standard(), 1))._replace(next=2**63 - 2)
    assert after_next_numbers(Standard(), group, [2**63 - 2], [], 0) is not None
    assert after_next_numbers(Standard(), group, [2**63 - 2, 2**63 - 1], [], 0) is None
