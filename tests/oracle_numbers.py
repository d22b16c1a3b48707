"""The oracle's groups with numbers as producers have them: one message at a time. See ``oracle_groups.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seriatim import VOID
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.policy import BestEffort, Standard
from tests.oracle_groups import (
    INT64_MAX,
    REMEMBERED_RANGES,
    BestEffortGroup,
    Message,
    Outcome,
    StandardGroup,
    micros,
    whole,
)


def says(says: Any, value: Any) -> Any:
    """What a key of a value says."""
    return value.get(says) if says is not None and isinstance(value, dict) else None


def read(message: Message, sequence: Any, step: int) -> bool:
    """Reads a message by a `Sequence`; whether it is valid."""
    value = message.value
    for kind in ("restarts", "unnumbered"):
        if says(getattr(sequence, kind), value):
            message.kind = kind
            message.empty = bool(says(sequence.void, value))
            return True
    only = bool(says(sequence.base_only, value))
    if only or says(sequence.base, value):
        message.kind = "base"
    message.empty = message.void or only or bool(says(sequence.void, value))
    by = says(sequence.by, value)
    first = whole(message.sequence if by is None else by)
    if sequence.previous is not None and value is not VOID:
        before = whole(says(sequence.previous, value))
        first = None if before is None else before + step
        if before is not None and sequence.modulus is not None:
            first = (before + step) % sequence.modulus if 0 <= before < sequence.modulus else None
    told = says(sequence.through, value)
    last = first if told is None else whole(told)
    if last is None or (first is None and (message.kind != "base" or told is None)):
        return False
    message.number = last if message.kind == "base" else first  # type: ignore[assignment]
    message.through = last
    if sequence.modulus is None and message.through < message.number:
        return False
    if sequence.epoch is not None:
        message.epoch = whole(says(sequence.epoch, value))
        return message.epoch is not None
    return True


def position(message: Message, sequence: Any) -> bytes | None:
    """A message's position as it is compared; None if it has none."""
    message.empty = message.void or bool(says(sequence.void, message.value))
    several = isinstance(sequence.by, tuple)
    parts = [says(name, message.value) for name in (sequence.by if several else (sequence.by,))]
    if not any(part is not None for part in parts):
        several, parts = False, [message.sequence]
    if any(part is None or part in ("", b"") for part in parts):
        return None
    found = b"".join(map(part_of, parts)) if several else alone(parts[0], sequence.format == "digits")
    return found if found and len(found) <= 64 else None


def alone(part: Any, digits: bool) -> bytes | None:
    """A position of one part."""
    if isinstance(part, int) or digits:
        text = str(part)
        return text.zfill(64).encode() if text.isdecimal() and text.isascii() and len(text) <= 64 else None
    return part.encode() if isinstance(part, str) else bytes(part)


def part_of(part: Any) -> bytes:
    """A part of several: a number, an LSN, text or bytes."""
    if isinstance(part, str) and part.count("/") == 1:
        high, low = part.split("/")
        part = int(high, 16) * 2**32 + int(low, 16)
    if isinstance(part, int):
        return (part + 2**63).to_bytes(8, "big")
    return (part.encode() if isinstance(part, str) else bytes(part)) + b"\0"


def too_large(first: int, last: int, step: int) -> bool:
    """Whether there is no number behind them, or they are more than 64 bits can count."""
    return last + step - min(first, 0) > INT64_MAX


def unwrap(message: Message, modulus: int, reference: int | None) -> bool:
    """Gives a message the numbers that it has through all turns; whether it is valid."""
    raw, last = message.number, message.through
    if not (0 <= raw < modulus and 0 <= last < modulus):
        return False
    more = (last - raw) % modulus
    number = raw
    if reference is not None:
        ahead = (raw - reference) % modulus
        if 2 * ahead == modulus:
            return False
        number = reference + (ahead - modulus if 2 * ahead > modulus else ahead)
    if 2 * more > modulus:
        return False
    message.number, message.through = number, number + more
    message.given, message.sequence = message.sequence, number
    return True


class NumberedGroup(StandardGroup):
    """Contiguous numbers, of which a message may cover several; lives; bases; messages without a number."""

    def __init__(self, key: Any, policy: Standard, start_from: int | None, sequence: Any) -> None:
        super().__init__(key, policy, start_from if start_from is not None else self.known_start(policy))
        self.sequence = sequence
        self.begun_by_first_arrival = start_from is None and not isinstance(policy.start, int)
        self.gathers = start_from is None and policy.start in ("lowest", "told")
        self.settles: int | None = None
        self.top: int | None = None
        self.based: int | None = None
        self.marker: Any = None
        self.epoch: int | None = None
        self.ended_epoch: int | None = None
        self.never_left: list[tuple[int, int]] = []  # of the epoch before
        self.life = 0
        self.line: list[Message] = []
        self.bases: list[Message] = []
        self.bare: list[Message] = []
        self.late_of_ended: list[Message] = []

    @staticmethod
    def known_start(policy: Standard) -> int | None:
        return policy.start if isinstance(policy.start, int) else None

    # What comes.
    def take_in(self, message: Message, now: int, out: Outcome, *, aside: bool) -> None:
        if self.closed:
            self.come(message, now, out)
        elif self.line:
            self.wait_in_line(message, out)
        else:
            self.come(message, now, out)

    def wait_in_line(self, message: Message, out: Outcome) -> None:
        if message.void:
            out.void.append(message)
        elif self.line and not self.has_room():
            out.rejected.append(message)
            return
        self.line.append(message)

    def come(self, message: Message, now: int, out: Outcome) -> None:
        match message.kind:
            case "restarts":
                self.restart_in_stream(message, now, out)
            case "unnumbered":
                self.without_number(message, now, out)
            case _:
                self.of_epoch(message, now, out)

    def over(self) -> bool:
        return self.closed or self.closing

    def without_number(self, message: Message, now: int, out: Outcome) -> None:
        if self.over():
            out.late.append(message)
        elif message.void:
            self.pass_empty(message, out)
        elif not self.suspended:
            self.leave(message, now, out)
        elif self.has_room():
            self.bare.append(message)
        else:
            out.rejected.append(message)

    def pass_empty(self, message: Message, out: Outcome) -> None:
        out.void.append(message)

    def restart_in_stream(self, message: Message, now: int, out: Outcome) -> None:
        if self.over():
            out.late.append(message)
        elif message.content is not None and message.content == self.marker:
            out.duplicates.append(message)
        elif self.suspended:
            self.wait_in_line(message, out)
        else:
            self.end_life(now, out)
            self.marker = message.content
            if message.void:
                out.void.append(message)
            else:
                self.leave(message, now, out)

    def of_epoch(self, message: Message, now: int, out: Outcome) -> None:
        if self.sequence.epoch is None or message.epoch == self.epoch:
            self.of_present(message, now, out)
        elif self.epoch is not None and message.epoch < self.epoch:
            self.of_earlier(message, now, out)
        elif not self.can_begin(message):
            out.invalid.append(message)
        elif self.over():
            out.late.append(message)
        elif self.epoch is None:
            self.epoch = message.epoch
            self.of_present(message, now, out)
        elif self.suspended:
            self.wait_in_line(message, out)
        else:
            self.end_life(now, out)
            self.epoch = message.epoch
            self.of_present(message, now, out)

    def can_begin(self, message: Message) -> bool:
        """Whether it is valid as the first of its epoch."""
        start = self.first if self.epoch is None else self.known_start(self.policy)
        first, last, step = message.number, message.through, self.policy.increment
        if self.sequence.modulus is not None:
            copy = Message(message.group, message.sequence, message.value, message.arrival, first, through=last)
            if not unwrap(copy, self.sequence.modulus, start):
                return False
            first, last = copy.number, copy.through
        if message.kind == "base":
            first = last
        if too_large(first, last, step):
            return False
        if start is None:
            return (last - first) % step == 0
        on_step = (first - start) % step == 0 and (last - start) % step == 0
        return on_step and (message.kind == "base" or last >= start)

    def of_present(self, message: Message, now: int, out: Outcome) -> None:
        reference = self.first if self.top is None else self.top
        if self.sequence.modulus is not None:
            if not unwrap(message, self.sequence.modulus, reference):
                out.invalid.append(message)
                return
            if message.kind == "base":
                message.number = message.through
        if message.kind == "base":
            self.base(message, now, out)
        elif self.gathers and self.first is None:
            self.gather(message, now, out)
        else:
            self.arrive(message, now, out)
        self.as_given(out)
        refused = (out.late, out.duplicates, out.invalid, out.rejected)
        if not any(message is one for some in refused for one in some):
            self.top = message.through if reference is None else max(reference, message.through)

    def as_given(self, out: Outcome) -> None:
        """What is invalid has no number."""
        for one in out.invalid:
            one.sequence = one.sequence if one.given is None else one.given

    # Lives.
    def end_life(self, now: int, out: Outcome) -> None:
        step = self.policy.increment
        if self.gathers and self.first is None:
            self.begin_at_lowest(now, out, let_go=False)
        while self.next is not None and (self.held or self.taken_out):
            lowest = min({one.number for one in self.held} | self.taken_out)
            if lowest > self.next:
                out.events.append(("hole_skipped", self.key, self.next, lowest - step))
                self.remember(self.next, lowest - step)
                self.next = lowest
            self.let_go(now, out)
        if self.sequence.epoch is not None:
            self.ended_epoch = self.epoch
            if self.next is None or self.first is None:
                self.never_left = [(-(2**63) + 1, INT64_MAX)]
            else:
                self.never_left = [(-(2**63) + 1, self.first - step), *self.ranges, (self.next, INT64_MAX)]
        self.begin_again()

    def begin_again(self) -> None:
        start = self.known_start(self.policy)
        self.first = self.next = start
        self.begun_by_first_arrival = start is None
        self.gathers = self.policy.start in ("lowest", "told")
        self.last_released = None
        self.ranges, self.taken_out = [], set()
        self.since, self.hole_at, self.timed_out, self.settles = None, None, False, None
        self.suspects, self.suspect, self.back, self.remembered = 0, None, [], []
        self.top = self.based = self.marker = None
        self.life += 1

    def of_earlier(self, message: Message, now: int, out: Outcome) -> None:
        if self.over() or message.epoch != self.ended_epoch:
            out.late.append(message)
            return
        if self.sequence.modulus is not None and not unwrap(
            message, self.sequence.modulus, self.never_left[-1][0] - self.policy.increment
        ):
            out.invalid.append(message)
            return
        first = message.through if message.kind == "base" else message.number
        touched = [one for one in self.never_left if one[0] <= message.through and first <= one[1]]
        held = [one for one in self.late_of_ended if one.number <= first and message.through <= one.through]
        if not touched or held:
            out.duplicates.append(message)
        elif self.policy.late == "set_aside" or message.void:
            out.late.append(message)
        elif self.policy.late == "deliver" and not self.suspended:
            self.leave_of_ended(message, first, now, out)
        elif not self.has_room():
            out.rejected.append(message)
        else:
            message.number = first
            self.late_of_ended.append(message)
            if not self.suspended:
                out.events.append(("suspended", self.key, message.number, message.number))
            self.suspended, self.settles = True, None
            self.let_go(now, out)

    def leave_of_ended(self, message: Message, first: int, now: int, out: Outcome) -> None:
        self.count(message, now, out, late=True)
        self.never_left = cut(self.never_left, first, message.through, self.policy.increment, most=10**9)

    # Bases.
    def base(self, message: Message, now: int, out: Outcome) -> None:
        number, step = message.through, self.policy.increment
        if number > INT64_MAX - step or (self.first is not None and (number - self.first) % step != 0):
            out.invalid.append(message)
        elif self.over():
            out.late.append(message)
        elif self.next is not None and number < self.next:
            out.duplicates.append(message)
        elif self.suspended:
            if message.void:
                out.void.append(message)
            self.bases.append(message)
        else:
            if message.void:
                out.void.append(message)
            self.cover(message, now, out)

    def cover(self, message: Message, now: int, out: Outcome, *, let_go: bool = True) -> None:
        number, step = message.through, self.policy.increment
        hole = self.hole() if self.since is not None else None
        if hole is not None:
            out.events.append(("hole_covered", self.key, hole[0], min(hole[1], number)))
        if not message.void:
            self.count(message, now, out, late=False)
            self.suspects = 0
        inside = [one for one in self.held + self.late_held if one.through <= number]
        out.duplicates += [one for one in inside if not one.void]
        self.held = [one for one in self.held if one not in inside]
        self.late_held = [one for one in self.late_held if one not in inside]
        self.taken_out = {one for one in self.taken_out if one > number}
        self.ranges = []
        begins = self.first is None
        self.next, self.based = number + step, number
        if begins:
            self.first, self.settles = self.next, None
            self.drop_off_step(out)
        self.hole_at = None
        if let_go:
            self.let_go(now, out)

    def drop_off_step(self, out: Outcome) -> None:
        step = self.policy.increment
        off = [one for one in self.held if (one.number - self.first) % step or (one.through - self.first) % step]
        out.invalid += [one for one in off if not one.void]
        self.held = [one for one in self.held if one not in off]
        self.taken_out = {one for one in self.taken_out if (one - self.first) % step == 0}
        self.as_given(out)

    # Where a group begins.
    def gather(self, message: Message, now: int, out: Outcome) -> None:
        step = self.policy.increment
        if too_large(message.number, message.through, step) or (message.through - message.number) % step:
            out.invalid.append(message)
        elif self.over():
            out.late.append(message)
        elif self.covered_by_held(message):
            self.repeat(message, out)
        elif message.void:
            out.void.append(message)
            self.held.append(message)
        else:
            full = not self.has_room()
            self.held.append(message)
            if full:
                highest = max(self.messages(), key=lambda one: (one.number, one.arrival))
                self.held.remove(highest)
                out.rejected.append(highest)
        if self.settles is None and self.messages() and not self.suspended:
            self.settles = min(one.time for one in self.messages())

    def begin_at_lowest(self, now: int, out: Outcome, *, let_go: bool = True) -> None:
        if not self.held:
            return
        self.first = self.next = min(one.number for one in self.held)
        self.settles = None
        self.drop_off_step(out)
        self.taken_out = {one for one in self.taken_out if one >= self.next}
        if let_go:
            self.let_go(now, out)
            hole = self.hole()
            if hole is not None:
                out.events.append(("hole_opened", self.key, *hole))

    def due(self) -> int | None:
        if self.gathers and self.first is None:
            runs = self.settles is not None and self.policy.settle and not self.closed
            return self.settles + micros(self.policy.settle) if runs else None  # type: ignore[operator]
        return super().due()

    def fire(self, now: int, out: Outcome) -> None:
        if self.gathers and self.first is None:
            self.begin_at_lowest(now, out)
        else:
            super().fire(now, out)

    # Spans.
    def covered_by_held(self, message: Message) -> bool:
        step = self.policy.increment
        if any(one.number <= message.number and message.through <= one.through for one in self.held):
            return True
        count = (message.through - message.number) // step + 1
        return sum(message.number <= one <= message.through for one in self.taken_out) == count

    def judge_number(self, message: Message, now: int, out: Outcome) -> None:
        first, last, step = message.number, message.through, self.policy.increment
        off = (last - first) % step != 0 or (self.first is not None and (first - self.first) % step != 0)
        if too_large(first, last, step) or off:
            out.invalid.append(message)
        elif self.closed or (self.closing and not self.misses_some(message)):
            out.late.append(message)
        elif self.first is None or self.next is None:
            self.first = self.next = first
            self.keep(message, now, out)
        elif self.based is not None and last <= self.based:
            out.duplicates.append(message)
        elif last < self.first and not self.begun_by_first_arrival:
            out.invalid.append(message)
        elif last >= self.next:
            self.keep(message, now, out)
        elif any(one.number <= first and last <= one.through for one in self.late_held):
            self.repeat(message, out)
        elif self.is_late(message):
            self.take_late(message, now, out, room=self.has_room())
            self.let_go(now, out)
        else:
            self.repeat(message, out)

    def is_late(self, message: Message) -> bool:
        before = self.begun_by_first_arrival and message.number < self.first  # type: ignore[operator]
        return before or any(low <= message.through and message.number <= high for low, high in self.ranges)

    def misses_some(self, message: Message) -> bool:
        return self.misses(message.number) and not self.covered_by_held(message)

    def keep(self, message: Message, now: int, out: Outcome) -> None:
        if self.covered_by_held(message):
            self.repeat(message, out)
        elif message.void:
            out.void.append(message)
            self.held.append(message)
            self.let_go(now, out)
        elif message.number <= self.next <= message.through or self.has_room():  # type: ignore[operator]
            self.held.append(message)
            self.let_go(now, out)
        else:
            out.rejected.append(message)

    def take_late(self, message: Message, now: int, out: Outcome, *, room: bool = True) -> None:
        if message.void:
            out.late.append(message)
        else:
            super().take_late(message, now, out, room=room)

    def likeness(self, message: Message) -> bool | None:
        known = [content for span, content in self.remembered if span == (message.number, message.through)][-1:]  # type: ignore[comparison-overlap]
        for held in (self.late_held, self.held):
            known = [
                one.content for one in held if (one.number, one.through) == (message.number, message.through)
            ] or known
        if not known or known[0] is None or message.content is None:
            return None
        return bool(known[0] == message.content)

    def suspects_restart(self, message: Message, out: Outcome) -> bool:
        limit, step = self.policy.restart_after, self.policy.increment
        first, last = message.number, message.through
        if self.closed or (self.closing and not self.misses_some(message)) or not limit:
            return False
        if self.next is None or self.first is None or last >= self.next or too_large(first, last, step):
            return False
        if (first - self.first) % step != 0 or (last - self.first) % step != 0:
            return False
        if self.based is not None and last <= self.based:
            return False
        holds = self.policy.on_restart == "suspend"
        was_held = holds and self.suspends_all()
        below = not self.begun_by_first_arrival and last < self.first
        repeats = not below and (
            not self.is_late(message) or any(one.number <= first and last <= one.through for one in self.late_held)
        )
        follows = self.suspect is not None and first == self.suspect + step
        like = self.likeness(message)
        if repeats and (like is True or (like is None and not (first == self.first or follows))):
            return was_held
        self.suspects += 1
        self.suspect = last
        if self.suspects == limit:
            out.events.append(("restart_suspected", self.key, first, first))
        return was_held or (holds and self.suspects >= limit)

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

    def begin_with(self, one: Message) -> None:
        """What it has of numbers below the first isn't late when it comes again."""
        if self.begun_by_first_arrival and one.through >= self.next:  # type: ignore[operator]
            self.first = min(self.first, one.number)  # type: ignore[type-var]

    def let_go(self, now: int, out: Outcome) -> None:
        step = self.policy.increment
        empty: list[int] = []
        while self.next is not None and not self.suspended and not self.closed:
            ready = [one for one in self.held if one.number <= self.next]
            if self.next in self.taken_out:
                self.taken_out.remove(self.next)
                self.remember(self.next, self.next)
                empty.append(self.next)
                self.next += step
                continue
            if not ready:
                break
            one = min(ready, key=lambda message: (message.number, message.arrival))
            self.held.remove(one)
            self.begin_with(one)
            if one.through < self.next:
                if not one.void:
                    out.duplicates.append(one)
            elif one.void:
                empty += range(self.next, one.through + 1, step)
                self.next = one.through + step
            else:
                self.tell_void(empty, out)
                empty = []
                one.overlaps = one.number < self.next
                self.leave(one, now, out)
                if one.through > one.number:
                    self.taken_out = {n for n in self.taken_out if not one.number <= n <= one.through}
                    self.ranges = cut(self.ranges, one.number, one.through, step)
                self.next = one.through + step
        self.tell_void(empty, out)
        if self.hole() is None:
            self.since, self.hole_at, self.timed_out = None, None, False
        elif self.hole_at != self.next:
            begin = max(now, min(one.time for one in self.messages()))
            self.since, self.hole_at, self.reports, self.timed_out = begin, self.next, 0, False
        self.close_if_empty(out)

    def has_room(self) -> bool:
        capacity = self.policy.capacity
        return capacity is None or self.view().held < capacity

    def kept_late(self) -> list[Message]:
        others = self.bases + self.bare + self.late_of_ended + self.line
        return self.late_held + [one for one in self.back + others if not one.void]

    # What leaves.
    def leave(self, message: Message, now: int, out: Outcome, *, late: bool = False) -> None:
        self.count(message, now, out, late=late)
        if message.kind in ("restarts", "unnumbered") or message.void:
            return
        if self.policy.remember:
            span: Any = (message.number, message.through)
            self.remembered = [*self.remembered, (span, message.content)][-self.policy.remember :]
        if late:
            self.ranges = cut(self.ranges, message.number, message.through, self.policy.increment)
        else:
            self.suspects = 0

    def count(self, message: Message, now: int, out: Outcome, *, late: bool) -> None:
        if message.void:
            return
        self.ordinal += 1
        if message.kind not in ("restarts", "unnumbered"):
            self.last_released = message.through
        one: Any = (message.group, message.sequence, message.value, self.ordinal, late, message.overlaps)
        out.released.append(one)
        out.moments.append(now)

    # Actions.
    def resume(self, now: int, out: Outcome) -> None:
        if self.shown_state() != "suspended":
            self.refuse("resume")
        out.duplicates += [message for message in self.back if not message.void]
        self.back, self.suspects, self.suspect = [], 0, None
        self.resumed(out)
        self.by_operator = False
        self.go_free(now, out)

    def go_free(self, now: int, out: Outcome) -> None:
        line, self.line = self.line, []
        bases, self.bases = sorted(self.bases, key=lambda one: (-one.through, one.arrival)), []
        for one in bases:
            if self.next is not None and one.through < self.next:
                if not one.void:
                    out.duplicates.append(one)
            else:
                self.cover(one, now, out, let_go=False)
        for one in sorted(self.late_held + self.bare + self.late_of_ended, key=lambda one: one.arrival):
            if one in self.late_of_ended:
                self.leave_of_ended(one, one.number, now, out)
            else:
                self.leave(one, now, out, late=one in self.late_held)
        self.late_held, self.bare, self.late_of_ended = [], [], []
        if self.gathers and self.first is None:
            self.settles = now if self.messages() else None
        self.let_go(now, out)
        for one in line:
            one.time = max(one.time, now)
            told = Outcome() if one.void else out
            policy, self.policy = self.policy, without_capacity(self.policy)
            self.take_in(one, one.time, told, aside=True)
            self.policy = policy
            if told is not out:
                out.released += told.released
                out.moments += told.moments
                out.events += told.events
                for name in ("late", "duplicates", "invalid", "rejected"):
                    getattr(out, name).extend(other for other in getattr(told, name) if other is not one)
        self.go_on(now, out)

    def suspend(self, now: int, out: Outcome) -> None:
        super().suspend(now, out)
        self.settles = None

    def reset(self, number: int, now: int, out: Outcome) -> None:
        if self.closed:
            self.refuse("reset")
        step = self.policy.increment
        begins = self.first is None
        if self.first is not None and (number - self.first) % step != 0:
            raise ActionRefused("that is not on the step")
        if begins:
            self.first = self.next = number
            self.settles = None
            out.late += [one for one in self.messages() if one.through < number]
            self.held = [one for one in self.held if one.through >= number]
            self.taken_out = {one for one in self.taken_out if one >= number}
            self.drop_off_step(out)
        elif number > self.next:
            out.late += [one for one in self.messages() if one.through < number]
            self.taken_out = {one for one in self.taken_out if one >= number}
            self.held = [one for one in self.held if one.through >= number]
            out.events.append(("hole_skipped", self.key, self.next, number - step))
            self.remember(self.next, number - step)
        elif number < self.next:
            self.ranges = [(low, min(high, number - step)) for low, high in self.ranges if low < number]
            self.first = min(self.first, number)
        if begins or number != self.next:
            self.top = number - step
            self.based = None if self.based is None else min(self.based, number - step)
        self.next = number
        self.let_go(now, out)

    def restart(self, now: int, out: Outcome) -> None:
        if self.closed:
            self.refuse("restart")
        if self.suspended:
            self.resumed(out)
            self.suspended = False
        self.by_operator = self.closing = False
        comes_back = sorted(
            self.held + self.late_held + self.back + self.bases + self.bare + self.late_of_ended + self.line,
            key=lambda one: one.arrival,
        )
        self.held, self.late_held, self.bases, self.bare, self.late_of_ended, self.line = [], [], [], [], [], []
        self.begin_again()
        for one in comes_back:
            one.time = now
            one.overlaps = False
            if self.sequence.modulus is not None:
                one.number %= self.sequence.modulus
                one.through %= self.sequence.modulus
            told = Outcome() if one.void else out
            self.take_in(one, now, told, aside=False)
            if told is not out:
                out.released += told.released
                out.moments += told.moments
                out.events += told.events
                for name in ("late", "duplicates", "invalid", "rejected"):
                    getattr(out, name).extend(other for other in getattr(told, name) if other is not one)

    def skip_message(self, now: int, out: Outcome) -> None:
        stopping = sorted(self.late_held + self.late_of_ended, key=lambda one: one.arrival)
        if self.shown_state() != "suspended" or self.by_operator or not stopping:
            self.refuse("skip_message")
        first = stopping[0]
        out.dead.append(first)
        self.late_held = [one for one in self.late_held if one is not first]
        self.late_of_ended = [one for one in self.late_of_ended if one is not first]
        if not self.late_held and not self.late_of_ended and not self.back:
            self.resumed(out)
            self.go_free(now, out)

    def take_out(self, sequence: Any, now: int, out: Outcome) -> None:
        both = self.messages() + [one for one in self.kept_late() if not one.void]
        named = sorted((one for one in both if one.sequence == sequence), key=lambda one: one.arrival)
        if not named:
            raise ActionRefused(f"nothing held has the sequence {sequence}")
        one = named[0]
        out.dead.append(one)
        stops = one in self.late_held or one in self.late_of_ended
        for name in ("late_held", "back", "bases", "bare", "late_of_ended", "line"):
            setattr(self, name, [other for other in getattr(self, name) if other is not one])
        if one in self.held:
            self.held.remove(one)
            self.taken_out |= set(range(one.number, one.through + 1, self.policy.increment))
            if self.gathers and self.first is None and not self.messages():
                self.settles = None
        if (
            stops
            and self.suspended
            and not self.by_operator
            and not self.late_held
            and not self.late_of_ended
            and not self.back
        ):
            self.resumed(out)
            self.go_free(now, out)
        else:
            self.let_go(now, out)

    def abort(self, now: int, out: Outcome) -> None:
        gone = self.messages() + [one for one in self.kept_late() if not one.void]
        step = self.policy.increment
        for one in self.messages():
            self.taken_out |= set(range(one.number, one.through + 1, step))
        out.dead += gone
        for name in ("held", "late_held", "back", "bases", "bare", "late_of_ended", "line"):
            setattr(self, name, [other for other in getattr(self, name) if other.void])
        self.settles = None
        self.let_go(now, out)

    def shown_state(self) -> str:
        shown = super().shown_state()
        return "waiting" if shown == "ready" and self.gathers and self.first is None and self.messages() else shown


def without_capacity(policy: Standard) -> Standard:
    return replace(policy, capacity=None)


def cut(
    ranges: list[tuple[int, int]], first: int, last: int, step: int, most: int = REMEMBERED_RANGES
) -> list[tuple[int, int]]:
    """Ranges without a run of numbers, one after another, as far as there is room for their pieces."""
    place = 0
    ranges = list(ranges)
    while place < len(ranges):
        low, high = ranges[place]
        if low > last or high < first:
            place += 1
            continue
        pieces = [(low, first - step)] * (low < first) + [(last + step, high)] * (last < high)
        if len(ranges) - 1 + len(pieces) <= most:
            ranges[place : place + 1] = pieces
            place += len(pieces)
        else:
            place += 1
    return ranges


class TurningGroup(BestEffortGroup):
    """Ascending within rounds; numbers turn over."""

    def __init__(self, key: Any, policy: BestEffort, sequence: Any) -> None:
        super().__init__(key, policy)
        self.sequence = sequence
        self.reference: int | None = None

    def arrive(self, message: Message, now: int, out: Outcome) -> None:
        if not unwrap(message, self.sequence.modulus, self.reference):
            out.invalid.append(message)
            return
        super().arrive(message, now, out)
        if not any(message is one for some in (out.late, out.invalid) for one in some):
            self.reference = message.through if self.reference is None else max(self.reference, message.through)
