"""The verbs of operators: what each does with a group takes, fits, needs, costs and says. Code, faces and docs share this table.

What a verb does to a group is a function of ``kernel/operators/actions.py``. Some actions depend on more than the state of the group:
see `Situation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from seriatim.errors import ActionRefused, UsageError, is_whole, shown
from seriatim.kernel.groups.states import TRIED_AGAIN, GroupState

#: No number beyond that, or below its negative, can be named.
_LARGEST = 2**62


class Action(StrEnum):
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

    @property
    def words(self) -> str:
        return self.replace("_", " ")

    @property
    def command(self) -> str:
        return self.replace("_", "-")


class ParameterKind(Enum):
    """The kind of a parameter. Numbers and flags are of the rule; which message, and its body, is the engine's to know."""

    NUMBER = "number"
    FLAG = "flag"
    MESSAGE = "message"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class Parameter:
    """What an action takes besides its group. `option`: of the command line, with its `help`. `label`: of its field in a form; empty: no
    form has it. `needed`: it has no default.
    """

    name: str
    kind: ParameterKind
    option: str
    help: str
    label: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    #: In which states a group allows it.
    states: frozenset[GroupState]
    #: The word on a button, and before the number of many groups; empty: it has no button on groups.
    button: str = ""
    many: str = ""
    #: What it does, for people.
    meaning: str = ""
    #: What it takes away, for people to read before they confirm, with {group}, {messages} and {message}; empty: nothing is lost by it.
    costs: str = ""
    #: The role that a user of the console needs.
    role: str = "mend"
    takes: tuple[Parameter, ...] = ()
    #: In which states it usually helps a group.
    helps: frozenset[GroupState] = frozenset()
    #: Its object, in the words of an error.
    on: str = "{} a group"
    #: Why a group doesn't allow it whose state does.
    misses: str = "its policy has nothing like it"
    #: Whether it can be done to many groups at once: it needs no number of the single group.
    in_bulk: bool = True
    #: Whether groups of pipelines know it. They have no handler, so nothing fails there.
    in_pipelines: bool = True
    #: Whether it decides what is over, or which number is next. In two regions their journal decides that, by the verb `instead`.
    decides: bool = True
    instead: str = ""
    #: Whether it moves the next number, so that the group must have one.
    moves_next: bool = False
    #: Whether it can be done to a group of which no message has come yet: then the group begins with it.
    begins: bool = False
    #: Whether it is obeyed at the end of the turn of a group that is locked.
    waits: bool = False
    #: Whether it needs all held messages of the group.
    of_all_held: bool = False
    #: Whether messages may be ready afterwards of which no receiver was notified.
    frees: bool = True


_ALL = frozenset(GroupState)
_NOT_LOCKED = _ALL - {GroupState.LOCKED}
_OPEN = _NOT_LOCKED - {GroupState.CLOSED}
_MISSING = frozenset({GroupState.WAITING, GroupState.TIMED_OUT})
_NEXT = Parameter(
    "next", ParameterKind.NUMBER, "--next", "The number with which the group goes on.", "Next number", needed=True
)
_THROUGH = Parameter(
    "through", ParameterKind.NUMBER, "--through", "Skip only through this number (default: the whole hole).", "Through"
)
_BODY = Parameter("body", ParameterKind.BODY, "--edit", "Retry with the content of this file as the message's body.")
_ALONE = Parameter(
    "message",
    ParameterKind.MESSAGE,
    "--message",
    "Retry this message, of an unordered queue with a gate, where each message stops by itself.",
)
_MESSAGE = Parameter(
    "message",
    ParameterKind.MESSAGE,
    "--message",
    "Take out this waiting message (default: the message that stopped the group).",
)
_AT_ONCE = Parameter(
    "at_once",
    ParameterKind.FLAG,
    "--now",
    "Close it at once: nothing leaves any more, and what is there can only be aborted.",
)
_NO_NUMBERS = "its policy has no numbers, or it is not opened"

#: The verbs, in the order in which people see them.
VERBS: Mapping[Action, Verb] = {
    Action.RETRY: Verb(
        frozenset({GroupState.FAULTED}),
        "Retry",
        "Retry",
        "hand the failed message out again",
        takes=(_BODY, _ALONE),
        in_pipelines=False,
        decides=False,
        helps=frozenset({GroupState.FAULTED}),
    ),
    Action.RESUME: Verb(
        frozenset({GroupState.SUSPENDED}),
        "Resume",
        "Resume",
        "let the group go on",
        decides=False,
        waits=True,
        helps=frozenset({GroupState.SUSPENDED}),
    ),
    Action.SKIP_MESSAGE: Verb(
        _NOT_LOCKED,
        "Skip the message",
        "Skip the message of",
        "the message that stopped it becomes a dead letter, and the group goes on",
        costs="{message} becomes a dead letter: no handler gets it, and group {group} goes on without it. "
        "It can be requeued, but at the end of the group once a later message was delivered.",
        takes=(_MESSAGE,),
        on="skip the message of a group",
        misses="no message has stopped the group",
        instead="skip",
        helps=frozenset({GroupState.SUSPENDED, GroupState.FAULTED}),
    ),
    Action.SKIP_HOLE: Verb(
        _MISSING,
        "Skip the hole",
        "Skip the hole of",
        "give the missing numbers up, and go on behind them; if they come later, they are late",
        takes=(_THROUGH,),
        on="skip the hole of a group",
        misses="it waits for a message that opens it, and has no hole",
        instead="skip",
        moves_next=True,
        helps=_MISSING,
    ),
    Action.SUSPEND: Verb(
        _ALL - {GroupState.CLOSED},
        "Suspend",
        "Suspend",
        "take messages in, but hand none out",
        decides=False,
        begins=True,
        waits=True,
        frees=False,
    ),
    Action.RESET: Verb(
        _OPEN,
        "Reset",
        "Reset",
        "go on with another number; held messages below it are set aside as late",
        takes=(_NEXT,),
        misses=_NO_NUMBERS,
        in_bulk=False,
        instead="skip",
        begins=True,
        moves_next=True,
        of_all_held=True,
    ),
    Action.RESTART: Verb(
        _OPEN,
        "Restart",
        "Restart",
        "begin anew, because its producer has",
        misses=_NO_NUMBERS,
        in_bulk=False,
        instead="show",
        moves_next=True,
        of_all_held=True,
    ),
    Action.CLOSE: Verb(
        _NOT_LOCKED,
        "Close",
        "Close",
        "new messages are late; it is closed when it holds nothing",
        costs="Group {group} doesn't open again: new messages of it are set aside as late. What it has still leaves; then it is closed.",
        role="discard",
        takes=(_AT_ONCE,),
        instead="suspend",
        of_all_held=True,
        frees=False,
    ),
    Action.ABORT: Verb(
        _NOT_LOCKED,
        "Abort",
        "Abort",
        "all its held and queued messages become dead letters",
        costs="Group {group} has {messages}: each becomes a dead letter, and no handler gets it.",
        role="discard",
        instead="suspend",
        of_all_held=True,
        frees=False,
        helps=frozenset({GroupState.CLOSED}),
    ),
    Action.REQUEUE: Verb(_ALL - {GroupState.CLOSED}, on="requeue into a group", in_bulk=False, in_pipelines=False),
}
#: The actions that people see at a group; the others have commands of their own.
ON_GROUPS = tuple(action for action, verb in VERBS.items() if verb.button)
#: What may be done to many groups at once.
BULK = tuple(action for action in Action if VERBS[action].in_bulk)
#: What a pipeline's operator obeys.
IN_PIPELINES = tuple(action for action in Action if VERBS[action].in_pipelines)
#: The states of a group that a message may stop so that it can be retried: for good, or until its next attempt.
RETRIED_IN = VERBS[Action.RETRY].states | TRIED_AGAIN


def checked(action: Action, given: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of the parameters of an action, without what says nothing (None and False). Raises `UsageError`: the action doesn't
    take one of them, one is missing, or a number is none or too large.
    """
    found = {name: value for name, value in given.items() if value is not None and value is not False}
    takes = {one.name: one for one in VERBS[action].takes}
    for name in found.keys() - takes.keys():
        what = f"{action} takes no {name}"
        raise UsageError(what, remedy=f"it takes {', '.join(takes)}" if takes else "leave it out")
    for name, parameter in takes.items():
        if parameter.needed and name not in found:
            raise UsageError(f"the {parameter.label.lower()} is missing", remedy=f"give {name}: {parameter.help}")
        number = found.get(name, 0)
        if parameter.kind is not ParameterKind.NUMBER:
            continue
        if not is_whole(number):
            raise UsageError(f"{name} can't be {shown(number)}", remedy="a whole number")
        if not -_LARGEST <= number <= _LARGEST:
            raise UsageError(f"{shown(number)} is out of range", remedy=f"at most {_LARGEST:,}, and its negative")
    return found


def of_rule(action: Action, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the rule of an action takes; which message, and its body, is the engine's to know."""
    kinds = {one.name: one.kind for one in VERBS[action].takes}
    return {
        name: value for name, value in given.items() if kinds.get(name) in (ParameterKind.NUMBER, ParameterKind.FLAG)
    }


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
        verb = VERBS[action]
        if self.regional and verb.decides:
            return False
        if action is Action.ABORT and self.leased:
            return True  # that fences the worker off
        if action is Action.RETRY and self.tries_again:
            return True
        if action is Action.SKIP_MESSAGE and not named and not self.by_message:
            return False
        if (self.unopened and verb.moves_next) or (self.postponed and action is Action.SKIP_HOLE):
            return False
        now = not self.in_turn or GroupState.LOCKED in verb.states or verb.waits
        return now and self.state in verb.states

    @property
    def allowed(self) -> tuple[Action, ...]:
        return tuple(action for action in Action if self.allows(action))


def helping(state: GroupState, *, holds: bool = True) -> tuple[Action, ...]:
    """The actions that usually help a group in this state, best first; `holds`: whether it holds messages."""
    if state is GroupState.CLOSED and not holds:
        return ()
    return tuple(action for action, verb in VERBS.items() if state in verb.helps)


def refusal(action: Action, state: str) -> str:
    return f"cannot {VERBS[action].on.format(action)} that is {state}"


def require(action: Action, situation: Situation, where: str, *, named: bool = False) -> None:
    """Check that an action is allowed; `named`: on a message that is named. Raises `ActionRefused`: names the state and the actions that
    are allowed in it.
    """
    if situation.allows(action, named=named):
        return
    state = f"{GroupState.LOCKED}, and {situation.state} when the turn ends" if situation.in_turn else situation.state
    what = refusal(action, state)
    if action is Action.SKIP_MESSAGE and situation.allows(action, named=True):
        what = f"no message has stopped the group, which is {state}: name the one to take out"
    raise ActionRefused(what, where=where, remedy=f"allowed: {', '.join(situation.allowed)}")
