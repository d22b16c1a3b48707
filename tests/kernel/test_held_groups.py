"""Which groups hold messages, and the numbers that they miss."""

from __future__ import annotations

import numpy as np
import pytest

from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork
from seriatim.kernel.groups.state import NOTHING, Flag
from seriatim.kernel.operators.held_groups import held_groups
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.time import NEVER

#: Of each policy: (group, sequence, size) of the messages of five groups, and what is held of them: the group, how many
#: messages, the numbers that it misses, since when, why.
CASES = {
    "standard": (
        Standard(),
        [(0, 1), (1, 2), (1, 5), (1, 6), (3, 1), (3, 3), (3, 9), (4, 1)],
        [(1, 3, 1, 1, 1, Reason.BEHIND_HOLE), (3, 2, 2, 2, 5, Reason.BEHIND_HOLE)],
    ),
    "standard in steps": (
        Standard(start=10, increment=10),
        [(0, 10), (2, 40), (2, 50)],
        [(2, 2, 10, 30, 1, Reason.BEHIND_HOLE)],
    ),
    "a set": (
        UnitOfWork(size="size"),
        [(0, 1), (1, 2), (1, 3), (2, 1), (2, 2, 4), (3, 1), (3, 4), (3, 9, 9), (4, 1, 1)],
        [
            (0, 1, 2, NOTHING, 0, Reason.COLLECTING),
            (1, 2, 1, 1, 1, Reason.COLLECTING),
            (2, 2, 3, 4, 3, Reason.COLLECTING),
            (3, 3, 2, 3, 5, Reason.COLLECTING),
        ],
    ),
    "a round": (
        BestEffort(window=60),
        [(0, 7), (2, 5), (2, 9)],
        [(0, 1, NOTHING, NOTHING, 0, Reason.COLLECTING), (2, 2, NOTHING, NOTHING, 1, Reason.COLLECTING)],
    ),
    "nothing": (Fifo(), [(0, 1), (1, 2)], []),
}


def offered(policy, messages):
    """The state of five groups after messages that arrived at 0, 1, 2 … µs."""
    group, sequence, size = zip(*((*one, NOT_SAID)[:3] for one in messages), strict=True)
    place = np.arange(len(messages))
    arrivals = Arrivals(
        np.array(group), np.array(sequence), place, place, np.array(size), np.ones(len(place), np.int64), 0 * place
    )
    return kernel.offer(policy, kernel.new_state(policy, 5), arrivals).state


def rows(found):
    return list(zip(*found.lists(), strict=True))


@pytest.mark.parametrize("case", CASES)
def test_what_is_held_and_what_it_misses(case):
    policy, messages, wanted = CASES[case]
    assert rows(held_groups(policy, offered(policy, messages))) == wanted


@pytest.mark.parametrize("policy", [Standard(), UnitOfWork(size=9), BestEffort(window=1), Fifo()])
def test_no_groups(policy):
    assert rows(held_groups(policy, kernel.new_state(policy, 0))) == []


def test_a_group_that_a_late_message_stopped_waits_for_an_operator():
    policy = Standard(hole_timeout=1, on_hole="skip", late="suspend")
    state = kernel.advance(policy, offered(policy, [(0, 3)]), 2_000_000).state  # 1 and 2 are skipped
    late = np.array([0])
    state = kernel.offer(
        policy, state, Arrivals(late, late + 2, late + 7, late + 3_000_000, late + NOT_SAID, late + 1, late)
    ).state
    assert state.groups.has(Flag.SUSPENDED)[0]
    assert rows(held_groups(policy, state)) == [(0, 1, NOTHING, NOTHING, NEVER, Reason.LATE_HELD)]
