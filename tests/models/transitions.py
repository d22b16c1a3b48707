"""The transitions between the states of a group: the effect of each action and event on the facts behind the state.

The table in `kernel/groups/verbs.py` has the states that allow each action; this one has their possible results. It describes what the
kernel and the box do, and tests compare both with it. `scripts/states_page.py` draws a page of the documentation from the two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import product

from seriatim.kernel.groups.state import Flag
from seriatim.kernel.groups.states import GroupState, shown_state
from seriatim.kernel.groups.verbs import VERBS, Action

__all__ = ["Cause", "Facts", "Happening", "Hole", "leads"]


class Hole(StrEnum):
    """Whether a group waits for a missing number."""

    NONE = "none"
    OPEN = "open"
    TIMED_OUT = "timed_out"


class Happening(StrEnum):
    """The events that change the state of a group without an operator."""

    TAKEN = "taken"
    LEFT = "left"
    FAULT = "fault"
    HOLE_OPENED = "hole_opened"
    HOLE_FILLED = "hole_filled"
    HOLE_SKIPPED = "hole_skipped"
    HOLE_TIMED_OUT = "hole_timed_out"
    LATE_HELD = "late_held"
    SET_ENDED = "set_ended"


Cause = Action | Happening


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts behind the state of a group. While nothing may leave no clock runs, and there is no hole.

    `complete`: the group has ended by itself, as with a complete set, and what was released leaves all the same. `closing`: it was
    told to close, and is closed when it holds nothing.
    """

    closed: bool = False
    suspended: bool = False
    faulted: bool = False
    hole: Hole = Hole.NONE
    locked: bool = False
    complete: bool = False
    closing: bool = False

    @property
    def stopped(self) -> bool:
        """Whether nothing may leave."""
        return self.closed or self.suspended or self.faulted

    @property
    def state(self) -> GroupState:
        """The state that the group shows."""
        flags = Flag.CLOSED * self.closed | Flag.SUSPENDED * self.suspended | Flag.FAULTED * self.faulted
        flags |= Flag.COMPLETE * self.complete
        return shown_state(
            flags, hole=self.hole is not Hole.NONE, overdue=self.hole is Hole.TIMED_OUT, locked=self.locked
        )


def _all() -> Iterator[Facts]:
    flags = (False, True)
    for closed, suspended, faulted, hole, locked, complete, closing in product(
        flags, flags, flags, Hole, flags, flags, flags
    ):
        facts = Facts(closed, suspended, faulted, hole, locked, complete, closing)
        impossible = (
            (facts.stopped and hole is not Hole.NONE)
            or (complete and not closed)
            or (closing and closed)
            or (closed and suspended and not faulted)
            or (locked and (faulted or (closed and not complete)))
        )
        if not impossible:
            yield facts


def _goes_on(facts: Facts) -> Iterator[Facts]:
    """The possible situations of a group that goes on: nothing missing, a hole with a new clock, or a complete set."""
    yield facts
    if not facts.stopped:
        yield replace(facts, hole=Hole.OPEN)
        yield replace(facts, closed=True, complete=True, closing=False)


def _skip_message(facts: Facts) -> Iterator[Facts]:
    if facts.locked:
        return
    yield facts  # a message was named, or there are more late ones
    yield replace(facts, hole=Hole.NONE)  # it was all that waited
    if facts.suspended:
        yield from _goes_on(replace(facts, suspended=False))
    elif facts.faulted:
        yield from _goes_on(replace(facts, faulted=False))


def _moves(facts: Facts) -> Iterator[Facts]:
    """`next` moves, or the first waiting message changes: a hole is gone, or there is another hole."""
    yield facts
    if not facts.stopped:
        yield replace(facts, hole=Hole.NONE)
        yield replace(facts, hole=Hole.OPEN)


def _restart(facts: Facts) -> Iterator[Facts]:
    if facts.locked or facts.closed:
        return
    anew = replace(facts, suspended=False, hole=Hole.NONE, closing=False)
    yield from _goes_on(anew)  # a message that comes back may close it
    yield replace(anew, suspended=True)  # what comes back repeats itself


def _abort(facts: Facts) -> Iterator[Facts]:
    yield replace(facts, hole=Hole.NONE, faulted=False)


def _taken(facts: Facts) -> Iterator[Facts]:
    if not facts.locked and (not facts.stopped or (facts.complete and not facts.faulted)):
        yield replace(facts, locked=True)


def _left(facts: Facts) -> Iterator[Facts]:
    if facts.locked:
        yield from _moves(replace(facts, locked=False))


def _fault(facts: Facts) -> Iterator[Facts]:
    if facts.locked and not facts.faulted:
        yield replace(facts, locked=False, faulted=True, hole=Hole.NONE)


def _hole_opened(facts: Facts) -> Iterator[Facts]:
    if not facts.stopped and facts.hole is Hole.NONE:
        yield replace(facts, hole=Hole.OPEN)


def _hole_gone(facts: Facts) -> Iterator[Facts]:
    if facts.hole is not Hole.NONE:
        yield replace(facts, hole=Hole.NONE)
        yield replace(facts, hole=Hole.OPEN)


def _hole_skipped(facts: Facts) -> Iterator[Facts]:
    if facts.hole is Hole.OPEN:
        yield from _hole_gone(facts)


def _hole_timed_out(facts: Facts) -> Iterator[Facts]:
    if facts.hole is Hole.OPEN:
        yield replace(facts, hole=Hole.TIMED_OUT)


def _late_held(facts: Facts) -> Iterator[Facts]:
    if not facts.closed:
        yield replace(facts, suspended=True, hole=Hole.NONE)


def _set_ended(facts: Facts) -> Iterator[Facts]:
    if not facts.stopped:
        yield replace(facts, closed=True, complete=True, closing=False)
        yield replace(facts, closed=True, closing=False)


def _close(facts: Facts) -> Iterator[Facts]:
    yield replace(facts, closed=True, hole=Hole.NONE, closing=False)  # at once
    yield facts if facts.closed else replace(facts, closing=True)


def _emptied(facts: Facts) -> Iterator[Facts]:
    """A closing group that holds nothing is closed, unless it is suspended or faulted."""
    yield facts
    if facts.closing and not facts.suspended and not facts.faulted and facts.hole is Hole.NONE:
        yield replace(facts, closed=True, complete=True, closing=False)


_EFFECTS: dict[Cause, Callable[[Facts], Iterator[Facts]]] = {
    Action.SUSPEND: lambda facts: iter([replace(facts, suspended=True, hole=Hole.NONE)]),
    Action.RESUME: lambda facts: _goes_on(replace(facts, suspended=False)),
    Action.RETRY: lambda facts: _goes_on(replace(facts, faulted=False)),
    Action.SKIP_MESSAGE: _skip_message,
    Action.SKIP_HOLE: _hole_gone,
    Action.RESET: _moves,
    Action.ABORT: _abort,
    Action.CLOSE: _close,
    Action.REQUEUE: _moves,
    Action.RESTART: _restart,
    Happening.TAKEN: _taken,
    Happening.LEFT: _left,
    Happening.FAULT: _fault,
    Happening.HOLE_OPENED: _hole_opened,
    Happening.HOLE_FILLED: _hole_gone,
    Happening.HOLE_SKIPPED: _hole_skipped,
    Happening.HOLE_TIMED_OUT: _hole_timed_out,
    Happening.LATE_HELD: _late_held,
    Happening.SET_ENDED: _set_ended,
}


@cache
def leads(state: GroupState, cause: Cause) -> frozenset[GroupState]:
    """The states that a group may show after an action or an event; none if it isn't allowed, or can't happen."""
    if isinstance(cause, Action) and state not in VERBS[cause].states:
        return frozenset()
    return frozenset(
        last.state
        for facts in _all()
        if facts.state is state
        for after in _EFFECTS[cause](facts)
        for last in _emptied(after)
    )
