"""Writes docs/reference/states.md from two tables: the kernel's, which action fits which state, and the tests', which state leads where.

A test holds the page against what this would write; after a change to the tables run ``python -m scripts.states_page``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from seriatim.box.connection.in_hand import TRANSITIONS
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import ON_GROUPS, VERBS, Action
from tests.models.transitions import Cause, Happening, leads

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "states.md"

_MEANINGS = {
    GroupState.CLOSED: "it has ended: new messages are late, and it holds nothing; or it was closed at once: what it has stays, and can be aborted",
    GroupState.SUSPENDED: 'an operator, a late message (`late="suspend"`) or a suspected restart (`on_restart="suspend"`) has stopped it',
    GroupState.FAULTED: "the handler of its first message failed for good; a complete set whose handler failed is shown as that, too",
    GroupState.LOCKED: "a worker has it in hand",
    GroupState.TIMED_OUT: "it waits for a missing number whose time is over, and that nobody skips by itself",
    GroupState.WAITING: "it waits for a missing number, or for a message that opens it; or its first message is [postponed](worker.md#not-now)",
    GroupState.READY: "nothing stops it",
}  # fmt: skip
_HAPPENINGS = {
    Happening.TAKEN: "a worker takes it",
    Happening.LEFT: "the worker's turn ends",
    Happening.FAULT: "a handler fails for good",
    Happening.HOLE_OPENED: "a number is missing",
    Happening.HOLE_FILLED: "the missing number comes",
    Happening.HOLE_SKIPPED: 'its time is over, and `on_hole` is `"skip"`',
    Happening.HOLE_TIMED_OUT: 'its time is over, and `on_hole` is `"wait"`',
    Happening.LATE_HELD: 'a late message comes, and `late` is `"suspend"`',
    Happening.SET_ENDED: "a set is complete, or its time is over",
}


def page() -> str:
    """The text of the page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from (
        "# The states of a group",
        "",
        "The states, and which action fits which, are drawn from the tables in `seriatim.kernel.groups.states` and `verbs`, by which the box and the",
        "`Sequencer` decide. Where actions and events lead is a description, `tests/models/transitions.py`, with which tests compare",
        "them. A group shows the first of these states that applies to it:",
        "",
        "| state | |",
        "|---|---|",
    )
    for state in GroupState:
        yield f"| `{state}` | {_MEANINGS[state]} |"
    yield from (
        "",
        "While a group is suspended, faulted or closed at once (`close --now`) nothing leaves and none of its clocks runs. Messages that",
        "arrive are taken in all the same, unless the group is closed or closing: then they are late.",
        "",
        "A group that was told to close shows the state that it has, and `closing` beside it; it is `closed` when it holds nothing:",
        "[closing and opening groups](closing.md).",
        "",
        "## What operators do",
        "",
        "An action that doesn't fit is refused with the state and with what is allowed. `suspend` and `resume` of a group that",
        "somebody works on are obeyed at the end of the turn; until then the group shows what was asked for.",
        "`skip_message` of a message that is named takes it out, in any state but `locked`; without a name it is about the message that",
        "stopped the group, and is refused where none did: an operator's suspension isn't lifted by it. `retry` fits also a group whose",
        "message is postponed or waits for its next attempt, or whose [clock was ahead](box-definitions.md#times-of-arrival). A group that somebody works",
        "on and that is suspended only at the end of the turn takes no more than a `locked` one until then, and `resume`. See",
        "[weights, and taking messages out](weights.md).",
        "",
        "| | | takes | on many | in pipelines | role in the console |",
        "|---|---|---|---|---|---|",
    )
    for action in ON_GROUPS:
        verb = VERBS[action]
        takes = ", ".join(f"`{one.name}`" for one in verb.takes)
        marks = " | ".join("yes" if one else "" for one in (verb.in_bulk, verb.in_pipelines))
        yield f"| `{action}` | {verb.meaning} | {takes} | {marks} | `{verb.role}` |"
    yield ""
    yield from _table(tuple(Action), {action: f"`{action}`" for action in Action})
    yield from ("", "## What happens by itself", "")
    yield from _table(tuple(Happening), _HAPPENINGS)
    yield from (
        "",
        "A turn also judges what has come meanwhile: behind it the group shows what that leads to.",
        "",
        "## The same as a picture",
        "",
        "Transitions from a state to itself are left out.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> ready",
    )
    yield from _picture()
    yield "```"
    yield from _deliveries()


def _deliveries() -> Iterator[str]:
    yield from (
        "",
        "# The states of a delivery",
        "",
        "A delivery belongs to the transaction in which it was received. This table is drawn from",
        "`seriatim.box.connection.in_hand`; an event that stands at no state can't happen there.",
        "",
        "| in | when | leads to |",
        "|---|---|---|",
    )
    for state, events in TRANSITIONS.items():
        for event, after in events.items():
            yield f"| `{state.name.lower()}` | {event.value} | `{after.name.lower()}` |"


def _table(causes: tuple[Cause, ...], words: Mapping[Cause, str]) -> Iterator[str]:
    yield "| | in | leads to |"
    yield "|---|---|---|"
    for cause in causes:
        name = words[cause]
        for targets, sources in _grouped(cause).items():
            yield f"| {name} | {_listed(sources)} | {_listed(targets)} |"
            name = ""


def _grouped(cause: Cause) -> dict[tuple[GroupState, ...], list[GroupState]]:
    """From which states it leads to the same ones."""
    found = defaultdict(list)
    for state in GroupState:
        if targets := leads(state, cause):
            found[tuple(one for one in GroupState if one in targets)].append(state)
    return found


def _listed(states: list[GroupState] | tuple[GroupState, ...]) -> str:
    return ", ".join(f"`{one}`" for one in states)


def _picture() -> Iterator[str]:
    causes: tuple[Cause, ...] = (*Action, *Happening)
    for source in GroupState:
        for target in GroupState:
            through = [str(cause) for cause in causes if target in leads(source, cause)]
            if through and source is not target:
                yield f"    {source} --> {target}: {', '.join(through)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
