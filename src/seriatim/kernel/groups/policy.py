"""The ordering policies, checked and frozen.

Owns the parameters and their checks. Other modules apply the policies (``standard.py``, ``best_effort.py``,
``unit_of_work.py``, ``fifo.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, ClassVar, Literal

from seriatim.errors import PolicyError, UsageError, is_whole, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.values.time import micros, seconds

Duration = float | str
Late = Literal["set_aside", "deliver", "suspend"]

_SMALL = 2**62
#: The most released messages of a group that are compared with messages that come again; and how many by default.
MOST_REMEMBERED = 1024
REMEMBERED = 64
#: For how many seconds the ids of messages that two regions send are remembered by default, where messages have no numbers.
HORIZON = 3600.0


def _whole(policy: str, name: str, value: object, least: int, most: int = _SMALL) -> None:
    if not is_whole(value):
        raise PolicyError(f"{policy}: {name} must be a whole number, not {shown(value)}", argument=name)
    if not least <= value <= most:
        raise PolicyError(f"{policy}: {name} must be between {least} and {most}, not {shown(value)}", argument=name)


def _one_of(policy: str, name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise PolicyError(f"{policy}: {name} must be one of {', '.join(allowed)}, not {shown(value)}", argument=name)


def _is_field(value: object) -> bool:
    return (isinstance(value, str) and value != "") or callable(value)


def period_of(policy: str, name: str, value: Duration | None) -> float | None:
    """The seconds of a period; None if no period is given (None or 0)."""
    if value is None:
        return None
    try:
        period = micros(value)
    except UsageError as error:
        raise PolicyError(f"{policy}: {name}: {error.what}", remedy=error.remedy, argument=name) from error
    if period < 0:
        raise PolicyError(f"{policy}: {name} must not be negative, not {value!r}", argument=name)
    return seconds(period) if period else None


_LATE = ("set_aside", "deliver", "suspend")
#: The words for a first number that is found out.
_FOUND = ("first", "lowest", "told")


@refusing(PolicyError)
@dataclass(frozen=True, slots=True)
class Unordered:
    """No order: messages have no ordinal and no state, and none waits for another message. A queue of a box that has a gate counts
    them by group.
    """

    name: ClassVar[str] = "unordered"


@refusing(PolicyError)
@dataclass(frozen=True, slots=True)
class Fifo:
    """The order of arrival, per group. No message is held."""

    name: ClassVar[str] = "fifo"


@refusing(PolicyError)
@dataclass(frozen=True, slots=True)
class Standard:
    """Contiguous numbers per group; a missing number holds up the messages behind it.

    Args:
        start: the first number of a group; ``"first"``: the first in order of arrival; ``"lowest"``: the lowest that has come `settle`
            after the first arrival; or ``"told"``: the group holds everything until a base, or an operator's reset, says where it begins.
        settle: with ``start="lowest"``: seconds (or ``"100ms"``) from a group's first arrival to its beginning.
        increment: the step from one number to the next, at least 1.
        hole_timeout: seconds (or ``"100s"``) until a hole is reported; None or 0 waits for ever.
        hole_retries: the number of further periods, each with a report, before `on_hole` acts.
        on_hole: ``"wait"`` (the group is timed out until an operator skips the hole or the
            missing message comes) or ``"skip"`` (the group goes on at the lowest held number; requires `hole_timeout`).
        late: treatment of a message whose number was skipped: ``"set_aside"``, ``"deliver"``
            (leaves at once, flagged) or ``"suspend"`` (the message stops its group). A number that was delivered late is a
            duplicate when it comes again.
        capacity: the number of messages that a group may hold; further messages are rejected. None: no limit.
        remember: the number of released messages of a group whose contents are compared with messages that come again; None:
            as many as the engine keeps (64 in memory and in a message box). Contents of held messages are always compared.
        restart_after: the number of messages below the next number after which the group's producer is suspected to have
            begun anew; 0: never.
        on_restart: ``"report"`` (an event) or ``"suspend"`` (from then on messages below the next number are held, until an
            operator restarts or resumes the group).

    Raises:
        PolicyError: a parameter is wrong.
    """

    start: int | Literal["first", "lowest", "told"] = 1
    _: KW_ONLY
    settle: Duration | None = None
    increment: int = 1
    hole_timeout: Duration | None = None
    hole_retries: int = 0
    on_hole: Literal["wait", "skip"] = "wait"
    late: Late = "set_aside"
    capacity: int | None = None
    remember: int | None = None
    restart_after: int = 8
    on_restart: Literal["report", "suspend"] = "report"

    name: ClassVar[str] = "standard"

    def __post_init__(self) -> None:
        if self.start not in _FOUND:
            _whole("Standard", "start", self.start, -_SMALL)
        object.__setattr__(self, "settle", period_of("Standard", "settle", self.settle))
        if (self.start == "lowest") != (self.settle is not None):
            raise PolicyError(
                'Standard: start="lowest" and settle belong together: after that time a group begins at the lowest number that it has',
                remedy='give both, such as start="lowest", settle="100ms", or neither',
                argument=("settle", "start"),
            )
        _whole("Standard", "increment", self.increment, 1)
        object.__setattr__(self, "hole_timeout", period_of("Standard", "hole_timeout", self.hole_timeout))
        _whole("Standard", "hole_retries", self.hole_retries, 0, 10_000)
        _one_of("Standard", "on_hole", self.on_hole, ("wait", "skip"))
        if self.on_hole == "skip" and self.hole_timeout is None:
            raise PolicyError(
                'Standard: on_hole="skip" requires a hole_timeout, because without it no hole is ever skipped',
                remedy='add a hole_timeout, such as "100s", or leave out on_hole',
                argument=("on_hole", "hole_timeout"),
            )
        _one_of("Standard", "late", self.late, _LATE)
        if self.capacity is not None:
            _whole("Standard", "capacity", self.capacity, 1)
        if self.remember is not None:
            _whole("Standard", "remember", self.remember, 0, MOST_REMEMBERED)
        _whole("Standard", "restart_after", self.restart_after, 0, 1_000_000)
        _one_of("Standard", "on_restart", self.on_restart, ("report", "suspend"))
        if self.on_restart == "suspend" and not self.restart_after:
            raise PolicyError(
                'Standard: on_restart="suspend" requires a restart_after, because with 0 no restart is ever suspected',
                remedy="leave out restart_after, or on_restart",
                argument=("on_restart", "restart_after"),
            )

    @property
    def finds_start(self) -> bool:
        """Whether a group's first number isn't known before its first message."""
        return self.start in _FOUND

    @property
    def gathers(self) -> bool:
        """Whether a group holds everything until it knows its first number."""
        return self.start in ("lowest", "told")


@refusing(PolicyError)
@dataclass(frozen=True, slots=True)
class BestEffort:
    """Ascending numbers, times or positions within a round, without waiting for missing numbers.

    Args:
        by: ``"number"``, ``"time"`` or ``"position"`` (text or bytes, compared as bytes): the kind of the sequence.
        window: seconds for which a round collects messages before its highest sequence is fixed.
        buffer: the share of `window` for which lower sequences may still join the round after the window.
        max_rows: the largest number of messages in a round; each call is a round and releases the lowest messages. Not with
            `window`.
        late: treatment of a message below the highest sequence released in an earlier round.

    Raises:
        PolicyError: a parameter is wrong, or `window` and `max_rows` are both given.
    """

    by: Literal["number", "time", "position"] = "number"
    _: KW_ONLY
    window: Duration | None = None
    buffer: float = 0.10
    max_rows: int | None = None
    late: Late = "set_aside"

    name: ClassVar[str] = "best_effort"

    def __post_init__(self) -> None:
        _one_of("BestEffort", "by", self.by, ("number", "time", "position"))
        object.__setattr__(self, "window", period_of("BestEffort", "window", self.window))
        if isinstance(self.buffer, bool) or not isinstance(self.buffer, int | float) or not 0 <= self.buffer <= 100:
            raise PolicyError(
                f"BestEffort: buffer must be a share of the window from 0 to 100, not {shown(self.buffer)}",
                argument="buffer",
            )
        if self.max_rows is not None:
            _whole("BestEffort", "max_rows", self.max_rows, 1)
            if self.window is not None:
                raise PolicyError(
                    "BestEffort takes window or max_rows, not both",
                    remedy="give one of them",
                    argument=("window", "max_rows"),
                )
        _one_of("BestEffort", "late", self.late, _LATE)


@refusing(PolicyError)
@dataclass(frozen=True, slots=True)
class UnitOfWork:
    """A set of numbered messages, released when complete: all or nothing.

    Args:
        size: the size of a set, or the property that has it (in memory also a function of the
            value). Messages may lack the property.
        last: in place of `size`: the filter that matches only the last message of the set (in memory
            a key of the value or a function of it); its number is then the size.
        timeout: seconds from the first arrival after which an incomplete set is dead, or leaves.
        start: the number of a set's first message, 1 or 0.
        once: whether a key stands for one set. False: after a set is complete or its time is over, its key begins a new one. A part
            that comes again is told by its content: requires `compare`.
        on_timeout: ``"dead"``, or ``"deliver"`` (what there is of the set leaves as a whole, flagged as partial, with the numbers that are
            missing; requires `timeout`).

    Raises:
        PolicyError: a parameter is wrong, or `size` and `last` are both given or both missing.
    """

    size: int | str | Callable[[Any], int | None] | None = None
    last: str | Callable[[Any], bool] | None = None
    timeout: Duration | None = None
    _: KW_ONLY
    start: int = 1
    once: bool = True
    on_timeout: Literal["dead", "deliver"] = "dead"

    name: ClassVar[str] = "unit_of_work"

    def __post_init__(self) -> None:
        if (self.size is None) == (self.last is None):
            raise PolicyError("UnitOfWork needs exactly one of size and last", argument=("size", "last"))
        if self.size is not None and not _is_field(self.size):
            _whole("UnitOfWork", "size", self.size, 1)
        if self.last is not None and not _is_field(self.last):
            raise PolicyError(f"UnitOfWork: last must be a filter, not {shown(self.last)}", argument="last")
        object.__setattr__(self, "timeout", period_of("UnitOfWork", "timeout", self.timeout))
        _whole("UnitOfWork", "start", self.start, 0, 1)
        if not isinstance(self.once, bool):
            raise PolicyError(f"UnitOfWork: once must be true or false, not {shown(self.once)}", argument="once")
        _one_of("UnitOfWork", "on_timeout", self.on_timeout, ("dead", "deliver"))
        if self.on_timeout == "deliver" and self.timeout is None:
            raise PolicyError(
                'UnitOfWork: on_timeout="deliver" requires a timeout, because without it no time is ever over',
                remedy='add a timeout, such as "100s", or leave out on_timeout',
                argument=("on_timeout", "timeout"),
            )


@dataclass(frozen=True, slots=True)
class FifoStays(Fifo):
    """`Fifo`, with messages that open groups, or close them, or both: see ``stays.py``."""

    opens: bool = False
    closes: bool = False
    unopened_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class FifoMerged(Fifo):
    """`Fifo`, with messages that two regions send: each is released once within `horizon` (seconds), see ``copies.py``."""

    horizon: float = HORIZON


@dataclass(frozen=True, slots=True)
class StandardStays(Standard):
    """`Standard`, with messages that open groups, or close them, or both."""

    opens: bool = False
    closes: bool = False
    unopened_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class StandardNumbers(Standard):
    """`Standard`, with numbers as producers have them: see ``policies/numbers.py``."""

    modulus: int | None = None
    spans: bool = False
    epochs: bool = False


@dataclass(frozen=True, slots=True)
class BestEffortNumbers(BestEffort):
    """`BestEffort`, with numbers that turn over, and messages without one."""

    modulus: int | None = None


Stays = FifoStays | StandardStays

Policy = Unordered | Fifo | Standard | BestEffort | UnitOfWork


def remembering(policy: Policy, count: int = REMEMBERED) -> Policy:
    """The policy with the number that an engine remembers in place of None."""
    return replace(policy, remember=count) if isinstance(policy, Standard) and policy.remember is None else policy


_BY_NAME: dict[str, type[Policy]] = {kind.name: kind for kind in (Unordered, Fifo, Standard, BestEffort, UnitOfWork)}


def policy_from(name: str, **parameters: Any) -> Policy:
    """The policy with the name that a pipeline file uses (``standard``, ``best_effort``, …). Raises `PolicyError`: unknown name or
    parameter, or a wrong value.
    """
    kind = _BY_NAME.get(name)
    if kind is None:
        raise PolicyError(f"unknown policy {name!r}", remedy=f"one of {', '.join(sorted(_BY_NAME))}", argument="policy")
    return kind(**parameters)


def with_stays(policy: Policy, *, opens: bool, closes: bool, unopened_timeout: Duration | None = None) -> Policy:
    """The policy, with messages that open its groups or close them, if there are such. Raises `PolicyError`: the policy is neither `Fifo`
    nor `Standard`; or there is a time-out, and nothing opens groups.
    """
    period = period_of("a queue", "unopened_timeout", unopened_timeout)
    if period is not None and not opens:
        raise PolicyError(
            "unopened_timeout is for groups that a message opens",
            remedy="add opens, or leave it out",
            argument=("unopened_timeout", "opens"),
        )
    if not opens and not closes:
        return policy
    if type(policy) not in (Fifo, Standard):
        raise PolicyError(
            f"opens and closes are for Fifo and Standard, not for {type(policy).__name__}",
            remedy="leave them out",
            argument=("opens", "policy") if opens else ("closes", "policy"),
        )
    its = {one.name: getattr(policy, one.name) for one in fields(policy)}
    kind = FifoStays if isinstance(policy, Fifo) else StandardStays
    return kind(**its, opens=opens, closes=closes, unopened_timeout=period)


def with_regions(policy: Policy, horizon: Duration | None = None) -> Policy:
    """The policy for messages that two regions send; `horizon`: for how long `Fifo` remembers their ids, None: an hour. Raises
    `PolicyError`: the policy is neither `Fifo` nor `Standard`, messages open or close its groups, or the horizon is wrong.
    """
    if isinstance(policy, FifoStays | StandardStays):
        raise PolicyError(
            "messages of two regions can't open or close groups: a copy would open its group again",
            remedy="leave out opens and closes",
            argument=("opens", "closes"),
        )
    if isinstance(policy, StandardNumbers):
        raise PolicyError(
            "what numbers mean, and how a first number is found, can't be said where two regions send messages",
            remedy="leave it out, or read one region alone",
            argument=("sequence", "start"),
        )
    if type(policy) not in (Fifo, Standard):
        raise PolicyError(
            f"messages of two regions are ordered by Standard or Fifo, not by {type(policy).__name__}",
            remedy="number them and take Standard, or take Fifo",
            argument="policy",
        )
    if isinstance(policy, Standard):
        if horizon is not None:
            raise PolicyError(
                "horizon is for Fifo: Standard knows copies by their numbers",
                remedy="leave out horizon; Standard(remember=…) is how many ids of a group are compared",
                argument="horizon",
            )
        return remembering(policy)
    period = HORIZON if horizon is None else period_of("Fifo", "horizon", horizon)
    if period is None:
        raise PolicyError(
            "Fifo: horizon must be above 0", remedy='such as "1h": by how much one region may lag', argument="horizon"
        )
    return FifoMerged(horizon=period)


def has_clock(policy: Policy) -> bool:
    """Whether something can be due in a group of the policy: a time-out, or a round."""
    match policy:
        case BestEffort():
            return True
        case UnitOfWork(timeout=timeout):
            return timeout is not None
        case FifoStays(unopened_timeout=timeout):
            return timeout is not None
        case StandardStays(hole_timeout=hole, unopened_timeout=unopened):
            return hole is not None or unopened is not None
        case Standard(hole_timeout=hole, settle=settle):
            return hole is not None or settle is not None
    return False
