"""Messages with their numbers, and which of them belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.route import Routed
from seriatim.errors import UsageError, shown
from seriatim.kernel.regions.votes import NO_NUMBER
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.pipeline.types.message import Message

_NO_SEQUENCE = REASONS[Reason.SEQUENCE_MISSING]


@dataclass(frozen=True, slots=True, order=True)
class SessionNumber:
    queue: str
    session: str
    number: int


_Placed = TypeVar("_Placed")


def by_queue(items: Iterable[_Placed], place_of: Callable[[_Placed], SessionNumber]) -> dict[str, list[_Placed]]:
    found: dict[str, list[_Placed]] = {}
    for item in items:
        found.setdefault(place_of(item).queue, []).append(item)
    return found


@dataclass(frozen=True, slots=True)
class Numbered:
    """A message with its numbers, one in each of its queues."""

    message: Message
    places: tuple[SessionNumber, ...]


def places_of(routed: Routed, definitions: Definitions, queue_ids: Iterable[int]) -> list[tuple[SessionNumber, ...]]:
    names = {bound.queue_id: name for name, bound in definitions.queues.items()}
    ours, messages, entries = frozenset(queue_ids), routed.typed.messages, routed.entries
    by_message: list[list[SessionNumber]] = [[] for _ in messages]
    for place, queue_id, group, sequence, problem in zip(
        entries.places, entries.queue_ids, entries.groups, entries.sequences, entries.problems, strict=True
    ):
        queue = names[queue_id]
        where = f"message {messages[place].message_id}, queue {queue!r}"
        if queue_id not in ours:
            raise UsageError(
                "the queue isn't one of the regions: it would get the message in both boxes",
                where=where,
                remedy=f"RegionalQueue({queue!r}, …), or lead the message elsewhere",
            )
        if problem is not None and not (sequence is None and group and problem == _NO_SEQUENCE):
            raise UsageError(
                f"the message is invalid there: {problem}",
                where=where,
                remedy=f"give it its session ({definitions.queues[queue].declared.group.by!r}) and a number "
                f"({definitions.queues[queue].declared.sequence!r})",
            )
        by_message[place].append(SessionNumber(queue, str(group), NO_NUMBER if sequence is None else sequence))
    for message, places, wrong in zip(messages, by_message, routed.typed.problems, strict=True):
        if not places:
            why = f": {wrong}" if wrong else ", because no subscription matches it"
            raise UsageError(
                f"the message would reach no queue of the regions{why}",
                where=f"message {message.message_id}",
                remedy="Subscription(…, to=a RegionalQueue)",
            )
    _check_once(messages, by_message)
    return [tuple(sorted(places)) for places in by_message]


def _check_once(messages: Sequence[Message], by_message: Sequence[Sequence[SessionNumber]]) -> None:
    seen: dict[SessionNumber, Message] = {}
    for message, places in zip(messages, by_message, strict=True):
        for place in places:
            if place.number != NO_NUMBER and (other := seen.setdefault(place, message)) is not message:
                raise UsageError(
                    f"two messages have the number {place.number}: {shown(other.message_id, 80)} and "
                    f"{shown(message.message_id, 80)}",
                    where=f"queue {place.queue!r}, session {shown(place.session, 80)}",
                    remedy="give each message of a session its own number",
                )


def units_of(all_places: Sequence[Sequence[SessionNumber]]) -> list[int]:
    """Return each message's unit, from 0. Messages of a session are one unit, and so are all that share a session with them."""
    parent: dict[tuple[str, str], tuple[str, str]] = {}

    def root(key: tuple[str, str]) -> tuple[str, str]:
        while (above := parent.setdefault(key, key)) != key:
            parent[key] = key = parent[above]
        return key

    for places in all_places:
        first = root((places[0].queue, places[0].session))
        for place in places[1:]:
            parent[root((place.queue, place.session))] = first
    numbers: dict[tuple[str, str], int] = {}
    return [numbers.setdefault(root((places[0].queue, places[0].session)), len(numbers)) for places in all_places]
