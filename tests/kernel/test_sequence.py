"""What stands for a sequence, and for the size of a set, in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import seriatim as sq


@pytest.mark.parametrize("kind", [int, np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("policy", [sq.Standard(), sq.BestEffort(), sq.BestEffort(by="time", max_rows=2)], ids=repr)
def test_whole_numbers_of_numpy_are_whole_numbers(policy: sq.Policy, kind: Any) -> None:
    sequencer = sq.Sequencer(policy)
    outcome = sequencer.offer([("g", kind(2), "b"), ("g", kind(1), "a")], now=0.0)
    released = outcome.released + sequencer.advance(now=0.0).released
    assert [(one.sequence, one.value, one.ordinal) for one in released] == [(1, "a", 1), (2, "b", 2)]
    assert outcome.invalid == []


@pytest.mark.parametrize("kind", [int, np.int64])
def test_so_are_those_of_a_ticket_and_a_size(kind: Any) -> None:
    tickets = sq.Sequencer(sq.Standard())
    assert len(tickets.offer([("g", (kind(0), kind(2)), "b"), ("g", (kind(0), kind(1)), "a")], now=0.0).released) == 2
    sets = sq.Sequencer(sq.UnitOfWork(size="lines"))
    assert sets.offer([("g", kind(1), {"lines": kind(2)})], now=0.0).released == []
    assert len(sets.offer([("g", kind(2), {})], now=0.0).released) == 2


@pytest.mark.parametrize("sequence", [True, np.True_, 1.5, np.float64(1.5), "1.0", (0, 0), (0, "1")])
def test_what_is_no_whole_number_is_invalid(sequence: object) -> None:
    (item,) = sq.Sequencer(sq.Standard()).offer([("g", sequence, "a")], now=0.0).invalid
    assert item.reason == "the sequence is not a whole number"


@pytest.mark.parametrize("at_once", [3, 1])
def test_a_second_size_contradicts_the_first_also_above_its_own(at_once: int) -> None:
    sets = sq.Sequencer(sq.UnitOfWork(size="size"))
    parts = [("g", 1, {"size": 3}), ("g", 5, {"size": 2}), ("g", 4, {})]
    invalid = [
        (item.sequence, item.reason)
        for n in range(0, 3, at_once)
        for item in sets.offer(parts[n : n + at_once], now=0.0).invalid
    ]
    assert invalid == [
        (5, "the size contradicts the one told before"),
        (4, "the sequence is above the size of the set"),
    ]
