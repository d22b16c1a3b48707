"""Tickets by arrays are those of a counter that is asked once a message."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim.kernel.groups.sequence import LAST_NUMBER, ticket_position
from seriatim.kernel.stamp import by_arrival, stamp, tickets

wide = st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))
messages = st.lists(st.tuples(st.integers(0, 3), wide, wide), unique=True, max_size=30)


class Counter:
    """A location's numbers, given out one at a time."""

    def __init__(self, last_number: int) -> None:
        self.last_number = last_number
        self.epoch, self.number = 0, 0

    def next(self) -> tuple[int, int]:
        self.number += 1
        if self.number > self.last_number:
            self.epoch, self.number = self.epoch + 1, 1
        return self.epoch, self.number


@settings(deadline=None)
@given(batches=st.lists(messages, max_size=4), last_numbers=st.lists(st.integers(1, 9), min_size=4, max_size=4))
def test_tickets_are_those_of_a_counter(batches: list[list[tuple[int, int, int]]], last_numbers: list[int]) -> None:
    counters = [Counter(last) for last in last_numbers]
    following = np.ones(4, np.int64)
    for batch in batches:
        expected = {row: counters[batch[row][0]].next() for row in sorted(range(len(batch)), key=batch.__getitem__)}
        location, *keys = np.array(batch, np.int64).reshape(-1, 3).T
        order, tie = by_arrival(location, keys)
        assert tie is None
        position, following = stamp(following, location, order)
        given_out = tickets(position, np.array(last_numbers)[location])
        found = list(zip(given_out.epoch.tolist(), given_out.number.tolist(), strict=True))
        assert found == [expected[row] for row in range(len(batch))]
        assert position.tolist() == [
            ticket_position(*ticket, last_numbers[at]) for ticket, at in zip(found, location.tolist(), strict=True)
        ]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), wide, wide), min_size=1, max_size=30))
def test_any_two_equal_messages_are_found(rows: list[tuple[int, int, int]]) -> None:
    location, *keys = np.array(rows, np.int64).T
    order, tie = by_arrival(location, keys)
    assert [rows[row] for row in order] == sorted(rows)
    if tie is None:
        assert len(set(rows)) == len(rows)
    else:
        assert tie[0] != tie[1]
        assert rows[tie[0]] == rows[tie[1]]


@pytest.mark.parametrize(
    ("position", "last_number", "ticket"),
    [
        (1, LAST_NUMBER, (0, 1)),
        (2**53 - 1, LAST_NUMBER, (0, 2**53 - 1)),
        (2**53, LAST_NUMBER, (1, 1)),
        (2**63 - 1, LAST_NUMBER, (1024, 1023)),
        (7, 7, (0, 7)),
        (8, 7, (1, 1)),
        (3, 1, (2, 1)),
    ],
)
def test_a_turn_over_lies_behind_the_last_number(position: int, last_number: int, ticket: tuple[int, int]) -> None:
    found = tickets(np.array([position]), last_number)
    assert (found.epoch[0], found.number[0]) == ticket
    assert ticket_position(*ticket, last_number) == position
