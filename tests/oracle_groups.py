"""The oracle's groups: what becomes of one message, for each policy. See ``oracle.py``.

Time is int microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from seriatim import VOID
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork

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
    time: int = 0  # when it arrived; never earlier than an earlier arrival of its group
    waits: bool = False  # BestEffort: came after its round was fixed
    content: Any = None  # what is compared; None: nothing
    region: str | None = None  # which of two regions has sent it, "a" or "b"
    identity: Any = None  # its id there
    through: int = 0  # the last number that it covers
    epoch: int | None = None
    kind: str = "number"  # or base, restarts, unnumbered
    empty: bool = False  # a filter says that it leaves nothing
    overlaps: bool = False  # it has numbers that have left before
    given: Any = None  # the sequence before it was unwrapped

    @property
    def void(self) -> bool:
        """Whether it lets the next number pass and leaves nothing."""
        return self.value is VOID or self.empty


@dataclass
class Outcome:
    """What one call decided. `moments` gives the time of each released message."""

    released: list[tuple[Any, Any, Any, int | None, bool]] = field(default_factory=list)
    late: list[Message] = field(default_factory=list)
    duplicates: list[Message] = field(default_factory=list)
    invalid: list[Message] = field(default_factory=list)
    rejected: list[Message] = field(default_factory=list)
    dead: list[Message] = field(default_factory=list)
    void: list[Message] = field(default_factory=list)
    copies: list[Message] = field(default_factory=list)
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
    closing: bool = False


def whole(value: Any) -> int | None:
    """The value as an int64, or None if it isn't one. A ticket counts through its epochs."""
    if isinstance(value, tuple):
        epoch, number = value
        value = epoch * TICKETS_PER_EPOCH + number if epoch >= 0 and number >= 1 else None
    if isinstance(value, str):
        text = value.strip(" \t\r\n")
        digits = text[1:] if text[:1] in ("+", "-") else text
        value = int(text) if digits and set(digits) <= set("0123456789") else None
    if isinstance(value, float):
        value = int(value) if value % 1 == 0 and abs(value) < 2**53 else None
    if isinstance(value, Decimal):
        value = int(value) if value.is_finite() and value % 1 == 0 else None
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


def first_arrival(held: list[Message]) -> int:
    """When the first of them arrived: a clock that a timer starts doesn't begin before that."""
    return min(message.time for message in held)


class Group:
    """What all policies have in common: what leaves is counted; suspended or closed, nothing leaves."""

    def __init__(self, key: Any, policy: Any) -> None:
        self.key = key
        self.policy = policy
        self.held: list[Message] = []
        self.late_held: list[Message] = []
        self.closed = False
        self.closing = False
        self.suspended = False
        self.by_operator = False
        self.ordinal = 0
        self.last_released: Any = None
        self.clock = -END_OF_TIME
        # Stays: what says that a message opens or closes the group, and what is held aside.
        self.opens: Any = None
        self.closes: Any = None
        self.unopened_timeout: int | None = None
        self.unopened = False
        self.ended = False  # closed by a closing message, or because it was told to close and held nothing
        self.aside: list[Message] = []
        self.unopened_since: int | None = None

    # Stays.
    def has_stays(self, opens: Any, closes: Any, timeout: int | None) -> None:
        self.opens, self.closes, self.unopened_timeout = opens, closes, timeout
        self.unopened = opens is not None

    def can_open(self, message: Message) -> bool:
        return self.opens is not None and not message.void and self.opens(message.value)

    def receive(self, message: Message, now: int, out: Outcome, *, aside: bool = False) -> None:
        """A message comes, or comes back from where it was held aside."""
        self.take_in(message, now, out, aside=aside)
        self.go_on(now, out)

    def take_in(self, message: Message, now: int, out: Outcome, *, aside: bool) -> None:
        if self.unopened and not self.closing and not self.closed:
            if self.can_open(message) and not self.suspended:
                self.open(message, now, out)
            else:
                self.put_aside(message, now, out, aside=aside)
        elif self.closing and not self.closed and (self.next_stay() or self.can_open(message)):
            self.put_aside(message, now, out, aside=aside)
        elif self.unopened:  # and closing: as in a closed group
            self.closed = True
            self.judge(message, now, out, aside=aside)
            self.closed = False
        elif self.ended and self.can_open(message):
            self.begin_again()
            self.judge(message, now, out, aside=aside)
        else:
            self.judge(message, now, out, aside=aside)

    def judge(self, message: Message, now: int, out: Outcome, *, aside: bool) -> None:
        """By the rules of the policy; what was held aside meets no capacity, and of a void is decided already."""
        policy = self.policy
        if aside and getattr(policy, "capacity", None) is not None:
            self.policy = replace(policy, capacity=None)
        scratch = Outcome() if aside and message.void else out
        self.arrive(message, now, scratch)
        self.policy = policy
        if scratch is not out:
            out.released += scratch.released
            out.moments += scratch.moments
            out.events += scratch.events
            out.late += [one for one in scratch.late if one is not message]

    def open(self, message: Message, now: int, out: Outcome) -> None:
        """It leaves first, or is the first; then what was held aside is judged as if it came now."""
        self.unopened, self.unopened_since = False, None
        waiting, self.aside = self.aside, []
        came_aside = message in waiting
        exempt = came_aside or bool(waiting)
        self.judge(message, now, out, aside=exempt)
        for one in waiting:
            if one is not message:
                self.receive(one, now, out, aside=True)

    def begin_again(self) -> None:
        self.closed = self.closing = self.ended = False
        self.held = []  # places of voids, at most
        self.last_released = None

    def next_stay(self) -> list[Message]:
        """Of a closing group: an opening message that is held aside, and what came after it."""
        heads = [
            place
            for place, one in enumerate(self.aside)
            if self.opens is not None and not one.void and self.opens(one.value)
        ]
        return self.aside[heads[0] :] if heads else []

    def old_aside(self) -> list[Message]:
        later = self.next_stay() if self.closing or self.closed or not self.unopened else []
        return [one for one in self.aside if one not in later]

    def put_aside(self, message: Message, now: int, out: Outcome, *, aside: bool) -> None:
        capacity = getattr(self.policy, "capacity", None)
        room = capacity is None or len([one for one in self.aside if not one.void]) < capacity
        if message.void:
            if not aside:
                out.void.append(message)
            if not isinstance(self.policy, Fifo):
                self.aside.append(message)
        elif aside or room or (self.can_open(message) and not self.next_stay()):
            self.aside.append(message)
            self.start_clock(message.time)
        else:
            out.rejected.append(message)

    def start_clock(self, moment: int) -> None:
        waits = any(not one.void for one in self.old_aside())
        if not self.unopened or self.suspended or not waits or self.unopened_timeout is None:
            self.unopened_since = None
        elif self.unopened_since is None:
            self.unopened_since = moment

    def go_on(self, now: int, out: Outcome) -> None:
        """What was held aside goes on where its time has come. After every change."""
        self.close_if_empty(out)
        if self.ended and self.next_stay():
            waiting, self.aside = self.aside, []
            for one in waiting:
                self.receive(one, max(now, one.time), out, aside=True)
        elif self.unopened and not self.closing and not self.suspended and not self.closed:
            head = next((one for one in self.aside if self.can_open(one)), None)
            if head is not None:
                self.open(head, now, out)

    def end_stay(self, now: int, out: Outcome) -> None:
        """A closing message has left: what is held above it is late."""
        self.closed = self.ended = True
        self.closing = False
        out.late += self.messages() + self.late_held
        self.held, self.late_held = [], []
        out.events.append(("closed", self.key, None, None))

    def due_of_opening(self) -> int | None:
        if self.unopened_since is None or self.unopened_timeout is None:
            return None
        return self.unopened_since + self.unopened_timeout

    def not_opened(self, now: int, out: Outcome) -> None:
        """What waits for the opening is late."""
        gone = [one for one in self.old_aside() if one.time <= now]
        out.late += [one for one in gone if not one.void]
        self.aside = [one for one in self.aside if one not in gone]
        self.unopened_since = None
        left = [one for one in self.old_aside() if not one.void]
        if left:
            self.start_clock(first_arrival(left))

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

    def turns_away(self, number: int) -> bool:
        """Whether the group is closed, or closing: then it takes in missing numbers below the highest that it holds only."""
        return self.closed or (self.closing and not self.misses(number))

    def misses(self, number: int) -> bool:
        """Whether a message that the group holds waits for this number."""
        return False

    def close_if_empty(self, out: Outcome) -> None:
        """What is told to close is closed when it holds nothing, unless it is suspended. After every change."""
        if self.closing and not self.closed and not self.suspended and not self.messages() and not self.kept_late():
            if any(not one.void for one in self.old_aside()):
                return
            self.closed = self.ended = True
            self.unopened, self.unopened_since = False, None
            self.aside = self.next_stay()
            out.events.append(("closed", self.key, None, None))
        self.closing = self.closing and not self.closed

    def shown_state(self) -> str:
        if self.closed:
            return "closed"
        if self.suspended:
            return "suspended"
        return "waiting" if self.unopened else "ready"

    def view(self) -> View:
        aside = [one for one in self.aside if not one.void]
        held = len(self.messages()) + len(self.kept_late()) + len(aside)
        return View(self.shown_state(), None, held, None, self.last_released, self.ordinal, self.closing)

    def kept_late(self) -> list[Message]:
        """What is held below next."""
        return self.late_held

    def messages(self) -> list[Message]:
        """What is held and is no void."""
        return [message for message in self.held if not message.void]

    def leave(self, message: Message, now: int, out: Outcome, *, late: bool = False) -> None:
        if message.void:
            return
        self.ordinal += 1
        self.last_released = None if isinstance(self.policy, Fifo) else message.number
        out.released.append((message.group, message.sequence, message.value, self.ordinal, late))
        out.moments.append(now)
        if self.closes is not None and self.closes(message.value):
            self.end_stay(now, out)

    def take_late(self, message: Message, now: int, out: Outcome, *, room: bool = True) -> None:
        """The three ways with a late message."""
        if self.policy.late == "set_aside" or message.void:
            out.late.append(message)
        elif self.policy.late == "deliver" and not self.suspended:
            self.leave(message, now, out, late=True)
        elif not room:
            out.rejected.append(message)
        else:
            self.late_held.append(message)
            if not self.suspended and self.policy.late == "suspend":
                number = self.given(message.number)
                out.events.append(("suspended", self.key, number, number))
            self.suspended = True

    def given(self, number: int) -> Any:
        """A number as the user gave it."""
        return number

    def resumed(self, out: Outcome) -> None:
        self.suspended = False
        out.events.append(("resumed", self.key, None, None))

    # Actions.
    def refuse(self, action: str) -> None:
        raise ActionRefused(f"{action} does not fit a group that is {self.shown_state()}")

    def suspend(self, now: int, out: Outcome) -> None:
        if self.closed:
            self.refuse("suspend")
        if not self.suspended:
            out.events.append(("suspended", self.key, None, None))
        self.suspended = self.by_operator = True
        self.unopened_since = None
        self.let_go(now, out)

    def resume(self, now: int, out: Outcome) -> None:
        if self.shown_state() != "suspended":
            self.refuse("resume")
        self.resumed(out)
        self.by_operator = False
        while self.late_held and not self.closed:
            self.leave(self.late_held.pop(0), now, out, late=True)
        self.let_go(now, out)
        self.start_clock(now)

    def skip_message(self, now: int, out: Outcome) -> None:
        if self.shown_state() != "suspended" or self.by_operator or not self.late_held:
            self.refuse("skip_message")
        out.dead.append(self.late_held.pop(0))
        if not self.kept_late():
            self.resumed(out)
            self.let_go(now, out)

    def take_out(self, sequence: Any, now: int, out: Outcome) -> None:
        """One message out of the middle."""
        aside = [one for one in self.aside if not one.void]
        both = sorted(self.messages() + self.kept_late() + aside, key=lambda message: message.arrival)
        named = [message for message in both if message.sequence == sequence]
        if not named:
            raise ActionRefused(f"nothing held has the sequence {sequence}")
        if named[0] in self.aside:
            out.dead.append(named[0])
            self.aside.remove(named[0])
            if not any(not one.void for one in self.old_aside()):
                self.unopened_since = None
        elif named[0] in self.late_held:
            out.dead.append(named[0])
            self.late_held.remove(named[0])
            if self.shown_state() == "suspended" and not self.by_operator and not self.kept_late():
                self.resumed(out)
        else:
            self.take_away([named[0]], out)
        self.let_go(now, out)

    def take_away(self, messages: list[Message], out: Outcome) -> None:
        out.dead += messages
        self.held = [message for message in self.held if message not in messages]

    def abort(self, now: int, out: Outcome) -> None:
        self.take_away(self.messages(), out)
        out.dead += self.kept_late()
        self.late_held = []
        self.forget_back()
        out.dead += [one for one in self.aside if not one.void]
        self.aside = [one for one in self.aside if one.void]
        self.unopened_since = None
        self.let_go(now, out)

    def forget_back(self) -> None:
        """After all that was held is dead."""

    def close(self, at_once: bool, now: int, out: Outcome) -> None:
        if at_once and not self.closed:
            out.events.append(("closed", self.key, None, None))
            self.closed = True
        if at_once:
            self.ended = self.unopened = False
            self.unopened_since = None
        self.closing = not self.closed
        self.let_go(now, out)

    def skip_hole(self, through: int | None, now: int, out: Outcome) -> None:
        self.refuse("skip_hole")

    def reset(self, number: int, now: int, out: Outcome) -> None:
        self.refuse("reset")

    def restart(self, now: int, out: Outcome) -> None:
        self.refuse("restart")


class FifoGroup(Group):
    """By arrival. Of two regions' messages each leaves once within the horizon."""

    def __init__(self, key: Any, policy: Fifo, horizon: int) -> None:
        super().__init__(key, policy)
        self.horizon = horizon
        self.seen: dict[Any, tuple[int, set[str]]] = {}  # by id: when it was first seen, and by which regions

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        first, regions = self.seen.get(message.identity, (-END_OF_TIME, set()))
        if message.region is not None and now - first <= self.horizon:
            (out.duplicates if message.region in regions else out.copies).append(message)
            regions.add(message.region)
            return
        if message.region is not None and not self.turns_away(message.number):
            self.seen[message.identity] = (now, {message.region})
        if self.turns_away(message.number):
            out.late.append(message)
        elif message.void:
            out.void.append(message)
        else:
            self.held.append(message)
            self.let_go(now, out)

    def let_go(self, now: int, out: Outcome) -> None:
        if not self.suspended and not self.closed:
            while self.held and not self.closed:
                self.leave(self.held.pop(0), now, out)
        self.close_if_empty(out)


class StandardGroup(Group):
    """Contiguous numbers."""

    def __init__(self, key: Any, policy: Standard, start_from: int | None) -> None:
        super().__init__(key, policy)
        self.begun_by_first_arrival = start_from is None and policy.start == "first"
        own = policy.start if start_from is None else start_from
        self.first: int | None = own if isinstance(own, int) else None
        self.next = self.first
        self.ranges: list[tuple[int, int]] = []
        self.taken_out: set[int] = set()  # their numbers are at or above next
        self.since: int | None = None
        self.reports = 0
        self.hole_at: int | None = None
        self.timed_out = False
        self.suspects = 0  # how many below next have come as from a producer that has begun anew
        self.suspect: int | None = None  # the last of these
        self.back: list[Message] = []  # those that are held because of that
        self.remembered: list[tuple[int, Any]] = []  # numbers and contents of the last that left
        self.shown: dict[
            int, set[str]
        ] = {}  # of numbers that were taken in, the regions that have shown them; missing: both

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        if not self.is_copy(message) and self.suspects_restart(message, out):
            self.hold_back(message, now, out)
            return
        self.judge_number(message, now, out)
        aside = (out.late, out.duplicates, out.copies, out.invalid, out.rejected)
        if not any(message is one for some in aside for one in some):
            self.shown[message.number] = {message.region} if message.region else {"a", "b"}

    def is_copy(self, message: Message) -> bool:
        """Whether it repeats a number of another region, as far as its content is known."""
        if message.region is None or not self.was_taken(message.number) or self.likeness(message) is False:
            return False
        return message.region not in self.shown.get(message.number, {"a", "b"})

    def was_taken(self, number: int) -> bool:
        if self.next is None or self.first is None or number < self.first:
            return False
        if number < self.next:
            return not any(low <= number <= high for low, high in self.ranges)
        return number in self.taken_out or any(other.number == number for other in self.held)

    def judge_number(self, message: Message, now: int, out: Outcome) -> None:
        number = message.number
        overflows = number > INT64_MAX - self.policy.increment
        if overflows or (self.first is not None and (number - self.first) % self.policy.increment != 0):
            out.invalid.append(message)
        elif message.region is not None and self.was_taken(number):
            self.repeat(message, out)
        elif self.turns_away(number):
            out.late.append(message)
        elif self.first is None or self.next is None:
            self.first = self.next = number
            self.keep(message, now, out)
        elif number < self.first and not self.begun_by_first_arrival:
            out.invalid.append(message)
        elif number >= self.next:
            self.keep(message, now, out)
        elif any(other.number == number for other in self.late_held):
            self.repeat(message, out)
        elif number < self.first or any(low <= number <= high for low, high in self.ranges):
            self.take_late(message, now, out, room=self.has_room())
            self.let_go(now, out)
        else:
            self.repeat(message, out)

    def repeat(self, message: Message, out: Outcome) -> None:
        regions = self.shown.get(message.number, {"a", "b"})
        if message.region is not None and message.region not in regions and self.likeness(message) is not False:
            regions.add(message.region)
            out.copies.append(message)
            return
        out.duplicates.append(message)
        if self.likeness(message) is False:
            out.events.append(("conflict", self.key, message.number, message.number))

    def likeness(self, message: Message) -> bool | None:
        """Whether the message has the content of the one with its number, which is held or remembered; None: unknown."""
        known = [content for number, content in self.remembered if number == message.number][-1:]
        for held in (self.late_held, self.held):
            known = [one.content for one in held if one.number == message.number] or known
        if not known or known[0] is None or message.content is None:
            return None
        return bool(known[0] == message.content)

    def suspects_restart(self, message: Message, out: Outcome) -> bool:
        """Counts a message below next; whether it is to be held, because the producer seems to have begun anew."""
        number, limit, step = message.number, self.policy.restart_after, self.policy.increment
        if self.turns_away(number) or not limit or self.next is None or self.first is None or number >= self.next:
            return False
        if number > INT64_MAX - step or (number - self.first) % step != 0:
            return False
        holds = self.policy.on_restart == "suspend"
        was_held = holds and self.suspends_all()
        is_late = number < self.first or any(low <= number <= high for low, high in self.ranges)
        repeats = not is_late or any(other.number == number for other in self.late_held)
        follows = self.suspect is not None and number == self.suspect + step
        like = self.likeness(message)
        if repeats and (like is True or (like is None and not (number == self.first or follows))):
            return was_held
        self.suspects += 1
        self.suspect = number
        if self.suspects == limit:
            out.events.append(("restart_suspected", self.key, number, number))
        return was_held or (holds and self.suspects >= limit)

    def suspends_all(self) -> bool:
        return self.suspended and self.suspects >= self.policy.restart_after

    def hold_back(self, message: Message, now: int, out: Outcome) -> None:
        if not message.void and not self.has_room():
            out.rejected.append(message)
            return
        if message.void:
            out.void.append(message)
        self.back.append(message)
        if not self.suspended:
            out.events.append(("suspended", self.key, message.number, message.number))
        self.suspended = True
        self.let_go(now, out)

    def can_open(self, message: Message) -> bool:
        if not super().can_open(message) or message.number > INT64_MAX - self.policy.increment:
            return False
        start = self.first if self.unopened else None if self.policy.start == "first" else self.policy.start
        return start is None or (message.number >= start and (message.number - start) % self.policy.increment == 0)

    def begin_again(self) -> None:
        super().begin_again()
        self.first = self.next = None if self.policy.start == "first" else self.policy.start  # type: ignore[assignment]
        self.begun_by_first_arrival = self.policy.start == "first"
        self.ranges, self.taken_out = [], set()
        self.since, self.hole_at, self.timed_out = None, None, False
        self.suspects, self.suspect, self.back, self.remembered = 0, None, [], []
        self.shown = {}

    def misses(self, number: int) -> bool:
        if not self.messages() or self.next is None:
            return False
        taken = self.taken_out | {message.number for message in self.held}
        return self.next <= number < max(message.number for message in self.messages()) and number not in taken

    def leave(self, message: Message, now: int, out: Outcome, *, late: bool = False) -> None:
        super().leave(message, now, out, late=late)
        if not message.void and self.policy.remember:
            self.remembered = [*self.remembered, (message.number, message.content)][-self.policy.remember :]
        if late:
            self.forget_skipped(message.number)
        elif not message.void:
            self.suspects = 0

    def resume(self, now: int, out: Outcome) -> None:
        if self.shown_state() == "suspended":
            out.duplicates += [message for message in self.back if not message.void]
            self.back, self.suspects, self.suspect = [], 0, None
        super().resume(now, out)

    def forget_back(self) -> None:
        self.back = [message for message in self.back if message.void]

    def take_away(self, messages: list[Message], out: Outcome) -> None:
        super().take_away(messages, out)
        self.back = [message for message in self.back if message not in messages]
        self.taken_out |= {message.number for message in messages if self.next is None or message.number >= self.next}

    def restart(self, now: int, out: Outcome) -> None:
        if self.closed or self.unopened:
            self.refuse("restart")
        if self.suspended:
            self.resumed(out)
        comes_back = sorted(self.held + self.late_held + self.back + self.aside, key=lambda message: message.arrival)
        ordinal, clock, stays = self.ordinal, self.clock, (self.opens, self.closes, self.unopened_timeout)
        self.__init__(self.key, self.policy, None)  # type: ignore[misc]
        self.has_stays(*stays)
        self.ordinal, self.clock = ordinal, clock
        for message in comes_back:
            message.time = now
            told = Outcome() if message.void else out
            self.receive(message, now, told)
            if message.void:
                out.released += told.released
                out.moments += told.moments
                out.events += told.events
                out.late += [one for one in told.late if one is not message]

    def kept_late(self) -> list[Message]:
        return self.late_held + [message for message in self.back if not message.void]

    def forget_skipped(self, number: int) -> None:
        """A number that was delivered late is no longer skipped, if there is room for the two halves of its range."""
        step, remaining = self.policy.increment, []
        for low, high in self.ranges:
            if low <= number <= high:
                halves = [(low, number - step), (number + step, high)]
                remaining += [(one, other) for one, other in halves if one <= other]
            else:
                remaining.append((low, high))
        if len(remaining) <= REMEMBERED_RANGES:
            self.ranges = remaining

    def has_room(self) -> bool:
        return self.policy.capacity is None or len(self.messages()) + len(self.kept_late()) < self.policy.capacity

    def keep(self, message: Message, now: int, out: Outcome) -> None:
        if message.number in self.taken_out or any(other.number == message.number for other in self.held):
            self.repeat(message, out)
        elif message.void:
            out.void.append(message)
            self.held.append(message)
            self.let_go(now, out)
        elif message.number == self.next or self.has_room():
            self.held.append(message)
            self.let_go(now, out)
        else:
            out.rejected.append(message)

    def let_go(self, now: int, out: Outcome) -> None:
        self.held.sort(key=lambda message: message.number)
        empty: list[int] = []  # numbers that have passed without a message, one after another
        while self.next is not None and not self.suspended and not self.closed:
            if self.next in self.taken_out:
                self.taken_out.remove(self.next)
                self.remember(self.next, self.next)
                empty.append(self.next)
            elif self.held and self.held[0].number == self.next and self.held[0].void:
                self.held.pop(0)
                empty.append(self.next)
            elif self.held and self.held[0].number == self.next:
                self.tell_void(empty, out)
                empty = []
                self.leave(self.held.pop(0), now, out)
            else:
                break
            self.next += self.policy.increment
        self.tell_void(empty, out)
        if self.hole() is None:
            self.since, self.hole_at, self.timed_out = None, None, False
        elif self.hole_at != self.next:
            begin = max(now, first_arrival(self.messages()))
            self.since, self.hole_at, self.reports, self.timed_out = begin, self.next, 0, False
        self.close_if_empty(out)

    def tell_void(self, numbers: list[int], out: Outcome) -> None:
        if numbers:
            out.events.append(("void", self.key, numbers[0], numbers[-1]))

    def hole(self) -> tuple[int, int] | None:
        if self.suspended or self.closed or not self.messages() or self.next is None:
            return None
        lowest = min({message.number for message in self.held} | self.taken_out)
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
        if self.closed or self.unopened:
            self.refuse("reset")
        step = self.policy.increment
        if self.first is not None and (number - self.first) % step != 0:
            raise ActionRefused("that is not on the step")
        if self.first is None or self.next is None:
            self.first = self.next = number
        if number > self.next:
            out.late += [message for message in self.messages() if message.number < number]
            self.taken_out = {one for one in self.taken_out if one >= number}
            self.held = [message for message in self.held if message.number >= number]
            out.events.append(("hole_skipped", self.key, self.next, number - step))
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

    def given(self, number: int) -> Any:
        return number / 1_000_000 if self.policy.by == "time" else number

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        number = message.number
        if self.turns_away(number):
            out.late.append(message)
        elif self.top is not None and number < self.top:
            self.take_late(message, now, out)
            self.let_go(now, out)
        elif message.void:
            out.void.append(message)
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
            self.since = max(now, first_arrival(self.held))
        self.close_if_empty(out)

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

    def take_out(self, sequence: Any, now: int, out: Outcome) -> None:
        stopped = self.suspended
        super().take_out(sequence, now, out)
        if self.fixed is not None and all(message.waits for message in self.held):
            self.since, self.fixed = None, None
            for message in self.held:
                message.waits = False
            self.let_go(now, out)
        if self.window is None and stopped and not self.suspended:
            self.release_round(None, now, out)


class UnitOfWorkGroup(Group):
    """A set, all or nothing."""

    def __init__(self, key: Any, policy: UnitOfWork) -> None:
        super().__init__(key, policy)
        self.size: int | None = policy.size if isinstance(policy.size, int) else None
        self.complete = False
        self.since: int | None = None
        self.taken_out: set[int] = set()
        self.before: dict[int, Any] = {}  # the numbers and contents of the set before

    def take_away(self, messages: list[Message], out: Outcome) -> None:
        super().take_away(messages, out)
        self.taken_out |= {message.number for message in messages}

    def stated_size(self, message: Message) -> int | None:
        """What the message says about the size of its set; None: nothing."""
        policy, value = self.policy, message.value
        if message.void:
            return None
        if policy.last is not None:
            is_last = policy.last(value) if callable(policy.last) else value.get(policy.last)
            return message.number - policy.start + 1 if is_last else None
        if isinstance(policy.size, int):
            return None
        return whole(self.written_size(value))

    def written_size(self, value: Any) -> Any:
        policy = self.policy
        if value is VOID or policy.last is not None or isinstance(policy.size, int):
            return None
        return policy.size(value) if callable(policy.size) else value.get(policy.size)

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        number = message.number
        if self.closed:
            (out.duplicates if self.complete else out.late).append(message)
            return
        if self.turns_away(number):
            out.late.append(message)
            return
        if not self.policy.once and self.comes_again(message):
            out.duplicates.append(message)
            return
        place = number - self.policy.start + 1
        if place < 1:
            out.invalid.append(message)
            return
        stated = self.stated_size(message)
        if stated is not None and stated < 1:
            out.invalid.append(message)
            return
        known = stated if self.size is None else self.size
        if known is not None and (place > known or stated not in (None, known)):
            out.invalid.append(message)
        elif number in self.taken_out or any(other.number == number for other in self.held):
            out.duplicates.append(message)
        else:
            self.held.append(message)
            if message.void:
                out.void.append(message)
            if self.size is None and stated is not None:
                self.size = stated
                last = stated + self.policy.start - 1
                self.taken_out = {one for one in self.taken_out if one <= last}
                out.invalid += [other for other in self.messages() if other.number > last]
                self.held = [other for other in self.held if other.number <= last]
            self.let_go(now, out)

    def misses(self, number: int) -> bool:
        if not self.messages():
            return False
        taken = self.taken_out | {message.number for message in self.held}
        return self.policy.start <= number < max(message.number for message in self.messages()) and number not in taken

    def let_go(self, now: int, out: Outcome) -> None:
        self.complete_set(now, out)
        self.close_if_empty(out)

    def complete_set(self, now: int, out: Outcome) -> None:
        if self.suspended or self.closed or not self.held:
            self.since = None
        elif self.since is None:
            self.since = now
        if self.suspended or self.closed or len(self.held) + len(self.taken_out) != self.size:
            return
        for message in sorted(self.held, key=lambda message: message.number):
            self.leave(message, now, out)
        self.end_set(out, complete=True)

    def end_set(self, out: Outcome, *, complete: bool) -> None:
        """The key is closed, or begins a new set."""
        before, self.held = self.held, []
        if self.policy.once:
            self.closed, self.complete = True, complete
            out.events.append(("closed", self.key, None, None))
            return
        self.before = {message.number: message.content for message in before}
        self.size = self.policy.size if isinstance(self.policy.size, int) else None
        self.since, self.taken_out = None, set()

    def comes_again(self, message: Message) -> bool:
        """Whether it is a part of the set before."""
        if message.number not in self.before:
            return False
        own, its = message.content, self.before[message.number]
        return own == its if own is not None and its is not None else not self.held

    def leave_partial(self, now: int, out: Outcome) -> None:
        """What there is of the set leaves, with what it lacks."""
        has = sorted(message.number for message in self.held)
        first, last = self.policy.start, max(has) if self.size is None else self.size + self.policy.start - 1
        missing = [number for number in range(first, last + 1) if number not in has]
        for number in missing:
            if number - 1 in missing:
                continue
            end = next(one for one in range(number, last + 1) if one + 1 not in missing)
            out.events.append(("incomplete", self.key, number, end))
        for message in sorted(self.held, key=lambda message: message.number):
            self.leave(message, now, out)
            if not message.void:
                out.released[-1] = (*out.released[-1], False, True, tuple(missing))

    def due(self) -> int | None:
        if self.since is None or self.closed or not self.policy.timeout:
            return None
        return self.since + micros(self.policy.timeout)

    def fire(self, now: int, out: Outcome) -> None:
        if self.policy.on_timeout == "deliver":
            self.leave_partial(now, out)
        else:
            out.dead += self.messages()
        self.end_set(out, complete=False)
        if self.closed:
            self.closing = False
