"""The rules of order once more, naively: one message at a time, with lists and dictionaries.

Obviously right and slow. Written from the design alone; shares nothing with the kernel but the policies
and the error tree. The interface is that of `Sequencer`, so that the two can be compared call by call.
Seconds outside, int microseconds inside. What becomes of a message in its group: ``oracle_groups.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.groups.numbers import Sequence
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from tests.oracle_groups import (
    END_OF_TIME,
    BestEffortGroup,
    FifoGroup,
    Group,
    Message,
    Outcome,
    StandardGroup,
    UnitOfWorkGroup,
    View,
    key_bytes,
    micros,
    moment_of,
    whole,
)
from tests.oracle_numbers import NumberedGroup, TurningGroup, position, read, says


class Oracle:
    """The rules for one queue, a message at a time. The interface of `Sequencer`."""

    def __init__(
        self,
        policy: Policy,
        *,
        start_from: Mapping[Any, int] | None = None,
        compare: str | None = None,
        opens: Any = None,
        closes: Any = None,
        unopened_timeout: float | None = None,
        region: str | None = None,
        message_id: str | None = None,
        horizon: float | None = None,
        sequence: Sequence | None = None,
    ) -> None:
        self.policy = policy
        self.sequence = sequence
        self.numbered = isinstance(policy, Standard) and (
            policy.start in ("lowest", "told") or (sequence is not None and bool(set(sequence.says()) - {"void"}))
        )
        self.by_position = isinstance(policy, BestEffort) and policy.by == "position"
        self.reads = (sequence is not None or self.numbered) and not self.by_position
        self.region, self.message_id = region, message_id
        self.horizon = micros(3600.0 if horizon is None else horizon)
        if isinstance(policy, Standard) and policy.remember is None:
            self.policy = replace(policy, remember=64)
        self.compare = compare
        self.stays = opens, closes, None if unopened_timeout is None else micros(unopened_timeout)
        self.start = {key_bytes(key): number for key, number in (start_from or {}).items()}
        self.groups: dict[Hashable, Group] = {key_bytes(key): self.new_group(key) for key in start_from or {}}
        self.now = 0
        self.arrivals = 0
        words = ("in", "released", "late", "duplicate", "invalid", "rejected", "dead", "void", "copy")
        self.tally = dict.fromkeys(words, 0)

    # Messages.
    def offer(self, items: Iterable[tuple[Any, Any, Any]], now: float | None = None) -> Outcome:
        self.clock_to(now)
        out, before = Outcome(), {}
        for item in items:
            message = Message(*item, self.next_arrival())
            target = self.understood(message, out)
            if target is not None:
                before.setdefault(target, (target.hole(), target.view().next, getattr(target, "life", 0)))
                message.time = target.clock = max(target.clock, self.now)
                target.receive(message, target.clock, out)
        for target in self.groups.values():
            target.end_of_offer(max(target.clock, self.now), out)
        for target, (hole, number, life) in before.items():
            out.events += hole_events(target, hole, number, life)
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
                message.time = target.clock
                target.receive(message, target.clock, out)
        for target in self.groups.values():
            target.end_of_offer(target.clock, out)
        if watermark is not None:
            self.now = max(self.now, micros(watermark))
            self.fire_due(list(self.groups.values()), self.now, out)
        return self.counted(out)

    def understood(self, message: Message, out: Outcome) -> Group | None:
        """The message's group, unless the message has none, or no place in it."""
        self.tally["in"] += 1
        if isinstance(self.policy, Unordered) and self.sequence is not None:
            message.empty = message.void or bool(says(self.sequence.void, message.value))
        if isinstance(self.policy, Unordered) and message.void:
            out.void.append(message)
            return None
        if isinstance(self.policy, Unordered):
            out.released.append((message.group, message.sequence, message.value, None, False))
            out.moments.append(self.now)
            return None
        number: Any
        if self.reads:
            step = self.policy.increment if isinstance(self.policy, Standard) else 1
            is_valid = read(message, self.sequence or Sequence(), step)
            number = message.number if is_valid else None
            if isinstance(self.policy, Fifo):
                number = message.arrival
        else:
            number = self.number_of(message)
        raw = key_bytes(message.group)
        if raw is None or number is None or self.has_wrong_size(message):
            out.invalid.append(message)
            return None
        message.number = number
        message.content = self.content(message)
        if self.region is not None and not message.void:
            message.region = message.value.get(self.region)
            message.identity = message.value.get(self.message_id)
            if message.region not in ("a", "b") or message.identity is None:
                out.invalid.append(message)
                return None
            other = [] if self.compare is None else [message.value.get(self.compare)]
            message.content = None if any(isinstance(one, complex) for one in other) else [message.identity, *other]
        if raw not in self.groups:
            self.groups[raw] = self.new_group(message.group)
        return self.groups[raw]

    def content(self, message: Message) -> Any:
        """What is compared of a message; None: nothing."""
        if message.void or not (isinstance(self.policy, Standard) or not getattr(self.policy, "once", True)):
            return None
        found = message.value if self.compare is None else [message.value.get(self.compare)]
        return None if isinstance(message.value.get("content"), complex) else found

    def number_of(self, message: Message) -> Any:
        if self.by_position:
            return position(message, self.sequence or Sequence())
        if isinstance(self.policy, Fifo):
            return message.arrival
        by_time = isinstance(self.policy, BestEffort) and self.policy.by == "time"
        return moment_of(message.sequence) if by_time else whole(message.sequence)

    def has_wrong_size(self, message: Message) -> bool:
        """Whether a message says a size that is no number."""
        if not isinstance(self.policy, UnitOfWork):
            return False
        written = UnitOfWorkGroup(message.group, self.policy).written_size(message.value)
        return written is not None and whole(written) is None

    def next_arrival(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def known(self, key: Any) -> Group:
        raw = key_bytes(key)
        if raw not in self.groups:
            raise UsageError(f"{key!r} has never received a message")
        return self.groups[raw]

    def new_group(self, key: Any) -> Group:
        group = self.plain_group(key)
        group.has_stays(*self.stays)
        return group

    def plain_group(self, key: Any) -> Group:
        match self.policy:
            case Standard() if self.numbered:
                return NumberedGroup(key, self.policy, self.start.get(key_bytes(key)), self.sequence or Sequence())
            case BestEffort() if self.sequence is not None and self.sequence.modulus is not None:
                return TurningGroup(key, self.policy, self.sequence)
            case Standard():
                return StandardGroup(key, self.policy, self.start.get(key_bytes(key)))
            case BestEffort():
                return BestEffortGroup(key, self.policy)
            case UnitOfWork():
                return UnitOfWorkGroup(key, self.policy)
            case Fifo():
                return FifoGroup(key, self.policy, self.horizon)
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
            waiting = [(due_of(group), place) for place, group in enumerate(groups)]
            due = [(moment, place) for moment, place in waiting if moment is not None and moment <= now]
            if not due:
                break
            moment, place = min(due)
            groups[place].clock = max(groups[place].clock, moment)
            if groups[place].unopened:
                groups[place].not_opened(moment, out)
            else:
                groups[place].fire(moment, out)
            groups[place].go_on(moment, out)
        return out

    # Actions.
    def suspend(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("suspend", group, now)

    def resume(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("resume", group, now)

    def skip_message(self, group: Any, now: float | None = None, *, sequence: Any = None) -> Outcome:
        return self.act("skip_message", group, now, *(() if sequence is None else (sequence,)))

    def abort(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("abort", group, now)

    def close(self, group: Any, now: float | None = None, *, at_once: bool = False) -> Outcome:
        return self.act("close", group, now, at_once)

    def skip_hole(self, group: Any, through: int | None = None, now: float | None = None) -> Outcome:
        return self.act("skip_hole", group, now, through)

    def reset(self, group: Any, next: int, now: float | None = None) -> Outcome:  # noqa: A002 - as the Sequencer has it
        return self.act("reset", group, now, next)

    def restart(self, group: Any, now: float | None = None) -> Outcome:
        return self.act("restart", group, now)

    def act(self, action: str, key: Any, now: float | None, *arguments: Any) -> Outcome:
        self.clock_to(now)
        if action in ("suspend", "reset") and key_bytes(key) not in self.groups:
            self.groups[key_bytes(key)] = self.new_group(key)
        group, out = self.known(key), Outcome()
        group.clock = max(group.clock, self.now)
        before, was, life = group.hole(), group.view().next, getattr(group, "life", 0)
        name = "take_out" if action == "skip_message" and arguments else action
        getattr(group, name)(*arguments, group.clock, out)
        group.go_on(group.clock, out)
        if action in ("resume", "skip_message", "reset"):
            changes = hole_events(group, before, was, life)
            out.events += [event for event in changes if event[0] == "hole_opened"]
        if action == "restart":
            out.events += hole_events(group, None, None, getattr(group, "life", 0))
        return self.counted(out)

    # Views.
    def group(self, key: Any) -> View:
        return self.known(key).view()

    def counted(self, out: Outcome) -> Outcome:
        conflicts = [event for event in out.events if event[0] == "conflict"]
        first = list({event[1]: event for event in reversed(conflicts)}.values())  # of each group
        out.events = [event for event in out.events if event[0] != "conflict"] + first
        self.tally["released"] += len(out.released)
        self.tally["late"] += len(out.late)
        self.tally["duplicate"] += len(out.duplicates)
        self.tally["invalid"] += len(out.invalid)
        self.tally["rejected"] += len(out.rejected)
        self.tally["dead"] += len(out.dead)
        self.tally["void"] += len(out.void)
        self.tally["copy"] += len(out.copies)
        return out

    def counts(self) -> dict[str, int]:
        held = sum(group.view().held for group in self.groups.values())
        return {**self.tally, "held": held}


def due_of(group: Group) -> int | None:
    """When the next timer of a group is due."""
    return group.due_of_opening() if group.unopened else group.due()


def hole_events(
    group: Group, before: tuple[int, int] | None, was: int | None, life: int = 0
) -> list[tuple[str, Any, int, int]]:
    """What a call that offers messages reports of a group's hole: judged once, at the end. `was`: its next number before."""
    events: list[tuple[str, Any, int, int]] = []
    after, following = group.hole(), group.view().next
    based = getattr(group, "based", None)
    if getattr(group, "life", 0) != life:
        before = None
    elif before is not None and based is not None and based >= before[0]:
        pass
    elif before is not None and following is not None and was is not None and following > was:
        events.append(("hole_filled", group.key, before[0], min(before[1], following - group.policy.increment)))
    if after is not None and (before is None or following != was):
        events.append(("hole_opened", group.key, *after))
    return events
