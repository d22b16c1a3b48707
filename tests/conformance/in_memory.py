"""Cases run in memory: by the `Sequencer`, and by the oracle, which has the same interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seriatim import VOID, Policy, Standard, UnitOfWork
from seriatim.errors import ActionRefused
from tests.conformance.case import REPORTS, Act, Case, Cutting, Fate, Message, Result, positions, same


class InMemory:
    """An engine over anything with `Sequencer`'s interface.

    `cutting`: ``"steps"``: each step is a call, time moves to its latest message after it; ``"whole"``:
    all messages are one call, as a static frame takes them; ``"singly"``: each message is a call.
    """

    def __init__(self, build: Callable[..., Any], cutting: Cutting = "steps") -> None:
        self.build = build
        self.cutting = cutting
        self.name = f"in memory, {cutting}"

    def cannot_run(self, case: Case) -> str | None:
        if self.cutting != "steps" and (case.has_actions or case.per_call or case.unwatched):
            return "its steps are its meaning"
        return None

    def run(self, case: Case) -> Result:
        sequencer = self.build(case.policy, **beginning(case))
        outcomes: list[tuple[Any, ...]] = []
        if self.cutting == "steps":
            outcomes = [tuple(take_step(sequencer, case, step, numbers)) for step, numbers in positions(case)]
        else:
            whole = range(len(case.messages))
            parts = [whole] if self.cutting == "whole" else [range(one, one + 1) for one in whole]
            outcomes = [(sequencer.replay(replayable(case, part)),) for part in parts]
            outcomes.append((sequencer.replay([], watermark=case.last_time),))
        return result_of(case, sequencer, outcomes, by_step=self.cutting == "steps")


def beginning(case: Case) -> dict[str, Any]:
    """The arguments of a sequencer: first numbers, what is compared of the values, and what opens and closes groups."""
    start_from = {"start_from": dict(case.start_from)} if case.start_from else {}
    return start_from | (case.merging if case.regions else comparing(case.policy)) | case.stays | numbering(case)


def numbering(case: Case) -> dict[str, Any]:
    """The argument `sequence`, if the numbers of the case mean anything."""
    return {} if case.numbers is None else {"sequence": case.numbers}


def comparing(policy: Policy) -> dict[str, Any]:
    """The argument `compare`: the content of a value, without the fields that are unique to each message."""
    again = isinstance(policy, UnitOfWork) and not policy.once
    return {"compare": "content"} if isinstance(policy, Standard) or again else {}


def items(case: Case, numbers: range) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Messages as `offer` takes them; the value carries the position and the properties."""
    messages = case.messages
    return [(messages[n].group, messages[n].sequence, value(messages[n], n)) for n in numbers]


def value(message: Message, number: int) -> Any:
    """The value of a message, which has its position and its properties, and its label as content."""
    return VOID if message.is_void else {**message.properties, "message": number, "content": message.label}


def number_of(case: Case, item: Any) -> int:
    """The position of a message that wasn't released."""
    if item.value is not VOID:
        return int(item.value["message"])
    return next(
        n
        for n, one in enumerate(case.messages)
        if one.is_void and (one.group, one.sequence) == (item.group, item.sequence)
    )


def replayable(case: Case, numbers: range) -> list[tuple[Any, Any, dict[str, Any], float]]:
    """Messages as `replay` takes them."""
    return [(*item, case.messages[n].at) for n, item in zip(numbers, items(case, numbers), strict=True)]


def take_step(sequencer: Any, case: Case, step: Any, numbers: range) -> list[Any]:
    """The outcomes of one step."""
    if isinstance(step, Act):
        return [sequencer.advance(step.at), *act(sequencer, step)]
    latest = max(case.messages[n].at for n in numbers)
    if case.per_call or case.unwatched:
        # A call is a round; what it leaves behind is due at once, but an engine may be called again before that.
        last = numbers.stop == len(case.messages)
        return [sequencer.offer(items(case, numbers), now=latest), *([sequencer.advance(latest)] if last else [])]
    return [sequencer.replay(replayable(case, numbers), watermark=latest)]


def act(sequencer: Any, step: Act) -> list[Any]:
    """Applies an action, or sees it refused."""
    call = getattr(sequencer, step.action)
    try:
        outcome = call(step.group, now=step.at, **step.arguments)
    except ActionRefused:
        same(f"{step.action} refused", True, step.refused)
        return []
    same(f"{step.action} refused", False, step.refused)
    return [outcome]


def result_of(case: Case, sequencer: Any, outcomes: list[tuple[Any, ...]], *, by_step: bool) -> Result:
    """The fates in the order of what was decided; what is in no outcome is held."""
    fates: list[Fate] = []
    for outcome in (one for step in outcomes for one in step):
        fates += map(fate_of, outcome.released)
        for disposition, decided in dispositions(outcome):
            fates += [Fate(number_of(case, item), disposition) for item in decided]
    held = set(range(len(case.messages))) - {fate.message for fate in fates}
    counts = sequencer.counts()
    assert counts["held"] == len(held), "what is held is what was not decided"
    assert counts["in"] == len(case.messages)
    for disposition in ("released", "late", "duplicate", "invalid", "rejected", "dead", "void", "copy"):
        assert counts[disposition] == sum(fate.disposition == disposition for fate in fates)
    fates += [Fate(n, "held") for n in sorted(held)]
    reports = tuple(event for step in outcomes for one in step for event in map(tuple_of_event, one.events))
    states = {group: sequencer.group(group).state for group in case.states}
    left = tuple(
        tuple(fate_of(released) for one in taken for released in one.released)
        for taken, (step, _) in zip(outcomes, positions(case), strict=False)
        if not isinstance(step, Act)
    )
    conflicts = tuple((group, first) for kind, group, first, _ in reports if kind == "conflict")
    told = tuple(event for event in reports if event[0] in REPORTS)
    return Result(tuple(fates), left if by_step else None, told, states, conflicts if by_step else None)


def dispositions(outcome: Any) -> list[tuple[str, Any]]:
    return [
        ("late", outcome.late),
        ("duplicate", outcome.duplicates),
        ("invalid", outcome.invalid),
        ("rejected", outcome.rejected),
        ("dead", outcome.dead),
        ("void", outcome.void),
        ("copy", outcome.copies),
    ]


def fate_of(released: Any) -> Fate:
    value, ordinal, late, *others = released[2:8]
    return Fate(value["message"], "released", ordinal, late, any(others[:1]), *(others[2:] or ((),)))


def tuple_of_event(event: Any) -> tuple[str, Any, Any, Any]:
    kind, group, first, last = (
        event[:4] if isinstance(event, tuple) else (event.kind, event.group, event.first, event.last)
    )
    return str(kind), group, first, last
