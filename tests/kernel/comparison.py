"""Outcomes made comparable: plain values, whether they come from the kernel or from the oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from seriatim import VOID, ActionRefused, BestEffort, Policy, Sequencer, Unordered
from seriatim.kernel.values.outcome import EventKind
from tests.conformance.case import REPORTS, same
from tests.conformance.in_memory import comparing, dispositions, tuple_of_event
from tests.oracle import Oracle

#: Events of these kinds are told in order; those of one call have no order beyond that.
_COUNTED = ("restart_suspected", "void", "conflict")
EVENTS = (tuple(kind.word for kind in EventKind if kind.word not in _COUNTED), *((kind,) for kind in _COUNTED))


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the interface: its name and arguments."""

    name: str
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)


def released(outcome: Any) -> list[tuple[Any, ...]]:
    """Group, sequence, message, ordinal and flags of what left, in order."""
    return [
        (one[0], one[1], one[2]["message"], one[3], one[4], any(one[5:6]), *(one[6:8] or (False, ())))
        for one in map(tuple, outcome.released)
    ]


def per_group(rows: list[tuple[Any, ...]], key: int = 0) -> dict[Any, list[tuple[Any, ...]]]:
    """The rows of each group in their order."""
    found: dict[Any, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found


def set_aside(outcome: Any) -> dict[str, Counter[Any]]:
    """For each other disposition the messages that got it."""
    return {name: Counter(told(item) for item in decided) for name, decided in dispositions(outcome)}


def told(item: Any) -> Any:
    """What tells a message from others: a void has no value of its own."""
    return (item.group, item.sequence) if item.value is VOID else item.value["message"]


def events(outcome: Any, kinds: tuple[str, ...] | None = None) -> dict[Any, list[tuple[Any, ...]]]:
    """The events of each group, of some kinds or all."""
    rows = [tuple_of_event(event) for event in outcome.events]
    return per_group([row for row in rows if kinds is None or row[0] in kinds], key=1)


def join(outcomes: list[Any]) -> tuple[dict[Any, Any], dict[str, Counter[int]], dict[Any, Any]]:
    """What several calls came to: released per group, the rest by disposition, the events that clocks brought."""
    left = per_group([row for outcome in outcomes for row in released(outcome)])
    aside: dict[str, Counter[int]] = {}
    reports: dict[Any, list[tuple[Any, ...]]] = {}
    for outcome in outcomes:
        for name, counter in set_aside(outcome).items():
            aside[name] = aside.get(name, Counter()) + counter
        for kinds in EVENTS:
            for group, rows in events(outcome, tuple(kind for kind in kinds if kind in REPORTS)).items():
                reports.setdefault((group, kinds), []).extend(rows)
    return left, aside, reports


def views(sequencer: Any, oracle: Oracle) -> dict[Any, Any]:
    """Every group as it is seen from outside."""
    return {group.key: view(sequencer.group(group.key)) for group in oracle.groups.values()}


def view(seen: Any) -> tuple[Any, ...]:
    return str(seen.state), seen.next, seen.held, seen.hole_since, seen.last_released, seen.ordinal, seen.closing


def numbered(items: list[Any], start: int = 0) -> list[Any]:
    """The same messages with values that tell each from every other."""
    return [
        item if item[2] is VOID else (*item[:2], {**item[2], "message": start + place}, *item[3:])
        for place, item in enumerate(items)
    ]


def perform(subject: Any, call: Call) -> Any:
    """The outcome of a call; None if it was refused."""
    try:
        return getattr(subject, call.name)(*call.arguments, **call.keywords)
    except ActionRefused:
        return None


def fits(call: Call, oracle: Oracle) -> bool:
    """Actions are for groups that have received something."""
    return call.name in ("offer", "advance") or any(group.key == call.arguments[0] for group in oracle.groups.values())


def check_script(
    policy: Policy, script: list[Call], start_from: dict[str, int], stays: dict[str, Any] | None = None
) -> None:
    """Plays a script to the kernel and to the oracle and asserts after each call that they agree.

    `stays`: what opens and closes groups, for both.
    """
    begin: dict[str, Any] = {"start_from": start_from} if start_from else {}
    begin |= comparing(policy) | (stays or {})
    subject, oracle = Sequencer(policy, **begin), Oracle(policy, **begin)
    decided: list[Any] = []
    offered = 0
    for call in script:
        if not fits(call, oracle):
            continue
        if call.name == "offer":
            call = Call("offer", (numbered(call.arguments[0], offered),), call.keywords)  # noqa: PLW2901
            offered += len(call.arguments[0])
        ours, theirs = perform(subject, call), perform(oracle, call)
        check_outcome(ours, theirs, policy, call.name)
        decided += messages_in(ours) if ours is not None else []
        same("views", views(subject, oracle), {group.key: view(group.view()) for group in oracle.groups.values()})
        check_conserved(subject, oracle, offered, decided, policy)
    check_outcome(subject.finish(), oracle.finish(), policy, "finish")


def check_outcome(ours: Any, theirs: Any, policy: Policy, name: str) -> None:
    """Asserts that two outcomes of one call are the same; reasons are the kernel's own."""
    same(f"{name} refused", ours is None, theirs is None)
    if ours is None:
        return
    same("released", per_group(released(ours)), per_group(released(theirs)))
    if name == "offer" and not (isinstance(policy, BestEffort) and policy.window is None):
        same("order over groups", released(ours), released(theirs))
    moments = {row[:4]: moment for row, moment in zip(released(theirs), theirs.moments, strict=True)}
    left = [moments[row[:4]] for row in released(ours)]
    same("due times in order", left, sorted(left))
    same("set aside", set_aside(ours), set_aside(theirs))
    for kinds in EVENTS:
        same("events", events(ours, kinds), events(theirs, kinds))


def check_conserved(subject: Sequencer, oracle: Oracle, offered: int, decided: list[Any], policy: Policy) -> None:
    """Asserts that every message is in exactly one place, and that the counts say so."""
    counts = dict(subject.counts())
    same("counts", counts, oracle.counts())
    same("law of conservation", counts["in"], sum(count for word, count in counts.items() if word != "in"))
    held = [item.value["message"] for group in subject.groups() for item in subject.held(group)]
    if not isinstance(policy, Unordered):
        found = [*decided, *held]
        same("every message once", len(found), offered)
        messages = [one for one in found if not isinstance(one, tuple)]
        same("no message twice", len(messages), len(set(messages)))


def messages_in(outcome: Any) -> list[Any]:
    """All messages that an outcome decides."""
    aside = [message for counter in set_aside(outcome).values() for message in counter.elements()]
    return [row[2] for row in released(outcome)] + aside


def check_replay(
    policy: Policy, parts: list[tuple[list[Any], float | None]], stays: dict[str, Any] | None = None
) -> None:
    """Plays history to the kernel and to the oracle, part by part, and asserts that they agree."""
    begin = comparing(policy) | (stays or {})
    subject, oracle, start = Sequencer(policy, **begin), Oracle(policy, **begin), 0
    for timed, watermark in parts:
        messages = numbered(timed, start)
        start += len(messages)
        ours, theirs = subject.replay(messages, watermark=watermark), oracle.replay(messages, watermark=watermark)
        same("replay", join([ours]), join([theirs]))
        same("counts", dict(subject.counts()), oracle.counts())
        same("views", views(subject, oracle), {group.key: view(group.view()) for group in oracle.groups.values()})
    same("finish", join([subject.finish()]), join([oracle.finish()]))
