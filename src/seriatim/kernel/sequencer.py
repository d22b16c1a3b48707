"""The `Sequencer`: the kernel with a dictionary around it, for programs that need order in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from seriatim.errors import ActionRefused, NotFound, PolicyError, UsageError, shown
from seriatim.kernel import resequence as kernel
from seriatim.kernel.conservation import Counts
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.number_reader import NumberReader, Read, property_of
from seriatim.kernel.groups.numbers import Field, Sequence, by_position, with_numbers
from seriatim.kernel.groups.policy import (
    BestEffort,
    Duration,
    Fifo,
    FifoMerged,
    Policy,
    Standard,
    StandardNumbers,
    UnitOfWork,
    Unordered,
    remembering,
    with_regions,
    with_stays,
)
from seriatim.kernel.groups.positions import position_text, ranked, ranks
from seriatim.kernel.groups.sequence import key_problem, position_reader
from seriatim.kernel.groups.state import NOTHING, Flag, State
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.kernel.operators import actions
from seriatim.kernel.policies.copies import region_bit
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.values.columns import Ints, empty_ints
from seriatim.kernel.values.fingerprint import of_value
from seriatim.kernel.values.outcome import REASONS, Decided, Disposition, Events, Reason, numbers_in, runs_of
from seriatim.kernel.values.reading import of_size, whole_number
from seriatim.kernel.values.time import FOREVER, NEVER, micros, seconds

Key = Any


class Void(Enum):
    VOID = "VOID"

    def __repr__(self) -> str:
        return self.value


#: The value of a message that lets the next number pass and leaves nothing.
VOID = Void.VOID


class Released(NamedTuple):
    """A released message. `ordinal` counts the messages released in its group; `late`: it left out of order.

    `sequence`: where numbers turn over, the number through all turns. `overlaps`: it has numbers that have left before. `partial`: its set
    isn't complete, and `missing` are the numbers that it lacks, 10,000 at most; the events `incomplete` have all. `epoch`: its epoch, if
    its queue has epochs.
    """

    group: Key
    sequence: Any
    value: Any
    ordinal: int | None
    late: bool = False
    overlaps: bool = False
    partial: bool = False
    missing: tuple[int, ...] = ()
    epoch: int | None = None


class Item(NamedTuple):
    """A message that was not released, with the reason."""

    group: Key
    sequence: Any
    value: Any
    reason: str


class Event(NamedTuple):
    """An event of a group: `kind` is a word of ``EventKind``, `first`..`last` are the numbers concerned, if any.

    Of a group in order of event time the numbers are seconds. `count`: how many messages or numbers it stands for.
    """

    kind: str
    group: Key
    first: Any
    last: Any
    count: int = 1  # type: ignore[assignment] # in place of the method of tuples


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call.

    `released` is in order within each group. Across groups it follows the arrivals and timers that released the messages.
    """

    released: list[Released] = field(default_factory=list)
    late: list[Item] = field(default_factory=list)
    duplicates: list[Item] = field(default_factory=list)
    invalid: list[Item] = field(default_factory=list)
    rejected: list[Item] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)
    void: list[Item] = field(default_factory=list)
    copies: list[Item] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def among(self, disposition: Disposition) -> list[Any]:
        """The list of the messages with a disposition."""
        several = {Disposition.DUPLICATE: "duplicates", Disposition.COPY: "copies"}
        found: list[Any] = getattr(self, several.get(disposition, disposition.word))
        return found


class _GroupFields(NamedTuple):
    state: str
    next: int | None
    held: int
    hole_since: float | None
    last_released: Any
    ordinal: int


class GroupView(_GroupFields):
    """The state of a group. `next` is None if the policy has no next number, `hole_since` (seconds) if no hole is open.

    `allowed`: the actions that it allows now; `skip_message` without a name, that is, on the message that stopped it. `closing`: it
    was told to close, and is closed when it holds nothing.
    """

    allowed: tuple[str, ...] = ()
    closing: bool = False

    def allows(self, action: str) -> bool:
        """Whether the group allows an action now."""
        return action in self.allowed


class Sequencer:
    """Puts messages in order per group, in memory.

    Args:
        policy: how groups are ordered.
        start_from: first numbers of single groups, in place of the policy's `start`.
        compare: of which part of a value two messages with one number are compared, with the policy `Standard`: a key of it, a
            list of keys, or a function of it; None: the value itself. With ``UnitOfWork(once=False)`` it has to be given. A
            body that is neither bytes, text nor JSON-like isn't compared.
        opens: for `Fifo` and `Standard`: a function of the value that says whether the message opens its group. A group that isn't open
            holds its messages, and no clock runs.
        closes: likewise: whether the message closes its group. It does so when it is released.
        unopened_timeout: seconds after which messages that wait for the opening of their group are late; None: they wait for ever.
        region: for `Fifo` and `Standard`: a key of the value, or a function of it, that says which of two regions, ``"a"`` or ``"b"``, has
            sent the message. Each region sends every message: the second sight of one is a copy.
        message_id: likewise: the id that a message has in both regions.
        sequence: the number, where it is in the value: a key of it, or a function of it; or what the numbers mean: spans, turn-overs,
            epochs and more. Together with `opens`, `closes` or `region` only the number and `void`.
        horizon: with `region`, for `Fifo`: seconds (or ``"1h"``, as by default) for which ids are remembered, from the first sight on.

    Raises:
        UsageError: `policy` isn't a policy, `start_from` no mapping to whole numbers, or `compare` is none of these, or not for
            this policy.
        PolicyError: `opens`, `closes`, `region` or `sequence` is given with another policy; or a time-out, or the horizon, is wrong.

    Times are seconds. Time never goes back: an earlier `now` counts as the latest one, and None keeps it unchanged.
    Not thread-safe. A group costs a few hundred bytes for as long as the sequencer lives.
    """

    def __init__(
        self,
        policy: Policy,
        start_from: Mapping[Key, int] | None = None,
        *,
        compare: str | Iterable[str] | Callable[[Any], Any] | None = None,
        opens: Callable[[Any], bool] | None = None,
        closes: Callable[[Any], bool] | None = None,
        unopened_timeout: Duration | None = None,
        region: str | Callable[[Any], Any] | None = None,
        message_id: str | Callable[[Any], Any] | None = None,
        horizon: Duration | None = None,
        sequence: Field | Sequence | None = None,
    ) -> None:
        if not isinstance(policy, Policy):
            raise UsageError(f"{shown(policy)} is not a policy", remedy="such as Fifo() or Standard(hole_timeout=100)")
        for name, given in (("opens", opens), ("closes", closes)):
            if given is not None and not callable(given):
                raise UsageError(f"{name} can't be {shown(given)}", remedy="a function of the value")
        self._content = _content(policy, compare)
        self._stays = tuple((bit, says) for bit, says in ((OPENS, opens), (CLOSES, closes)) if says is not None)
        self.policy = policy = with_stays(
            remembering(policy), opens=opens is not None, closes=closes is not None, unopened_timeout=unopened_timeout
        )
        if (region is None) != (message_id is None) or (horizon is not None and region is None):
            raise UsageError("region and message_id belong together", remedy="give both, or neither (and no horizon)")
        self._region, self._message_id = region, message_id
        if region is not None:
            self.policy = policy = with_regions(policy, horizon)
        if isinstance(sequence, str) or callable(sequence):
            sequence = Sequence(sequence)
        together = opens is not None or closes is not None or region is not None
        self.policy = policy = _numbered(policy, sequence, together=together)
        self._by_position = by_position(policy)
        said = Sequence() if sequence is None and self._by_position else sequence
        self._numbers = NumberReader(policy, said) if said is not None else None
        #: By group the positions of which its state has ranks.
        self._positions: dict[Key, list[bytes]] = {}
        self._epochs: dict[int, int] = {}
        self._position = position_reader(policy)
        self._groups: dict[Key, State] = {}
        self._due: dict[Key, int] = {}
        self._messages: dict[int, tuple[Key, Any, Any]] = {}
        self._counts = dict.fromkeys(Disposition, 0)
        self._taken = 0
        self._now = NEVER
        self._names: dict[Key, Key] = {}
        for key, number in _first_numbers(policy, start_from).items():
            self._names[_raw(key)] = key
            self._groups[_raw(key)] = kernel.new_state(policy, 1, np.array([number], np.int64))

    # ---- messages and time

    def offer(self, items: Iterable[tuple[Key, Any, Any]], now: float | None = None) -> Outcome:
        """Takes messages ``(group, sequence, value)`` in order of arrival; fires no timer.

        With the value `VOID` it is no message: its number is taken, lets the next one pass, and nothing leaves.

        Raises:
            UsageError: `now` is not a time, or an item is not such a triple.
        """
        triples = list(_tuples(items, 3, "(group, sequence, value)"))
        moment = self._move(now)
        return self._take(((*triple, moment) for triple in triples), kernel.offer)

    def replay(self, items: Iterable[tuple[Key, Any, Any, float]], watermark: float | None = None) -> Outcome:
        """Takes messages ``(group, sequence, value, time)`` in order of their own times.

        Timers that are due before a message's time fire before it. At the end, time moves to `watermark`, if given.

        Raises:
            UsageError: a time is not a time, or an item is not such a tuple.
        """
        given = _tuples(items, 4, "(group, sequence, value, time)")
        timed = sorted(((g, s, v, micros(t)) for g, s, v, t in given), key=lambda item: item[3])
        until = NEVER if watermark is None else self._move(watermark)
        outcome = self._take(timed, lambda policy, state, arrivals: kernel.replay(policy, state, arrivals, until))
        if watermark is None:
            return outcome
        return _joined(outcome, self._advance(until))

    def advance(self, now: float) -> Outcome:
        """Fires all timers that are due at or before `now`.

        Raises:
            UsageError: `now` is not a time.
        """
        return self._advance(self._reach(now))

    def finish(self) -> Outcome:
        """Lets time run out: all timers fire."""
        return self._advance(FOREVER)

    # ---- the operator's hand

    def suspend(self, group: Key, now: float | None = None) -> Outcome:
        """Suspends a group: it accepts messages, but releases none; also a group of which no message has come yet.

        Raises:
            ActionRefused: the group is closed. Each action raises it in a state in which it isn't allowed.
        """
        return self._act(Action.SUSPEND, group, now)

    def resume(self, group: Key, now: float | None = None) -> Outcome:
        """Resumes a suspended group."""
        return self._act(Action.RESUME, group, now)

    def skip_message(self, group: Key, now: float | None = None, *, sequence: Any = None) -> Outcome:
        """Makes the late message that suspended the group dead; with `sequence` the held message with this sequence.

        The number of a message that is taken out of the middle stays taken. It is passed with its run, and counts as
        skipped then. Of several with the sequence the first that came is taken out.

        Raises:
            ActionRefused: without `sequence`: no message has stopped the group; with it: it holds no such message.
        """
        if sequence is None:
            return self._act(Action.SKIP_MESSAGE, group, now)
        held = self._known(group).held.messages()
        moment = self._move(now)
        numbers = zip(held.ref.tolist(), held.sequence.tolist(), strict=True)
        ref = min((ref for ref, number in numbers if self._shown(ref, number)[1] == sequence), default=None)
        if ref is None:
            raise ActionRefused(
                f"the group holds no message with the sequence {shown(sequence)}",
                where=f"group {shown(group)}",
                remedy="name one of those that it holds: see held",
            )
        state, key = self._known(group), _raw(group)
        acted = actions.skip_message(self.policy, state, moment, str(group), ref)
        return self._settle([key], acted, every=self._positions.get(key, []))

    def skip_hole(self, group: Key, through: int | None = None, now: float | None = None) -> Outcome:
        """Skips the missing numbers up to `through`; None: the whole hole."""
        return self._act(Action.SKIP_HOLE, group, now, through=through)

    def reset(self, group: Key, next: int, now: float | None = None) -> Outcome:  # noqa: A002 - the word of the design
        """Sets the next number of the group, also of one of which no message has come yet."""
        return self._act(Action.RESET, group, now, next=next)

    def restart(self, group: Key, now: float | None = None) -> Outcome:
        """Begins a group anew, from the policy's `start`: its held messages come back, in order of arrival. Ordinals go on.

        Messages that were set aside aren't kept in memory: only what is held comes back.
        """
        return self._act(Action.RESTART, group, now)

    def abort(self, group: Key, now: float | None = None) -> Outcome:
        """Makes all held messages of the group dead. Its next number stays; numbers that never came can still come."""
        return self._act(Action.ABORT, group, now)

    def close(self, group: Key, now: float | None = None, *, at_once: bool = False) -> Outcome:
        """Closes a group: new messages are late, except missing numbers below the highest one held.

        Its held messages go on by the usual rules and clocks; it is closed when it holds nothing. With `at_once` it is closed now,
        and nothing leaves any more: its held messages can only be aborted.
        """
        return self._act(Action.CLOSE, group, now, at_once=at_once)

    # ---- what there is

    def group(self, group: Key) -> GroupView:
        """The state of a group.

        Raises:
            UsageError: there is no such group.
        """
        state = self._known(group)
        groups = state.groups
        last = int(groups.last[0])
        unopened = bool(groups.has(Flag.UNOPENED)[0])
        begun = isinstance(self.policy, Standard) and (not self.policy.finds_start or groups.has(Flag.BEGUN)[0])
        hole = begun and groups.since[0] != NEVER and not unopened
        situation = actions.situation_of(self.policy, state)
        view = GroupView(
            state=str(situation.state),
            next=int(groups.next[0]) if begun else None,
            held=len(state.held.messages()),
            hole_since=seconds(int(groups.since[0])) if hole else None,
            last_released=None
            if last == NOTHING
            else _as_given(self.policy, last, self._positions.get(_raw(group), [])),
            ordinal=int(groups.ordinal[0]),
        )
        view.closing = bool(groups.has(Flag.CLOSING)[0])
        view.allowed = tuple(str(action) for action in situation.allowed if hasattr(self, action))
        return view

    def groups(self) -> list[Key]:
        """The keys of all groups, in the order in which they were first seen."""
        return [self._names[key] for key in self._groups]

    def held(self, group: Key) -> list[Item]:
        """The held messages of a group, in order, with reasons."""
        state = self._known(group)
        held, reasons = state.held, kernel.why_held(self.policy, state)
        columns = (one.tolist() for one in (held.ref, held.sequence, reasons, held.weight))
        return [
            Item(*self._shown(ref, number), REASONS[Reason(why)])
            for ref, number, why, weight in zip(*columns, strict=True)
            if weight
        ]

    def counts(self) -> Counts:
        """The numbers of the law of conservation."""
        held = len(self._messages)
        decided = {disposition.word: count for disposition, count in self._counts.items()}
        counts = Counts(in_=self._taken, **(decided | {"held": held}))
        counts.check()
        return counts

    # ---- inside

    def _move(self, now: float | None) -> int:
        if now is not None:
            return self._reach(now)
        if self._now == NEVER:
            self._now = 0
        return self._now

    def _reach(self, now: float) -> int:
        self._now = max(self._now, micros(now))
        return self._now

    def _known(self, group: Key) -> State:
        try:
            return self._groups[_raw(group)]
        except (KeyError, TypeError):
            raise NotFound(f"there is no group {group!r}", remedy="no message of this group has arrived yet") from None

    def _take(
        self, items: Iterable[tuple[Key, Any, Any, int]], judge: Callable[[Policy, State, Arrivals], kernel.Outcome]
    ) -> Outcome:
        # A call that fails takes nothing in: what can fail comes first.
        prepared = [
            (key, sequence, value, moment, self._fingerprint(value), self._read(key, sequence, value))
            for key, sequence, value, moment in items
        ]
        rows: dict[Key, int] = {}
        columns: list[tuple[int, ...]] = []
        came: list[bytes] = []
        outcome = Outcome()
        for ref, (key, sequence, value, moment, print_, read) in enumerate(prepared, start=self._taken):
            if isinstance(self.policy, Unordered) and not read.weight:
                self._counts[Disposition.VOID] += 1
                outcome.void.append(Item(key, sequence, value, REASONS[Reason.LEAVES_NOTHING]))
            elif isinstance(self.policy, Unordered):
                self._counts[Disposition.RELEASED] += 1
                outcome.released.append(Released(key, sequence, value, None))
            elif read.reason is not Reason.NONE:
                self._counts[Disposition.INVALID] += 1
                outcome.invalid.append(Item(key, sequence, value, REASONS[read.reason]))
            else:
                self._messages[ref] = (key, sequence, value)
                if read.epoch is not None:
                    self._epochs[ref] = read.epoch
                number = ref if isinstance(self.policy, Fifo) else read.number
                print_ = print_ if read.weight else 0  # noqa: PLW2901 - a void has no content
                row = rows.setdefault(_raw(key), len(rows))
                columns.append(
                    (row, number, ref, moment, read.size, read.weight, print_, read.through, read.epoch or 0)
                )
                came += [] if read.position is None else [read.position]
                self._names.setdefault(_raw(key), key)
        self._taken += len(prepared)
        return _joined(outcome, self._apply(list(rows), columns, judge, came)) if columns else outcome

    def _fingerprint(self, value: Any) -> int:
        """The fingerprint of a value's content; 0 where nothing is compared."""
        if value is VOID or not (isinstance(self.policy, Standard | FifoMerged) or _begins_again(self.policy)):
            return 0
        if self._message_id is None:
            return of_value(value if self._content is None else self._content(value))
        identity = property_of(self._message_id, value)
        return of_value(identity if self._content is None else [identity, self._content(value)])

    def _read(self, key: Key, sequence: Any, value: Any) -> Read:
        """The problem with a message; or its number, and the size of its set if the message contains it."""
        weight = 0 if value is VOID else 1
        if isinstance(self.policy, Unordered):
            return Read(Reason.NONE, weight=0 if self._numbers is not None and self._numbers.is_void(value) else weight)
        reason = key_problem(key)
        if reason is not Reason.NONE:
            return Read(reason)
        if self._numbers is not None:
            read = self._numbers.read(sequence, None if value is VOID else value, void=value is VOID)
        else:
            number = 0 if isinstance(self.policy, Fifo) else self._position(sequence)
            read = Read(number) if isinstance(number, Reason) else Read(reason, number, NOT_SAID, weight, number)
        if read.reason is not Reason.NONE:
            return read
        told = (
            _size(self.policy, read.number, value) if isinstance(self.policy, UnitOfWork) else self._bits(read, value)
        )
        if isinstance(told, Reason):
            return Read(told)
        return read if told == read.size else read._replace(size=told)

    def _bits(self, read: Read, value: Any) -> int | Reason:
        """Whether a message opens its group, and closes it; or which region it comes from, or why that isn't known: a void needs neither
        region nor id. Else what was read.
        """
        if value is VOID:
            return read.size
        if self._region is not None:
            bit = region_bit(property_of(self._region, value))
            if not read.weight:
                return bit or read.size
            missing = property_of(self._message_id, value) is None
            return (Reason.ID_MISSING if missing else bit) if bit else Reason.REGION_UNKNOWN
        if not self._stays:
            return read.size
        return sum(bit for bit, says in self._stays if says(value))

    def _apply(
        self,
        keys: list[Key],
        columns: list[tuple[int, ...]],
        judge: Callable[[Policy, State, Arrivals], kernel.Outcome],
        came: list[bytes],
    ) -> Outcome:
        group, sequence, ref, moment, size, weight, print_, through, epoch = np.array(columns, np.int64).T
        numbered = self.policy if isinstance(self.policy, StandardNumbers) else None
        for key in keys:
            if key not in self._groups:
                self._groups[key] = kernel.new_state(self.policy, 1)
        state, every, found = self._together(keys, came)
        sequence = found if self._by_position else sequence
        order = np.argsort(group, kind="stable")
        arrivals = Arrivals(
            group[order], sequence[order], ref[order], moment[order], size[order], weight[order], print_[order],
            through[order] if numbered is not None and numbered.spans else None,
            epoch[order] if numbered is not None and numbered.epochs else None,
        )  # fmt: skip
        # A group's time never goes back, so a message may count as later than it says.
        moment = np.maximum(moment, state.groups.clock[group])
        return self._settle(keys, judge(self.policy, state, arrivals), (ref, moment), every=every)

    def _together(self, keys: list[Key], came: list[bytes]) -> tuple[State, list[bytes], Ints]:
        """The states of groups as one, and where positions order them, these as one list, and the ranks of what comes."""
        states = [self._groups[key] for key in keys]
        if not self._by_position:
            return State.join(states), [], empty_ints()
        every, states, found = ranked(zip(states, (self._positions.get(key, []) for key in keys), strict=True), came)
        return State.join(states), every, found

    def _advance(self, now: int) -> Outcome:
        keys = [key for key, due in self._due.items() if due <= now]
        if not keys:
            return Outcome()
        state, every, _ = self._together(keys, [])
        return self._settle(keys, kernel.advance(self.policy, state, now), every=every)

    def _act(self, action: Action, group: Key, now: float | None, **given: Any) -> Outcome:
        begins = VERBS[action].begins and key_problem(group) is Reason.NONE and _raw(group) not in self._groups
        begins = begins and not isinstance(self.policy, Unordered)
        state = kernel.new_state(self.policy, 1) if begins else self._known(group)
        acted = actions.apply(self.policy, state, self._move(now), str(group), action, given)
        self._names.setdefault(_raw(group), group)
        return self._settle([_raw(group)], acted, every=self._positions.get(_raw(group), []))

    def _settle(
        self, keys: list[Key], outcome: kernel.Outcome, arrived: tuple[Ints, Ints] | None = None, *, every: list[bytes]
    ) -> Outcome:
        """Store the new states, and return the decisions in the user's terms; `arrived`: refs and times, ascending; `every`: the positions
        of which the states have ranks.
        """
        due = kernel.due(self.policy, outcome.state).tolist()
        for key, state, moment in zip(keys, outcome.state.split(), due, strict=True):
            if self._by_position:
                state, needed = ranks(state)  # noqa: PLW2901 -- the same group
                self._positions[key] = [every[rank] for rank in needed.tolist()]
            self._groups[key] = state
            if moment < FOREVER:
                self._due[key] = moment
            else:
                self._due.pop(key, None)
        # The numbers that partial sets lack.
        lacks = {(group, at): numbers_in(runs) for group, at, runs in runs_of(outcome.events)}
        told = self._tell(_in_time(outcome.decided, arrived), lacks)
        return replace(told, events=_events(self.policy, [self._names[key] for key in keys], outcome.events, every))

    def _tell(self, decided: Decided, lacks: Mapping[tuple[int, int], tuple[int, ...]]) -> Outcome:
        outcome = Outcome()
        names = ("ref", "sequence", "disposition", "reason", "ordinal", "late", "group", "cause")
        columns = (getattr(decided, name).tolist() for name in names)
        for ref, number, what, why, ordinal, late, group, cause in zip(*columns, strict=True):
            disposition = Disposition(what)
            message = self._messages[ref] if disposition is Disposition.INVALID else self._shown(ref, number)
            del self._messages[ref]
            epoch = self._epochs.pop(ref, None)
            self._counts[disposition] += 1
            if disposition is Disposition.RELEASED:
                overlaps, partial = why == Reason.OVERLAPS, why == Reason.PARTIAL
                missing = lacks.get((group, cause), ()) if partial else ()
                outcome.released.append(Released(*message, ordinal, late, overlaps, partial, missing, epoch))
            else:
                outcome.among(disposition).append(Item(*message, REASONS[Reason(why)]))
        return outcome

    def _shown(self, ref: int, number: int) -> tuple[Key, Any, Any]:
        """A message, with the number that it has through all turns where numbers turn over."""
        key, sequence, value = self._messages[ref]
        turns_over = getattr(self.policy, "modulus", None) is not None
        if turns_over and not (self._numbers is not None and self._numbers.is_bare(value)):
            return key, number, value
        return key, sequence, value


def _in_time(decided: Decided, arrived: tuple[Ints, Ints] | None) -> Decided:
    """Sort as if messages had been judged one at a time; a timer comes after arrivals of its time."""
    at, cause = decided.cause, np.where(decided.timed, FOREVER, decided.cause)
    if arrived is not None:
        refs, times = arrived
        at = np.where(decided.timed, at, times[np.minimum(np.searchsorted(refs, decided.cause), len(refs) - 1)])
    return decided.take(np.lexsort((cause, at)))


def _tuples(items: Iterable[Any], size: int, form: str) -> Iterable[tuple[Any, ...]]:
    if not isinstance(items, Iterable):
        raise UsageError(f"{shown(items)} is not a list of messages", remedy=f"give a list of {form}")
    for item in items:
        try:
            parts = tuple(item)
        except TypeError:
            parts = ()
        if len(parts) != size:
            raise UsageError(f"{shown(item)} is not a message", remedy=f"give {form}")
        yield parts


def _size(policy: UnitOfWork, number: int, value: Any) -> int | Reason:
    """The size of its set that a message contains, or why it isn't one."""
    if value is VOID:
        return NOT_SAID
    if policy.last is not None:
        return number if property_of(policy.last, value) else NOT_SAID
    if isinstance(policy.size, int):
        return NOT_SAID
    size = whole_number(property_of(policy.size, value))
    if size is Reason.SEQUENCE_MISSING:
        return NOT_SAID
    return of_size(size) if isinstance(size, Reason) else max(size, 0)


def _numbered(policy: Policy, sequence: Sequence | None, *, together: bool) -> Policy:
    """The policy that keeps the rules of a sequence; `together`: with messages that open or close groups, or come from regions."""
    if sequence is not None and not isinstance(sequence, Sequence):
        raise UsageError(f"sequence can't be {shown(sequence)}", remedy="such as Sequence(modulus=65536)")
    rules = sequence is not None and set(sequence.says()) - {"void"}
    if together and (rules or (isinstance(policy, Standard) and policy.gathers)):
        raise PolicyError(
            "what numbers mean, and how a first number is found, can't be said together with opens, closes or region",
            remedy="leave one of them out",
            argument=("sequence", "opens"),
        )
    return with_numbers(policy, sequence)


def _first_numbers(policy: Policy, given: Mapping[Key, int] | None) -> Mapping[Key, int]:
    """The first numbers of single groups, checked."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UsageError(f"start_from can't be {shown(given)}", remedy='first numbers by group: {"cust-1": 7}')
    for key, number in given.items():
        if not isinstance(policy, Standard):
            raise UsageError("start_from requires the policy Standard")
        if isinstance(number, bool) or not isinstance(number, int | np.integer) or abs(number) > FOREVER:
            raise UsageError(f"group {shown(key)} can't start from {shown(number)}", remedy="give a whole number")
    return given


def _content(policy: Policy, compare: str | Iterable[str] | Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """The function that gives the compared part of a value; None: all of it."""
    if _begins_again(policy) and compare is None:
        raise PolicyError(
            "UnitOfWork(once=False) tells parts that come again by their content",
            remedy="add compare",
            argument=("once", "compare"),
        )
    if compare is None:
        return None
    if not isinstance(policy, Standard) and not _begins_again(policy):
        raise UsageError("compare requires the policy Standard", remedy="leave it out: only its messages are compared")
    if callable(compare):
        return compare
    names = [compare] if isinstance(compare, str) else list(compare) if isinstance(compare, Iterable) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise UsageError(f"compare can't be {shown(compare)}", remedy="give a key, a list of keys, or a function")
    return lambda value: {name: value.get(name) for name in names} if isinstance(value, Mapping) else object()


def _begins_again(policy: Policy) -> bool:
    """Whether the sets of a key follow one another."""
    return isinstance(policy, UnitOfWork) and not policy.once


def _raw(key: Key) -> Key:
    """Keys are compared as bytes: a text is the same key as its UTF-8."""
    return key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key


def _as_given(policy: Policy, position_: int, every: list[bytes]) -> Any:
    """A sequence in the user's form; `every`: the positions of which it is a rank, where positions order messages."""
    if by_position(policy):
        return position_text(every[position_])
    return seconds(position_) if isinstance(policy, BestEffort) and policy.by == "time" else position_


def _events(policy: Policy, keys: list[Key], events: Events, every: list[bytes]) -> list[Event]:
    given = partial(_number_of, policy, every=every)
    return [
        Event(one.kind.word, keys[one.group], given(one.first), given(one.last), one.count) for one in events.rows()
    ]


def _number_of(policy: Policy, number: int | None, *, every: list[bytes]) -> Any:
    return None if number is None else _as_given(policy, number, every)


def _joined(first: Outcome, second: Outcome) -> Outcome:
    return Outcome(*(getattr(first, name) + getattr(second, name) for name in Outcome.__slots__))
