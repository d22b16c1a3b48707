"""What helps a message that stands still: the action on its group, or on it alone, as its pages show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from seriatim.console.page import Asked
from seriatim.errors import UsageError
from seriatim.kernel.groups.verbs import ON_GROUPS, VERBS
from seriatim.operations import dead_letters, groups
from seriatim.operations.dead_letters import DeadLetter
from seriatim.operations.groups import Action, GroupView
from seriatim.operations.messages import Placed, Stored

#: A message that is in more queues than that is mended on the pages of its groups.
_MOST = 5
#: Where a message can stop its group, or wait by itself.
_STOPS = ("arrived", "queued", "held", "faulted")


@dataclass(frozen=True, slots=True)
class OfGroup:
    """A group that the message stops: its `view`, `why` it stands still, the `best` action, and the token of what was `seen`."""

    view: GroupView
    why: str
    best: Action
    seen: str


@dataclass(frozen=True, slots=True)
class Mending:
    groups: Sequence[OfGroup] = field(default=())
    #: The queues in which it is faulted by itself, or waits for its next attempt.
    alone: Sequence[str] = field(default=())
    #: The queues and groups in which it is faulted by itself, and can be skipped.
    skipped: Sequence[tuple[str, str]] = field(default=())
    letters: Sequence[DeadLetter] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.groups or self.alone or self.letters)


def mending_of(asked: Asked, message: Stored, places: Sequence[Placed]) -> Mending:
    if not (asked.may("mend") or asked.may("discard")):
        return Mending()
    found, alone, skipped = [], [], []
    for one in places[:_MOST]:
        if one.queue is None or one.status not in _STOPS:
            continue
        if one.group is None or not _has_state(asked, one.queue, one.group):
            if (one.status == "faulted" or _waits(asked, one)) and asked.may("mend"):
                alone.append(one.queue)
                if one.status == "faulted" and one.group is not None:
                    skipped.append((one.queue, one.group))
        elif (stopped := _of_group(asked, one.queue, one.group, message.message_id)) is not None:
            found.append(stopped)
    is_dead = any(one.status == "dead" for one in places)
    return Mending(found, alone, skipped, dead_letters.of_message(asked.box, message) if is_dead else ())


def _waits(asked: Asked, one: Placed) -> bool:
    """Whether it waits for its next attempt, or is postponed."""
    was_tried = one.error is not None or one.postponed_until is not None
    return was_tried and one.visible_at is not None and one.visible_at > asked.looks.now()


def _has_state(asked: Asked, queue: str, group: str) -> bool:
    return asked.box.definitions().queue(queue).declared.policy_of(group).name != "unordered"


def _of_group(asked: Asked, queue: str, group: str, message_id: str) -> OfGroup | None:
    try:
        it = groups.standing(asked.box, queue, group)
    except UsageError:
        return None
    if it.blocks is None or it.blocks.message_id != message_id:
        return None
    able = (one for one in it.helps if one in it.allowed and one in ON_GROUPS and asked.may(VERBS[one].role))
    best = next(able, None)
    return None if best is None else OfGroup(it.view, it.why, best, groups.seen_of(it.view))
