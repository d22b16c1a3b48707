"""Positions in a turn: the kernel judges their ranks in one list; an entry keeps its own, and a group those that its state has ranks of.

A group has them in `remembered`: of each its length, a byte, and its bytes, in ascending order.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np

from seriatim.box.definitions.meaning import position_in
from seriatim.box.postgres.array_text import numbers_in
from seriatim.box.turns.turn_rows import TurnRows, state_rows
from seriatim.kernel.groups.policy import Policy
from seriatim.kernel.groups.positions import ranked, ranks
from seriatim.kernel.groups.state import Groups, Held, State
from seriatim.kernel.resequence import new_state


def positions_in(remembered: bytes) -> list[bytes]:
    """The positions of which a group's state has ranks."""
    found, at = [], 0
    while at < len(remembered):
        end = at + 1 + remembered[at]
        found.append(remembered[at + 1 : end])
        at = end
    return found


def with_ranks(policy: Policy, rows: TurnRows) -> tuple[TurnRows, list[bytes]]:
    """The rows of a turn with ranks in one list of positions, in place of numbers; and the list."""
    entries, known = rows.entries, rows.known
    texts: Sequence[Any] = () if entries.meaning is None else entries.meaning.tolist()
    # What was set aside when the queue had numbers, and is put back, has none.
    came = [position_in(numbers_in(text)) if text else b"" for text in texts] or [b""] * len(entries)
    stored = [
        (
            new_state(policy, 1).having(Groups(*np.array([row.state], np.int64).T)),
            positions_in(b64decode(row.remembered)),
        )
        for row in known
    ]
    every, states, found = ranked(stored, came)
    groups = [
        row._replace(state=state_rows(state.groups)[0].tolist()) for row, state in zip(known, states, strict=True)
    ]
    return rows._replace(known=groups, entries=entries.with_columns(sequence=found)), every


def written(after: State, every: Sequence[bytes]) -> tuple[list[int], list[str]]:
    """The states of groups, and their positions in Base64, as they are stored; `every`: the list of which the states have ranks."""
    states: list[int] = []
    kept: list[str] = []
    for one in after.having(held=Held.empty()).split():
        state, needed = ranks(one)
        states += state_rows(state.groups)[0].tolist()
        its = b"".join(bytes([len(every[rank])]) + every[rank] for rank in needed.tolist())
        kept.append(b64encode(its).decode())
    return states, kept
