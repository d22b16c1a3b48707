"""The states of a group, and the actions allowed in each: the table that code, operators and docs share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from seriatim.errors import ActionRefused
from seriatim.kernel.groups.state import Flag

__all__ = [
    "ALLOWED",
    "DECIDING",
    "FLAGGED",
    "RETRIED_IN",
    "SHOWN",
    "STOPPED",
    "TRIED_AGAIN",
    "Action",
    "Fact",
    "GroupState",
    "Shown",
    "Situation",
    "refusal",
    "require",
    "shown_state",
]


class GroupState(StrEnum):
    """The state that a group shows: the first that applies, in this order (see `SHOWN`)."""

    CLOSED = "closed"
    SUSPENDED = "suspended"
    FAULTED = "faulted"
    LOCKED = "locked"
    TIMED_OUT = "timed_out"
    WAITING = "waiting"
    READY = "ready"


class Action(StrEnum):
    """The actions of operators on a group."""

    SUSPEND = "suspend"
    RESUME = "resume"
    RETRY = "retry"
    SKIP_MESSAGE = "skip_message"
    SKIP_HOLE = "skip_hole"
    RESET = "reset"
    ABORT = "abort"
    CLOSE = "close"
    REQUEUE = "requeue"
    RESTART = "restart"


#: In these states a group hands nothing out until something happens: an operator's action, or a missing message.
STOPPED = frozenset({GroupState.SUSPENDED, GroupState.FAULTED, GroupState.TIMED_OUT, GroupState.WAITING})
#: The states of a group whose message waits for its next attempt, unless something else stops it.
TRIED_AGAIN = frozenset({GroupState.READY, GroupState.WAITING, GroupState.TIMED_OUT})
#: Actions whose object isn't the group, in the words of an error.
_ON_A_GROUP = {
    Action.SKIP_MESSAGE: "skip the message of a group",
    Action.SKIP_HOLE: "skip the hole of a group",
    Action.REQUEUE: "requeue into a group",
}
_ALL = frozenset(GroupState)

#: In which states an action is allowed. `suspend` of a locked group is obeyed at the end of the turn. Some actions depend
#: on more than the state: see `Situation`.
ALLOWED: dict[Action, frozenset[GroupState]] = {
    Action.SUSPEND: _ALL - {GroupState.CLOSED},
    Action.RESUME: frozenset({GroupState.SUSPENDED}),
    Action.RETRY: frozenset({GroupState.FAULTED}),
    Action.SKIP_MESSAGE: _ALL - {GroupState.LOCKED},
    Action.SKIP_HOLE: frozenset({GroupState.WAITING, GroupState.TIMED_OUT}),
    Action.RESET: _ALL - {GroupState.LOCKED, GroupState.CLOSED},
    Action.ABORT: _ALL - {GroupState.LOCKED},
    Action.CLOSE: _ALL - {GroupState.LOCKED},
    Action.REQUEUE: _ALL - {GroupState.CLOSED},
    Action.RESTART: _ALL - {GroupState.LOCKED, GroupState.CLOSED},
}

#: The states of a group that a message may stop so that it can be retried: for good, or until its next attempt.
RETRIED_IN = ALLOWED[Action.RETRY] | TRIED_AGAIN


#: Actions that decide what is over, or which number is next. In two regions their journal decides that.
DECIDING = frozenset(
    {Action.SKIP_MESSAGE, Action.SKIP_HOLE, Action.RESET, Action.RESTART, Action.ABORT, Action.CLOSE, Action.REQUEUE}
)


class Fact(StrEnum):
    """The facts behind the state of a group."""

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
    """The state of a group from its four facts.

    Args:
        flags: its `Flag` bits (closed, suspended, faulted, complete, unopened).
        hole: whether it waits for a missing number. A group that isn't opened waits, too.
        overdue: whether the last report about that hole was made, and it isn't skipped automatically.
        locked: whether a worker has it.
    """
    facts = {fact for fact, bit in FLAGGED.items() if flags & bit}
    facts |= {fact for fact, holds in ((Fact.LOCKED, locked), (Fact.HOLE, hole), (Fact.OVERDUE, overdue)) if holds}
    return next(
        row.state for row in SHOWN if facts.issuperset(row.facts) and not (row.unless and facts.issuperset(row.unless))
    )


@dataclass(frozen=True, slots=True)
class Situation:
    """A group's state, with the other facts that decide which actions it allows.

    Args:
        state: the state that it shows.
        by_message: whether a message has stopped it: its handler failed, or it came late. An operator's suspension isn't
            one, also where late messages are held meanwhile.
        tries_again: whether a message of it waits for its next attempt, or for a clock that was ahead, and nothing else stops it.
        leased: whether a worker has it under a lease.
        in_turn: whether it is in the hands of a receiver, and suspended only from the end of that turn on.
        unopened: whether it waits for a message that opens it: it has no hole and no next number, and nothing has begun in it.
        postponed: whether it waits only because its first message is postponed: it has no hole.
        regional: whether its queue is one of two regions, whose journal decides what is over.
    """

    state: GroupState
    by_message: bool = False
    tries_again: bool = False
    leased: bool = False
    in_turn: bool = False
    unopened: bool = False
    postponed: bool = False
    regional: bool = False

    def allows(self, action: Action, *, named: bool = False) -> bool:
        """Whether the group allows an action now; `named`: on a message that is named, not on the one that stopped it."""
        if self.regional and action in DECIDING:
            return False
        if action is Action.ABORT and self.leased:
            return True  # that fences the worker off
        if action is Action.RETRY and self.tries_again:
            return True
        if action is Action.SKIP_MESSAGE and not named and not self.by_message:
            return False
        without_hole = self.unopened or (self.postponed and action is Action.SKIP_HOLE)
        if without_hole and action in (Action.SKIP_HOLE, Action.RESET, Action.RESTART):
            return False
        now = not self.in_turn or GroupState.LOCKED in ALLOWED[action] or action is Action.RESUME
        return now and self.state in ALLOWED[action]

    @property
    def allowed(self) -> tuple[Action, ...]:
        """The actions that the group allows now."""
        return tuple(action for action in Action if self.allows(action))


def refusal(action: Action, state: str) -> str:
    """The text of an error: the action is not allowed on a group in this state."""
    return f"cannot {_ON_A_GROUP.get(action, f'{action} a group')} that is {state}"


def require(action: Action, situation: Situation, where: str, *, named: bool = False) -> None:
    """Check that an action is allowed; `named`: on a message that is named.

    Raises:
        ActionRefused: names the state and the actions that are allowed in it.
    """
    if situation.allows(action, named=named):
        return
    state = f"{GroupState.LOCKED}, and {situation.state} when the turn ends" if situation.in_turn else situation.state
    what = refusal(action, state)
    if action is Action.SKIP_MESSAGE and situation.allows(action, named=True):
        what = f"no message has stopped the group, which is {state}: name the one to take out"
    raise ActionRefused(what, where=where, remedy=f"allowed: {', '.join(situation.allowed)}")
