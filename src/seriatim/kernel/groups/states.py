"""The states of a group: the table that code, operators and docs share. What operators do in them: ``verbs.py``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seriatim.kernel.groups.state import Flag


class GroupState(StrEnum):
    """The state that a group shows: the first that applies, in this order (see `SHOWN`)."""

    CLOSED = "closed"
    SUSPENDED = "suspended"
    FAULTED = "faulted"
    LOCKED = "locked"
    TIMED_OUT = "timed_out"
    WAITING = "waiting"
    READY = "ready"


#: In these states a group hands nothing out until something happens: an operator's action, or a missing message.
STOPPED = frozenset({GroupState.SUSPENDED, GroupState.FAULTED, GroupState.TIMED_OUT, GroupState.WAITING})
#: A hole stands still from its `hole_timeout` on; one without a time-out after so many seconds: messages overtake each other all the time.
STANDS_AFTER_S = 60.0
#: The states of a group whose message waits for its next attempt, unless something else stops it.
TRIED_AGAIN = frozenset({GroupState.READY, GroupState.WAITING, GroupState.TIMED_OUT})


class Fact(StrEnum):
    CLOSED = "closed"
    COMPLETE = "complete"
    SUSPENDED = "suspended"
    FAULTED = "faulted"
    UNOPENED = "unopened"
    LOCKED = "locked"
    HOLE = "hole"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of the table of states: the state applies to a group for which all of `facts` hold, unless all of `unless` hold, too."""

    state: GroupState
    facts: tuple[Fact, ...] = ()
    unless: tuple[Fact, ...] = ()


#: The facts that are bits of a group's flags.
FLAGGED = {
    Fact.CLOSED: Flag.CLOSED,
    Fact.COMPLETE: Flag.COMPLETE,
    Fact.SUSPENDED: Flag.SUSPENDED,
    Fact.FAULTED: Flag.FAULTED,
    Fact.UNOPENED: Flag.UNOPENED,
}
#: The state that a group shows, by the first row that applies. The box's function `shown_state` is made from it.
SHOWN = (
    # A set that is complete closes its group; where its handler failed there is still something to hand out.
    Shown(GroupState.CLOSED, (Fact.CLOSED,), unless=(Fact.COMPLETE, Fact.FAULTED)),
    Shown(GroupState.SUSPENDED, (Fact.SUSPENDED,)),
    Shown(GroupState.FAULTED, (Fact.FAULTED,)),
    Shown(GroupState.LOCKED, (Fact.LOCKED,)),
    Shown(GroupState.TIMED_OUT, (Fact.HOLE, Fact.OVERDUE)),
    Shown(GroupState.WAITING, (Fact.HOLE,)),
    Shown(GroupState.WAITING, (Fact.UNOPENED,)),
    Shown(GroupState.READY),
)


def shown_state(flags: int, *, hole: bool = False, overdue: bool = False, locked: bool = False) -> GroupState:
    """The state of a group from its four facts. `flags`: its `Flag` bits (closed, suspended, faulted, complete, unopened). `hole`: whether
    it waits for a missing number. A group that isn't opened waits, too. `overdue`: whether the last report about that hole was made, and it
    isn't skipped automatically. `locked`: whether a worker has it.
    """
    facts = {fact for fact, bit in FLAGGED.items() if flags & bit}
    facts |= {fact for fact, holds in ((Fact.LOCKED, locked), (Fact.HOLE, hole), (Fact.OVERDUE, overdue)) if holds}
    return next(
        row.state for row in SHOWN if facts.issuperset(row.facts) and not (row.unless and facts.issuperset(row.unless))
    )
