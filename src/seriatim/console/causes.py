"""Why groups stand still, counted by cause, each with what usually helps and the filter that finds its groups; and what an action costs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.kernel.groups.verbs import VERBS, helping
from seriatim.operations import groups
from seriatim.operations.groups import Action, ErrorCount, GroupState
from seriatim.pipeline.text.counted import counted


def causes_of(box: MessageBox, queue: str | None = None) -> list[ErrorCount]:
    """Return the causes that stop groups, of a queue or of all, the most frequent first, without holes that have just opened."""
    return groups.groups_by_error(box, queue, standing=True)


def filter_of(one: ErrorCount, *, every: bool = False) -> dict[str, str]:
    """The filter for the groups of a cause; `every`: also of those whose holes have just opened."""
    if one.error == GroupState.WAITING and not every:
        return {"state": one.error, "standing": "yes"}
    return {"state": one.error} if one.error in list(GroupState) else {"error_class": one.error}


def failures_in(causes: Iterable[tuple[ErrorCount, object]]) -> int:
    """At how many errors handlers have failed, of causes with their filters."""
    return sum(one.error not in list(GroupState) for one, _ in causes)


def actions_of(one: ErrorCount) -> list[Action]:
    state = GroupState(one.error) if one.error in list(GroupState) else GroupState.FAULTED
    # Of the groups that are suspended a late message has stopped the fewest.
    return list(helping(state) if state is GroupState.FAULTED else helping(state)[:1])


def costs_of(action: Action, view: Any, blocks: Any) -> str:
    """What an action takes away from a group (its view, and the message that stopped it), for people to read before they confirm. Empty:
    nothing is lost by it, and one button does it.
    """
    message = "The message that stopped it"
    if blocks is not None:
        number = "" if blocks.sequence is None else f", sequence {blocks.sequence}"
        message = f"Message …{blocks.message_id[-8:]} ({blocks.type}{number})"
    messages = counted(view.held + getattr(view, "queued", 0), "held or queued message")
    return VERBS[action].costs.format(group=view.group, messages=messages, message=message)
