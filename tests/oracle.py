"""The rules of order once more, naively: one message at a time, with lists and dictionaries.

Obviously right and slow. Written from design.md alone; shares nothing with the kernel but the policies
and the error tree. The interface is that of `Sequencer`, so that the two can be compared call by call.
Time is int microseconds inside, seconds outside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
TICKETS_PER_EPOCH = 2**53 - 1
REMEMBERED_RANGES = 64
END_OF_TIME = 2**62


@dataclass
class Message:
    """One message: who it is for, its place there, and the number it arrived under."""

    group: Any
    sequence: Any
    value: Any
    arrival: int
    number: int = 0  # the sequence as an integer, once it was understood
    waits: bool = False  # BestEffort: came after its round was fixed


@dataclass
class Outcome:
    """What one call decided. `moments` gives the time of each released message."""

    released: list[tuple[Any, Any, Any, int | None, bool]] = field(default_factory=list)
    late: list[Message] = field(default_factory=list)
    duplicates: list[Message] = field(default_factory=list)
    invalid: list[Message] = field(default_factory=list)
    rejected: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    events: list[tuple[str, Any, int | None, int | None]] = field(default_factory=list)
    moments: list[int] = field(default_factory=list)


@dataclass
class View:
    """What can be seen of a group from outside."""

    state: str
    next: int | None
    held: int
    hole_since: float | None
    last_released: Any
    ordinal: int


def whole(value: Any) -> int | None:
    """The value as an int64, or None if it isn't one. A ticket counts through its epochs."""
    if isinstance(value, tuple):
        epoch, number = value
        value = epoch * TICKETS_PER_EPOCH + number if epoch >= 0 and number >= 1 else None
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if INT64_MIN <= value <= INT64_MAX else None


def micros(seconds: float) -> int:
    return round(seconds * 1_000_000)


def moment_of(value: Any) -> int | None:
    """The value, seconds or a datetime, as microseconds since 1970, or None if it is neither."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since_epoch.days * 86400 + since_epoch.seconds) * 1_000_000 + since_epoch.microseconds
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return micros(value) if abs(value) < END_OF_TIME / 1_000_000 else None


def key_bytes(group: Any) -> bytes | None:
    """The key as the bytes it is compared by, or None if it isn't a key."""
    try:
        raw = group.encode() if isinstance(group, str) else group
        if not isinstance(raw, bytes) or not 1 <= len(raw) <= 1024 or b"\0" in raw:
            return None
        raw.decode()
    except UnicodeError:
        return None
    return raw


class Group:
    """What all policies have in common: what leaves is counted; suspended or closed, nothing leaves."""

    def __init__(self, key: Any, policy: Any) -> None:
        self.key = key
        self.policy = policy
        self.held: list[Message] = []
        self.late_held: list[Message] = []
        self.closed = False
        self.suspended = False
        self.ordinal = 0
        self.last_released: Any = None
        self.clock = -END_OF_TIME

    # What a policy adds.
    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        raise NotImplementedError

    def end_of_offer(self, now: int, out: Outcome) -> None:
        """After the last message of a call."""

    def due(self) -> int | None:
        return None

    def fire(self, now: int, out: Outcome) -> None:
        raise NotImplementedError

    def hole(self) -> tuple[int, int] | None:
        return None

    def let_go(self, now: int, out: Outcome) -> None:
        """Everything that may leave leaves; clocks are set. After every change."""
        raise NotImplementedError

    def shown_state(self) -> str:
        if self.closed:
            return "closed"
        return "suspended" if self.suspended else "ready"

    def view(self) -> View:
        held = len(self.held) + len(self.late_held)
        return View(self.shown_state(), None, held, None, self.last_released, self.ordinal)

    def leave(self, message: Message, now: int, out: Outcome, *, late: bool = False) -> None:
        self.ordinal += 1
        self.last_released = None if isinstance(self.policy, Fifo) else message.number
        out.released.append((message.group, message.sequence, message.value, self.ordinal, late))
        out.moments.append(now)

    def take_late(self, message: Message, now: int, out: Outcome, *, room: bool = True) -> None:
        """The three ways with a late message."""
        if self.policy.late == "set_aside":
            out.late.append(message)
        elif self.policy.late == "deliver" and not self.suspended:
            self.leave(message, now, out, late=True)
        elif not room:
            out.rejected.append(message)
        else:
            self.late_held.append(message)
            self.suspended = True

    # Actions.
    def refuse(self, action: str) -> None:
        raise ActionRefused(f"{action} does not fit a group that is {self.shown_state()}")

    def suspend(self, now: int, out: Outcome) -> None:
        if self.closed:
            self.refuse("suspend")
        self.suspended = True
        self.let_go(now, out)

    def resume(self, now: int, out: Outcome) -> None:
        if self.shown_state() != "suspended":
            self.refuse("resume")
        self.suspended = False
        for message in self.late_held:
            self.leave(message, now, out, late=True)
        self.late_held = []
        self.let_go(now, out)

    def skip_message(self, now: int, out: Outcome) -> None:
        if self.shown_state() != "suspended" or not self.late_held:
            self.refuse("skip_message")
        out.dead.append(self.late_held.pop(0))
        if not self.late_held:
            self.suspended = False
            self.let_go(now, out)

    def abort(self, now: int, out: Outcome) -> None:
        out.dead += self.held + self.late_held
        self.held, self.late_held = [], []
        self.let_go(now, out)

    def close(self, now: int, out: Outcome) -> None:
        if self.closed:
            self.refuse("close")
        self.closed = True
        out.events.append(("closed", self.key, None, None))
        self.let_go(now, out)

    def skip_hole(self, through: int | None, now: int, out: Outcome) -> None:
        self.refuse("skip_hole")

    def reset(self, number: int, now: int, out: Outcome) -> None:
        self.refuse("reset")


class FifoGroup(Group):
    """By arrival."""

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        if self.closed:
            out.late.append(message)
        else:
            self.held.append(message)
            self.let_go(now, out)

    def let_go(self, now: int, out: Outcome) -> None:
        if not self.suspended and not self.closed:
            for message in self.held:
                self.leave(message, now, out)
            self.held = []


class StandardGroup(Group):
    """Contiguous numbers."""

    def __init__(self, key: Any, policy: Standard, start_from: int | None) -> None:
        super().__init__(key, policy)
        self.begun_by_first_arrival = start_from is None and policy.start == "first"
        own = policy.start if start_from is None else start_from
        self.first: int | None = None if own == "first" else own  # type: ignore[assignment]
        self.next = self.first
        self.ranges: list[tuple[int, int]] = []
        self.since: int | None = None
        self.reports = 0
        self.hole_at: int | None = None
        self.timed_out = False

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        number = message.number
        if number > INT64_MAX - self.policy.increment:
            out.invalid.append(message)
        elif self.first is not None and (number - self.first) % self.policy.increment != 0:
            out.invalid.append(message)
        elif self.closed:
            out.late.append(message)
        elif self.first is None or self.next is None:
            self.first = self.next = number
            self.keep(message, now, out)
        elif number < self.first and not self.begun_by_first_arrival:
            out.invalid.append(message)
        elif number >= self.next:
            self.keep(message, now, out)
        elif number < self.first or any(low <= number <= high for low, high in self.ranges):
            self.take_late(message, now, out, room=self.has_room())
            self.let_go(now, out)
        else:
            out.duplicates.append(message)

    def has_room(self) -> bool:
        return self.policy.capacity is None or len(self.held) + len(self.late_held) < self.policy.capacity

    def keep(self, message: Message, now: int, out: Outcome) -> None:
        if any(other.number == message.number for other in self.held):
            out.duplicates.append(message)
        elif message.number == self.next or self.has_room():
            self.held.append(message)
            self.let_go(now, out)
        else:
            out.rejected.append(message)

    def let_go(self, now: int, out: Outcome) -> None:
        self.held.sort(key=lambda message: message.number)
        while self.held and self.held[0].number == self.next and not self.suspended and not self.closed:
            message = self.held.pop(0)
            self.leave(message, now, out)
            self.next = message.number + self.policy.increment
        if self.hole() is None:
            self.since, self.hole_at, self.timed_out = None, None, False
        elif self.hole_at != self.next:
            self.since, self.hole_at, self.reports, self.timed_out = now, self.next, 0, False

    def hole(self) -> tuple[int, int] | None:
        if self.suspended or self.closed or not self.held or self.next is None:
            return None
        lowest = min(message.number for message in self.held)
        return None if lowest == self.next else (self.next, lowest - self.policy.increment)

    def due(self) -> int | None:
        if self.since is None or self.timed_out or not self.policy.hole_timeout:
            return None
        return self.since + (self.reports + 1) * micros(self.policy.hole_timeout)

    def fire(self, now: int, out: Outcome) -> None:
        hole = self.hole()
        assert hole is not None
        self.reports += 1
        out.events.append(("hole_overdue", self.key, *hole))
        if self.reports <= self.policy.hole_retries:
            return
        if self.policy.on_hole == "wait":
            self.timed_out = True
            out.events.append(("timed_out", self.key, *hole))
        else:
            self.pass_over(*hole, now, out)

    def pass_over(self, first: int, last: int, now: int, out: Outcome) -> None:
        out.events.append(("hole_skipped", self.key, first, last))
        self.remember(first, last)
        self.next = last + self.policy.increment
        self.let_go(now, out)
        following = self.hole()
        if following is not None:
            out.events.append(("hole_opened", self.key, *following))

    def remember(self, first: int, last: int) -> None:
        self.ranges = [*self.ranges, (first, last)][-REMEMBERED_RANGES:]

    def shown_state(self) -> str:
        shown = super().shown_state()
        if shown != "ready":
            return shown
        if self.hole() is None:
            return "ready"
        return "timed_out" if self.timed_out else "waiting"

    def view(self) -> View:
        view = super().view()
        view.next = self.next
        view.hole_since = None if self.since is None else self.since / 1_000_000
        return view

    def skip_hole(self, through: int | None, now: int, out: Outcome) -> None:
        hole = self.hole()
        if hole is None or self.next is None:
            self.refuse("skip_hole")
            return
        last = hole[1] if through is None else through
        if not hole[0] <= last <= hole[1] or (last - hole[0]) % self.policy.increment != 0:
            raise ActionRefused("that is not a number of the hole")
        self.pass_over(hole[0], last, now, out)

    def reset(self, number: int, now: int, out: Outcome) -> None:
        if self.closed:
            self.refuse("reset")
        step = self.policy.increment
        if self.first is not None and (number - self.first) % step != 0:
            raise ActionRefused("that is not on the step")
        if self.first is None or self.next is None:
            self.first = self.next = number
        if number > self.next:
            out.late += [message for message in self.held if message.number < number]
            self.held = [message for message in self.held if message.number >= number]
            self.remember(self.next, number - step)
        elif number < self.next:
            self.ranges = [(low, min(high, number - step)) for low, high in self.ranges if low < number]
            self.first = min(self.first, number)
        self.next = number
        self.let_go(now, out)


class BestEffortGroup(Group):
    """Ascending within rounds."""

    def __init__(self, key: Any, policy: BestEffort) -> None:
        super().__init__(key, policy)
        self.window = None if policy.window is None else micros(policy.window)
        self.top: int | None = None  # the highest released in an earlier round
        self.since: int | None = None
        self.fixed: int | None = None  # the highest of the round, once fixed
        self.touched = False

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        number = message.number
        if self.closed:
            out.late.append(message)
        elif self.top is not None and number < self.top:
            self.take_late(message, now, out)
            self.let_go(now, out)
        else:
            message.waits = self.fixed is not None and number >= self.fixed
            self.held.append(message)
            self.let_go(now, out)
        self.touched = True

    def let_go(self, now: int, out: Outcome) -> None:
        if self.suspended or self.closed or not self.held:
            self.since, self.fixed = None, None
            for message in self.held:
                message.waits = False
        elif self.since is None:
            self.since = now

    def end_of_offer(self, now: int, out: Outcome) -> None:
        if self.window is None and self.touched and not self.suspended and not self.closed:
            self.release_round(self.policy.max_rows, now, out)
        self.touched = False

    def release_round(self, most: int | None, now: int, out: Outcome) -> None:
        members = [message for message in self.held if not message.waits]
        members.sort(key=lambda message: (message.number, message.arrival))
        members = members[:most]
        for message in members:
            self.leave(message, now, out)
        self.held = [message for message in self.held if message not in members]
        if members:
            self.top = members[-1].number
        self.since, self.fixed = None, None
        for message in self.held:
            message.waits = False
        self.let_go(now, out)

    def due(self) -> int | None:
        if self.since is None:
            return None
        if self.window is None:
            return self.since
        spare = 0 if self.fixed is None else round(self.window * self.policy.buffer)
        return self.since + self.window + spare

    def fire(self, now: int, out: Outcome) -> None:
        if self.window is None or self.fixed is not None:
            self.release_round(None, now, out)
        else:
            self.fixed = max(message.number for message in self.held)

    def resume(self, now: int, out: Outcome) -> None:
        super().resume(now, out)
        if self.window is None:
            self.release_round(None, now, out)

    def skip_message(self, now: int, out: Outcome) -> None:
        super().skip_message(now, out)
        if self.window is None and not self.suspended:
            self.release_round(None, now, out)


class UnitOfWorkGroup(Group):
    """A set, all or nothing."""

    def __init__(self, key: Any, policy: UnitOfWork) -> None:
        super().__init__(key, policy)
        self.size: int | None = policy.size if isinstance(policy.size, int) else None
        self.complete = False
        self.since: int | None = None

    def stated_size(self, message: Message) -> int | None:
        """What the message says about the size of its set; None: nothing."""
        policy, value = self.policy, message.value
        if policy.last is not None:
            is_last = policy.last(value) if callable(policy.last) else value.get(policy.last)
            return message.number if is_last else None
        if isinstance(policy.size, int):
            return None
        return whole(policy.size(value) if callable(policy.size) else value.get(policy.size))

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        number = message.number
        if self.closed:
            (out.duplicates if self.complete else out.late).append(message)
            return
        if number < 1:
            out.invalid.append(message)
            return
        stated = self.stated_size(message)
        if stated is not None and stated < 1:
            out.invalid.append(message)
            return
        known = stated if self.size is None else self.size
        if known is not None and (number > known or stated not in (None, known)):
            out.invalid.append(message)
        elif any(other.number == number for other in self.held):
            out.duplicates.append(message)
        else:
            self.held.append(message)
            if self.size is None and stated is not None:
                self.size = stated
                out.invalid += [other for other in self.held if other.number > stated]
                self.held = [other for other in self.held if other.number <= stated]
            self.let_go(now, out)

    def let_go(self, now: int, out: Outcome) -> None:
        if self.suspended or self.closed or not self.held:
            self.since = None
        elif self.since is None:
            self.since = now
        if self.suspended or self.closed or len(self.held) != self.size:
            return
        for message in sorted(self.held, key=lambda message: message.number):
            self.leave(message, now, out)
        self.held = []
        self.closed = self.complete = True
        out.events.append(("closed", self.key, None, None))

    def due(self) -> int | None:
        if self.since is None or self.closed or not self.policy.timeout:
            return None
        return self.since + micros(self.policy.timeout)

    def fire(self, now: int, out: Outcome) -> None:
        out.dead += self.held
        self.held = []
        self.closed = True
        out.events.append(("closed", self.key, None, None))


class Oracle:
    """The rules for one queue, a message at a time. The interface of `Sequencer`."""

    def __init__(self, policy: Policy, *, start_from: Mapping[Any, int] | None = None) -> None:
        self.policy = policy
        self.start = {key_bytes(key): number for key, number in (start_from or {}).items()}
        self.groups: dict[Hashable, Group] = {key_bytes(key): self.new_group(key) for key in start_from or {}}
        self.now = 0
        self.arrivals = 0
        self.tally = dict.fromkeys(("in", "released", "late", "duplicate", "invalid", "rejected", "dead"), 0)

    # Messages.
    def offer(self, items: Iterable[tuple[Any, Any, Any]], now: float | None = None) -> Outcome:
        self.clock_to(now)
        out, before = Outcome(), {}
        for item in items:
            message = Message(*item, self.next_arrival())
            target = self.understood(message, out)
            if target is not None:
                before.setdefault(target, (target.hole(), target.view().next))
                target.clock = max(target.clock, self.now)
                target.arrive(message, target.clock, out)
        for target in self.groups.values():
            target.end_of_offer(max(target.clock, self.now), out)
        for target, (hole, number) in before.items():
            out.events += hole_events(target.key, hole, target.hole(), moved=target.view().next != number)
        return self.counted(out)

    def replay(self, items: Iterable[tuple[Any, Any, Any, float]], watermark: float | None = None) -> Outcome:
        """Messages in order of event time; what was due before one fires before it."""
        out = Outcome()
        for *item, time in sorted(items, key=lambda item: item[3]):
            message, moment = Message(*item, self.next_arrival()), micros(time)
            target = self.understood(message, out)
            if target is not None:
                target.clock = max(target.clock, moment)
                self.fire_due([target], target.clock - 1, out)
                target.arrive(message, target.clock, out)
        for target in self.groups.values():
            target.end_of_offer(target.clock, out)
        if watermark is not None:
            self.now = max(self.now, micros(watermark))
            self.fire_due(list(self.groups.values()), self.now, out)
        return self.counted(out)

    def understood(self, message: Message, out: Outcome) -> Group | None:
        """The message's group, unless the message has none, or no place in it."""
        self.tally["in"] += 1
        if isinstance(self.policy, Unordered):
            out.released.append((message.group, message.sequence, message.value, None, False))
            out.moments.append(self.now)
            return None
        number = self.number_of(message)
        raw = key_bytes(message.group)
        if raw is None or number is None:
            out.invalid.append(message)
            return None
        message.number = number
        if raw not in self.groups:
            self.groups[raw] = self.new_group(message.group)
        return self.groups[raw]

    def number_of(self, message: Message) -> int | None:
        if isinstance(self.policy, Fifo):
            return message.arrival
        by_time = isinstance(self.policy, BestEffort) and self.policy.by == "time"
        return moment_of(message.sequence) if by_time else whole(message.sequence)

    def next_arrival(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def known(self, key: Any) -> Group:
        raw = key_bytes(key)
        if raw not in self.groups:
            raise UsageError(f"{key!r} has never received a message")
        return self.groups[raw]

    def new_group(self, key: Any) -> Group:
        match self.policy:
            case Standard():
                return StandardGroup(key, self.policy, self.start.get(key_bytes(key)))
            case BestEffort():
                return BestEffortGroup(key, self.policy)
            case UnitOfWork():
                return UnitOfWorkGroup(key, self.policy)
            case Fifo():
                return FifoGroup(key, self.policy)
            case Unordered():
                raise ActionRefused("Unordered has no groups")

    # Time.
    def advance(self, now: float) -> Outcome:
        self.clock_to(now)
        return self.counted(self.fire_due(list(self.groups.values()), self.now, Outcome()))

    def finish(self) -> Outcome:
        return self.counted(self.fire_due(list(self.groups.values()), END_OF_TIME, Outcome()))

    def clock_to(self, now: float | None) -> None:
        if now is not None:
            self.now = max(self.now, micros(now))

    def fire_due(self, groups: list[Group], now: int, out: Outcome) -> Outcome:
        """One timer after another, the earliest first."""
        while True:
            waiting = [(group.due(), place) for place, group in enumerate(groups)]
            due = [(moment, place) for moment, place in waiting if moment is not None and moment <= now]
            if not due:
                break
            moment, place = min(due)
            groups[place].clock = max(groups[place].clock, moment)
            groups[place].fire(moment, out)
        return out

    # Actions.
    def suspend(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("suspend", group, now)

    def resume(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("resume", group, now)

    def skip_message(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("skip_message", group, now)

    def abort(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("abort", group, now)

    def close(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("close", group, now)

    def skip_hole(self, group: Any, through: int | None = None, now: float | None = None) -> Outcome:
        return self.act("skip_hole", group, now, through)

    def reset(self, group: Any, next: int, now: float | None = None) -> Outcome:
        return self.act("reset", group, now, next)

    def act(self, action: str, key: Any, now: float | None, *arguments: Any) -> Outcome:
        self.clock_to(now)
        group, out = self.known(key), Outcome()
        group.clock = max(group.clock, self.now)
        before, was = group.hole(), group.view().next
        getattr(group, action)(*arguments, group.clock, out)
        if action in ("resume", "skip_message", "reset"):
            changes = hole_events(group.key, before, group.hole(), moved=group.view().next != was)
            out.events += [event for event in changes if event[0] == "hole_opened"]
        return self.counted(out)

    # Views.
    def group(self, key: Any) -> View:
        return self.known(key).view()

    def counted(self, out: Outcome) -> Outcome:
        self.tally["released"] += len(out.released)
        self.tally["late"] += len(out.late)
        self.tally["duplicate"] += len(out.duplicates)
        self.tally["invalid"] += len(out.invalid)
        self.tally["rejected"] += len(out.rejected)
        self.tally["dead"] += len(out.dead)
        return out

    def counts(self) -> dict[str, int]:
        held = sum(group.view().held for group in self.groups.values())
        return {**self.tally, "held": held}

    def holding(self) -> list[Message]:
        """Every message that is held now."""
        return [message for group in self.groups.values() for message in group.held + group.late_held]


def hole_events(
    key: Any, before: tuple[int, int] | None, after: tuple[int, int] | None, *, moved: bool
) -> list[tuple[str, Any, int, int]]:
    """What a call that offers messages reports of a group's hole: judged once, at the end."""
    events: list[tuple[str, Any, int, int]] = []
    if before is not None and moved:
        events.append(("hole_filled", key, *before))
    if after is not None and (before is None or moved):
        events.append(("hole_opened", key, *after))
    return events
