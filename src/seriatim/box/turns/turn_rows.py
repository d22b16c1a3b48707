"""The rows that a turn reads, as columns: groups, requests and entries."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seriatim.box.postgres.array_text import numbers_in
from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.groups.policy import Policy, StandardNumbers
from seriatim.kernel.groups.state import Groups, Lives, Ranges, Remembered, State
from seriatim.kernel.resequence import new_state
from seriatim.kernel.values.columns import Bools, Columns, Ints, spans
from seriatim.kernel.values.time import NEVER

#: The statuses of entries; see `Entries`.
ARRIVED, HELD, QUEUED, LOOKED_UP = 0, 1, 2, 3
#: As a group's row has numbers and fingerprints.
_STORED = np.dtype("<i8")
_PAIR = 2


class GroupRow(NamedTuple):
    group_key: str
    incarnation: int
    state: list[int]
    #: As PostgreSQL writes an array.
    skipped: str
    arrivals: int
    decided: list[int]
    #: In PostgreSQL's Base64: the last messages that left, a number and a fingerprint each; with spans also the last number. Of positions
    #: those that `state` has ranks of, see ``positions.py``.
    remembered: str
    #: As PostgreSQL writes an array, see the table; None: its numbers are plain.
    lives: str | None = None


_columns_of_groups = attrgetter(
    "group_keys", "incarnations", "states", "skipped", "group_arrivals", "decided", "remembered", "lives"
)


def known_groups(row: Any) -> list[GroupRow]:
    """Convert a row with a list for each column; NULLs if no group is known."""
    return list(map(GroupRow._make, zip(*_columns_of_groups(row), strict=True))) if row.group_keys else []


class Request(NamedTuple):
    """An operator's request for a group that was locked then, by the group's place in the turn."""

    place: int
    request_id: int
    action: str


@dataclass(frozen=True, slots=True)
class Entries(Columns):
    """Entries, as ``turn.sql`` returns them: by group, and within a group in the order in which they arrived, or leave. `place` is the
    place of a row's group among the groups of the turn; `status` 0: arrived, 1: held, 2: queued, 3: held, with the number of an arrived
    message; such an entry may also be there with status 1. `time`: when it arrived, microseconds; of a held message perhaps `NEVER`: a turn
    has judged it, and has fired all timers that were due then. `size`: that of its set, `NOT_SAID` if it doesn't tell it; of a `Fifo` or
    `Standard` queue its marks (``marks.py``).
    """

    place: Ints
    status: Ints
    entry_id: Ints
    sequence: Ints
    size: Ints
    rank: Ints
    visible: Ints
    arrival: Ints
    ordinal: Ints
    late: Bools
    waits: Bools
    time: Ints
    #: What their numbers mean, as PostgreSQL's text; None: they are plain.
    meaning: NDArray[np.object_] | None = None

    @classmethod
    def of(cls, row: Any) -> Entries:
        """Convert the row of the statement, with a list for each column; None if there are no entries."""
        return cls(
            _ints(row.places),
            _ints(row.codes),
            _ints(row.entry_ids),
            _ints(row.sequences, 0),
            _ints(row.sizes, NOT_SAID),
            _ints(row.ranks),
            _ints(row.visible, 0),
            _ints(row.arrivals, 0),
            _ints(row.ordinals, 0),
            np.array(row.late or (), np.bool_),
            np.array(row.waits or (), np.bool_),
            _ints(row.times, NEVER),
            np.array(row.meanings, np.object_) if row.meanings is not None and any(row.meanings) else None,
        )


class TurnRows(NamedTuple):
    """The rows that were read of the groups of a turn. `keys`: the groups. `known`: the stored states of known groups, in any order;
    `incarnation`: that of the others. `entries`: of each group the first arrived and the first held messages; of the queued messages at
    least the first ``at_most + 1`` of each group, and whole sets. `requests`: operators' requests for these groups while they were locked,
    in order. `looks`: the ids of requests to look at them, which were read before all else.
    """

    keys: Sequence[str]
    known: Sequence[GroupRow]
    entries: Entries
    requests: Sequence[Request]
    incarnation: int
    looks: Sequence[int]


def remembered_of(places: Sequence[int], known: Sequence[GroupRow]) -> Remembered:
    """Return the last messages that left of known groups, which are at these places."""
    parts = [np.frombuffer(b64decode(row.remembered), _STORED) for row in known]
    if any(row.lives is not None for row in known):
        wide = [part.reshape(-1, width_of(row.lives)) for part, row in zip(parts, known, strict=True)]
        group = np.repeat(np.array(places, np.int64), [len(part) for part in wide])
        number, content, last = (np.concatenate([part[:, at] for part in wide]) for at in (0, 1, -1))
        return Remembered(group, number, content, last if width_of(known[0].lives) > _PAIR else None)
    pairs = (parts[0] if len(parts) == 1 else np.concatenate(parts)).reshape(-1, _PAIR)
    group = np.repeat(np.array(places, np.int64), [len(part) // _PAIR for part in parts])
    return Remembered(group, pairs[:, 0], pairs[:, 1])


def width_of(lives: str | None) -> int:
    """How many numbers are remembered of each message that left: with spans the last one, too."""
    return _PAIR if lives is None else _PAIR + numbers_in(lives)[len(Lives.__slots__)]


def lives_of(state: State, places: Sequence[int], known: Sequence[GroupRow]) -> State:
    if state.lives is None:
        return state
    rows = [(at, numbers_in(row.lives)) for at, row in zip(places, known, strict=True) if row.lives is not None]
    if not rows:
        return state
    count = len(Lives.__slots__)
    lives = state.lives.put(
        np.array([at for at, _ in rows]), Lives(*np.array([its[:count] for _, its in rows], np.int64).T)
    )
    ended = [(at, *run) for at, its in rows for run in zip(its[count + 1 :: 2], its[count + 2 :: 2], strict=True)]
    return replace(state, lives=lives, ended=Ranges(*np.array(ended, np.int64).reshape(-1, 3).T))


def lives_written(policy: Policy, state: State) -> list[str] | None:
    """The lives of groups, as they are stored; None: their numbers are plain."""
    if state.lives is None:
        return None
    spans_too = int(isinstance(policy, StandardNumbers) and policy.spans)
    rows = [[*row, spans_too] for row in zip(*state.lives.lists(), strict=True)]
    for group, first, last in zip(*state.ended.lists(), strict=True):
        rows[group] += (first, last)
    return [f"{{{','.join(map(str, row))}}}" for row in rows]


def written_down(left: Remembered, groups: int) -> list[str]:
    """For each group the last messages that left, in Base64."""
    if not len(left):
        return [""] * groups
    pairs = np.empty((len(left), _PAIR + (left.through is not None)), _STORED)
    pairs[:, 0], pairs[:, 1] = left.sequence, left.fingerprint
    if left.through is not None:
        pairs[:, _PAIR] = left.through
    if groups == 1:
        return [b64encode(pairs.tobytes()).decode()]
    starts, ends = spans(left.group, groups)
    return [
        b64encode(pairs[start:end].tobytes()).decode()
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def pairs_of(written: str) -> list[tuple[int, int]]:
    numbers = numbers_in(written)
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _ints(values: Sequence[int | None] | None, missing: int | None = None) -> Ints:
    """A column of numbers, with a number in place of nulls."""
    if values is None:
        return np.zeros(0, np.int64)
    if missing is not None and None in values:
        values = [missing if value is None else value for value in values]
    return np.array(values, np.int64)


def state_rows(groups: Groups) -> Ints:
    """Return for each group the columns of the kernel's state, in the order of the table; int64, of shape (groups, 11)."""
    columns = (
        groups.flags, groups.first, groups.next, groups.mark, groups.last, groups.ordinal, groups.since,
        groups.reports, groups.clock, groups.suspects, groups.suspect,
    )  # fmt: skip
    return np.stack(columns, axis=1)


@lru_cache
def fresh_row(policy: Policy) -> list[int]:
    row: list[int] = state_rows(new_state(policy, 1).groups)[0].tolist()
    return row
