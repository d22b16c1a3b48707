"""Stamping: the ticket of each message of a batch.

A location's tickets are one run of *positions* 1, 2, 3 …, cut into epochs of `last_number` numbers each::

    position = epoch * last_number + number        epoch = 0, 1, 2 …        1 <= number <= last_number

So only the next position of a location has to be remembered, and a turn-over is no event: it is part of the notation of
a position. `sequence.ticket_position` converts back. Keys decide which of two messages of a location arrived first; if
they are equal there is no order, and the caller gets both messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seriatim.kernel.values.columns import Bools, Columns, Ints, empty_ints, rank_in_group

#: Keys are combined into numbers below this.
_ROOM = 2**62


@dataclass(frozen=True, slots=True)
class Tickets(Columns):
    epoch: Ints
    number: Ints


def tickets(position: Ints, last_number: int | Ints) -> Tickets:
    """The tickets at some positions (from 1); `last_number` is one number for all rows or one for each row."""
    epoch, number = np.divmod(position - 1, last_number)
    return Tickets(epoch, number + 1)


def stamp(following: Ints, location: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Give the messages of a batch their positions. `following`: for each location the position of its next message. `location`: the
    location of each message, a row of `following`. `order`: the rows of the messages, sorted by location, and within a location in order of
    arrival. Returns the position of each message, in the order of `location`; and `following` after the batch.
    """
    sorted_locations = location[order]
    position = empty_ints(len(location))
    position[order] = following[sorted_locations] + rank_in_group(sorted_locations)
    return position, following + np.bincount(location, minlength=len(following))


def by_arrival(location: Ints, keys: Sequence[Ints]) -> tuple[Ints, tuple[int, int] | None]:
    """Sort messages in order of arrival. `location`: the location of each message, from 0. `keys`: the keys of the order, the first key
    first; ascending. Returns the rows sorted by location and then by the keys; and two rows that are equal in all keys, if there are any:
    then the order is not total.
    """
    if not len(location):
        return empty_ints(), None
    combined = _combined([location, *keys])
    order = np.argsort(combined, kind="stable")
    sorted_keys = combined[order]
    same: Bools = sorted_keys[1:] == sorted_keys[:-1]
    if not same.any():
        return order, None
    first = int(np.argmax(same))
    return order, (int(order[first]), int(order[first + 1]))


def _combined(columns: Sequence[Ints]) -> Ints:
    """One number for each row that sorts like the columns, one after another."""
    combined, room = empty_ints(len(columns[0])), 1
    for column in columns:
        lifted, span = _from_zero(column)
        if room * span >= _ROOM:
            # Ranks are below the number of rows, and the product of two of these always fits.
            (combined, room), (lifted, span) = _ranked(combined), _ranked(column)
        combined = combined * span + lifted
        room *= span
    return combined


def _from_zero(column: Ints) -> tuple[Ints, int]:
    low, high = int(column.min()), int(column.max())
    return (column - low, high - low + 1) if high - low < _ROOM else _ranked(column)


def _ranked(column: Ints) -> tuple[Ints, int]:
    distinct, rank = np.unique(column, return_inverse=True)
    return rank.astype(np.int64, copy=False), len(distinct)
