"""What a conformance case is, what an engine gives back, and how the two are compared.

A case is written once and run against every engine: the in-memory `Sequencer`, a static frame, a
streaming query. Its messages carry their own time and come in order of time, so that all engines
agree however they cut the steps into calls; after the last step time has moved to the latest
message's. Where time has to pass, a message of another group says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from seriatim.kernel.groups.numbers import Sequence
from seriatim.kernel.groups.policy import BestEffort, Policy, Unordered

DISPOSITIONS = ("released", "held", "late", "duplicate", "invalid", "rejected", "dead", "void", "copy")

#: Event kinds that a clock or an action brings about: the same however messages are cut into calls.
REPORTS = (
    "hole_overdue",
    "hole_skipped",
    "timed_out",
    "closed",
    "suspended",
    "resumed",
    "restart_suspected",
    "void",
    "hole_covered",
    "incomplete",
)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a case. `label` tells copies apart; `properties` are what a `UnitOfWork` reads.

    A void has the property ``void``; no two of a case have one group and sequence.
    """

    group: Any
    sequence: Any
    at: float
    label: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_void(self) -> bool:
        """Whether it lets the next number pass and leaves nothing."""
        return "void" in self.properties


@dataclass(frozen=True, slots=True)
class Arrive:
    """Messages that are taken in by one call. `leaves`: what this step releases, where a case says so."""

    messages: tuple[Message, ...]
    leaves: Mapping[str, list[Any]] | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """An operator's action at a time (seconds). `refused`: it doesn't fit the state."""

    action: str
    group: str
    at: float
    arguments: Mapping[str, Any] = field(default_factory=dict)
    refused: bool = False


Step = Arrive | Act


@dataclass(frozen=True, slots=True)
class Late:
    """In an expectation: this number leaves flagged as late."""

    sequence: Any


@dataclass(frozen=True, slots=True)
class Recorded:
    """A case of another system's suite: the beginning of the suite's name, and the case's name there."""

    suite: str
    case: str


@dataclass(frozen=True, slots=True)
class Case:
    """Messages in, and what has to become of each.

    `source` is the rule of the design, or the `Recorded` case it restates; `differs` says where that
    peer's rule is another and what ours is. `released`, `late`, … give sequences per group; the order
    counts for `released` only. A disposition without an expectation must not occur. `conflicts`: the first of each group and
    step, by its number. `unwatched`: nobody looks
    before all has arrived; then there is one look, at the latest message's time. `opens`, `closes`: whether messages with the property
    of that name open their group, or close it. `numbers`: what their numbers mean, and `overlaps`: those that leave and have numbers that have
    left before. `lacks`: of partial sets the numbers that they lack. `regions`: two regions send the messages, see `by`; `horizon`: for how long `Fifo` knows their ids.
    """

    name: str
    source: str | Recorded
    policy: Policy
    steps: tuple[Step, ...]
    note: str = ""
    differs: str = ""
    start_from: Mapping[str, int] = field(default_factory=dict)
    released: Mapping[Any, list[Any]] = field(default_factory=dict)
    held: Mapping[Any, list[Any]] = field(default_factory=dict)
    late: Mapping[Any, list[Any]] = field(default_factory=dict)
    duplicate: Mapping[Any, list[Any]] = field(default_factory=dict)
    invalid: Mapping[Any, list[Any]] = field(default_factory=dict)
    rejected: Mapping[Any, list[Any]] = field(default_factory=dict)
    dead: Mapping[Any, list[Any]] = field(default_factory=dict)
    void: Mapping[Any, list[Any]] = field(default_factory=dict)
    copy: Mapping[Any, list[Any]] = field(default_factory=dict)
    labels: Mapping[Any, list[str]] = field(default_factory=dict)
    reports: tuple[tuple[str, str, int | None, int | None], ...] | None = None
    conflicts: tuple[tuple[str, int], ...] | None = None
    states: Mapping[str, str] = field(default_factory=dict)
    unwatched: bool = False
    opens: bool = False
    closes: bool = False
    unopened_timeout: float | None = None
    regions: bool = False
    horizon: float | None = None
    numbers: Sequence | None = None
    overlaps: Mapping[Any, list[Any]] | None = None
    lacks: Mapping[Any, tuple[int, ...]] = field(default_factory=dict)

    @property
    def merging(self) -> dict[str, Any]:
        """What says the region and the id of a message, in memory: the properties of these names."""
        horizon = {} if self.horizon is None else {"horizon": self.horizon}
        return {"region": "region", "message_id": "id", **horizon}

    @property
    def stays(self) -> dict[str, Any]:
        """What opens and closes groups, in memory: the properties ``opens`` and ``closes`` of a message."""
        found: dict[str, Any] = {}
        if self.opens:
            found |= {"opens": lambda value: bool(value.get("opens")), "unopened_timeout": self.unopened_timeout}
        if self.closes:
            found["closes"] = lambda value: bool(value.get("closes"))
        return found

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages in order of arrival."""
        return tuple(message for step in self.steps if isinstance(step, Arrive) for message in step.messages)

    @property
    def has_actions(self) -> bool:
        """Whether an operator acts."""
        return any(isinstance(step, Act) for step in self.steps)

    @property
    def has_voids(self) -> bool:
        """Whether a message is a void."""
        return any(message.is_void for message in self.messages)

    @property
    def per_call(self) -> bool:
        """Whether the steps are calls: rounds without a window are judged once a call."""
        return isinstance(self.policy, BestEffort) and self.policy.window is None

    @property
    def plain(self) -> bool:
        """Whether keys are text (or missing), sequences int64 (seconds, by time) or missing, and sizes int64 or missing."""
        number = int | float if isinstance(self.policy, BestEffort) and self.policy.by == "time" else int
        return all(
            (message.group is None or isinstance(message.group, str))
            and (message.sequence is None or is_number(message.sequence, number))
            and ((size := message.properties.get("size")) is None or is_number(size, int))
            for message in self.messages
        )

    @property
    def last_time(self) -> float:
        """The latest message's time, seconds."""
        return max((message.at for message in self.messages), default=0.0)


def is_number(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and -(2**63) <= value < 2**63


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a message; `message` is its position in `Case.messages`. `overlaps` and `lacks` are None where an engine can't tell."""

    message: int
    disposition: str
    ordinal: int | None = None
    late: bool = False
    overlaps: bool | None = None
    lacks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What an engine did with a case: every message's fate, those released in the order they left.

    `left_by_step` has the messages that each `Arrive` step released. It, `reports`, `conflicts` and `states` are
    None where an engine can't tell.
    """

    fates: tuple[Fate, ...]
    left_by_step: tuple[tuple[Fate, ...], ...] | None = None
    reports: tuple[tuple[str, str, int | None, int | None], ...] | None = None
    states: Mapping[str, str] | None = None
    conflicts: tuple[tuple[str, int], ...] | None = None


class Engine(Protocol):
    """Something that runs cases."""

    name: str

    def cannot_run(self, case: Case) -> str | None:
        """Why the case doesn't apply to this engine; None: it does."""

    def run(self, case: Case) -> Result:
        """Runs the case in a fresh queue."""


Cutting = Literal["steps", "whole", "singly"]


def at(time: float, group: Any, *sequences: Any, leaves: Mapping[str, list[Any]] | None = None) -> Arrive:
    """A step: these sequences (or `of(...)`) of one group arrive, in this order, at one time."""
    return Arrive(
        tuple(
            replace(sequence, group=group, at=time) if isinstance(sequence, Message) else Message(group, sequence, time)
            for sequence in sequences
        ),
        leaves,
    )


def of(sequence: Any, label: str = "", **properties: Any) -> Message:
    """A sequence with a label or properties, for `at`."""
    return Message("", sequence, 0.0, label, properties)


def by(region: Any, *sequences: Any, id: Any = None) -> tuple[Message, ...]:  # noqa: A002 - the word of the case
    """Sequences that a region sends, for `at`; without an id of its own each has its number as id."""
    return tuple(of(one, region=region, id=str(one) if id is None else id) for one in sequences)


def void(sequence: Any) -> Message:
    """A void, for `at`."""
    return of(sequence, void=True)


def together(*steps: Arrive, leaves: Mapping[str, list[Any]] | None = None) -> Arrive:
    """Several as one call."""
    return Arrive(tuple(message for step in steps for message in step.messages), leaves)


def later(time: float) -> Arrive:
    """Time passes: another group's first message says so. Expect it with `CLOCK` (released) or in ``held``."""
    return at(time, "clock", 1)


#: What `later` adds to the released of a `Standard` or `Fifo` case.
CLOCK = {"clock": [1]}


def check(case: Case, result: Result) -> None:
    """Asserts that the result is what the case expects; the message of a failure is readable without rewriting."""
    messages = case.messages
    same("messages with a fate", sorted(fate.message for fate in result.fates), list(range(len(messages))))
    released = [fate for fate in result.fates if fate.disposition == "released"]
    same("released", by_group(messages, released), with_late(case.released))
    for disposition in DISPOSITIONS[1:]:
        found = [fate for fate in result.fates if fate.disposition == disposition]
        same(disposition, multisets(by_group(messages, found)), multisets(with_late(getattr(case, disposition))))
    for group, labels in case.labels.items():
        same("labels", [messages[f.message].label for f in released if messages[f.message].group == group], labels)
    check_ordinals(case, released)
    if case.overlaps is not None and all(fate.overlaps is not None for fate in released):
        overlap = [replace(fate, late=False) for fate in released if fate.overlaps]
        same("overlaps", by_group(messages, overlap), with_late(case.overlaps))
    found = {messages[fate.message].group: fate.lacks for fate in released if fate.lacks}
    if all(fate.lacks is not None for fate in released):
        same("lacks", found, dict(case.lacks))
    if result.left_by_step is not None:
        check_steps(case, result.left_by_step)
    if result.reports is not None and case.reports is not None:
        same("reports", result.reports, case.reports)
    if result.conflicts is not None and case.conflicts is not None:
        same("conflicts", result.conflicts, case.conflicts)
    if result.states is not None:
        same("states", {group: result.states[group] for group in case.states}, dict(case.states))


def same(what: str, found: Any, expected: Any) -> None:
    assert found == expected, f"{what}: {found}, expected {expected}"


def check_ordinals(case: Case, released: list[Fate]) -> None:
    """Ordinals count 1, 2, 3 … per group in the order of leaving; `Unordered` has none."""
    if isinstance(case.policy, Unordered):
        same("ordinals", {fate.ordinal for fate in released}, {None})
        return
    counts: Counter[Any] = Counter()
    for fate in released:
        group = case.messages[fate.message].group
        counts[group] += 1
        same(f"ordinal in {group!r}", fate.ordinal, counts[group])


def check_steps(case: Case, left_by_step: tuple[tuple[Fate, ...], ...]) -> None:
    arrivals = [step for step in case.steps if isinstance(step, Arrive)]
    for place, (step, left) in enumerate(zip(arrivals, left_by_step, strict=True)):
        if step.leaves is not None:
            same(f"left at step {place}", by_group(case.messages, left), with_late(step.leaves))


def by_group(messages: tuple[Message, ...], fates: Iterable[Fate]) -> dict[Any, list[tuple[Any, bool]]]:
    """Per group the sequences (and late flags) of the fates' messages, in the order of the fates."""
    found: dict[Any, list[tuple[Any, bool]]] = {}
    for fate in fates:
        message = messages[fate.message]
        found.setdefault(message.group, []).append((message.sequence, fate.late))
    return found


def with_late(expected: Mapping[Any, list[Any]]) -> dict[Any, list[tuple[Any, bool]]]:
    return {
        group: [(one.sequence, True) if isinstance(one, Late) else (one, False) for one in sequences]
        for group, sequences in expected.items()
        if sequences
    }


def multisets(found: Mapping[Any, list[tuple[Any, bool]]]) -> dict[Any, Counter[str]]:
    return {group: Counter(map(repr, sequences)) for group, sequences in found.items()}


def positions(case: Case) -> Iterator[tuple[Step, range]]:
    """Each step with the positions of its messages in `Case.messages`."""
    start = 0
    for step in case.steps:
        size = len(step.messages) if isinstance(step, Arrive) else 0
        yield step, range(start, start + size)
        start += size
