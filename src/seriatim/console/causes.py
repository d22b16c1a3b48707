"""Why groups stand still, counted by cause, each with what usually helps and the filter that finds its groups."""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.box import MessageBox
from seriatim.kernel.groups.verbs import helping
from seriatim.operations import groups
from seriatim.operations.groups import Action, ErrorCount, GroupState


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
    """What usually helps groups that stand still for a cause."""
    state = GroupState(one.error) if one.error in list(GroupState) else GroupState.FAULTED
    # Of the groups that are suspended a late message has stopped the fewest.
    return list(helping(state) if state is GroupState.FAULTED else helping(state)[:1])
