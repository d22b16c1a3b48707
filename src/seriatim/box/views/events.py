"""Read the events of groups: as a list, newest first; and in an order in which a reader misses none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from seriatim.box.connection.access import Begin, Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.views import listing
from seriatim.box.views.groups import GroupFilter, GroupView, groups_of
from seriatim.box.views.listing import Listing, When
from seriatim.errors import UsageError, is_whole, shown
from seriatim.kernel.values.outcome import EventKind
from seriatim.pipeline.text.counted import numbers_text

#: The words of the kinds.
KINDS = tuple(kind.word for kind in EventKind)
#: The most positions that one transaction gives.
_PLACED = 10_000
_LAST_POSITION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class EventView:
    """An event of a group.

    Args:
        event_id: its number; of one group in the order in which they happened; None: a hole that is open now, of a queue that keeps
            no such events.
        position: its place in the order in which `events_after` reads; None: nobody has read so far.
        queue: the queue's name; None if the queue was dropped.
        group: the group's key.
        incarnation: the group's incarnation.
        kind: ``hole_opened``, ``hole_overdue``, ``hole_skipped``, ``hole_filled``, ``timed_out``, ``closed``, ``suspended``,
            ``resumed``, ``conflict``, ``restart_suspected``, ``void`` or ``restored``.
        first: the first number that it is about, as the producer numbered it; microseconds if the queue orders by time; None:
            it is about no numbers.
        last: the last number.
        count: how many messages or numbers it stands for; 1 if it isn't counted.
        at: when it happened.
        recorded_at: when it was written down. A hole that is due is skipped by the first receiver that comes, or `tick`.
        operation_id: the number in the operator log of the action that caused it; None: no operator did.
        action: that action.
        actor: the action's actor.
        reason: the actor's reason.
    """

    event_id: int | None
    position: int | None
    queue: str | None
    group: str
    incarnation: int
    kind: str
    first: int | None
    last: int | None
    count: int
    at: datetime
    recorded_at: datetime
    operation_id: int | None
    action: str | None
    actor: str | None
    reason: str | None

    @property
    def numbers(self) -> str | None:
        """The numbers that it is about, as in ``7..9``; None if there are none."""
        return numbers_text(self.first, self.last)

    @property
    def by(self) -> str | None:
        """The actor and the reason; None if no operator caused it."""
        return None if self.actor is None else f"{self.actor}: {self.reason}"


@dataclass(frozen=True, slots=True)
class EventFilter(Listing):
    queue: str | None = listing.queue("events in this queue")
    _: KW_ONLY
    group: str | None = listing.group("events of the group with this key")
    key: str | None = listing.key("events of groups with a key that matches")
    kinds: str | Collection[str] | None = listing.choice(
        "events of this kind", KINDS, "a kind of event", many=True, name="kind", label="Event", of="kind"
    )
    since: When | None = listing.since("events")
    until: When | None = listing.until("events")
    before: int | None = listing.place(
        lambda one: one.event_id, what="Go on with a list: events older than this one.", metavar="ID"
    )
    after: int | None = listing.place(
        lambda one: one.position,
        what="Read as an exporter does: the events behind this position, oldest first; 0 begins. Only with a queue, kinds and a limit.",
        metavar="POSITION",
    )
    limit: int = listing.limit("events")


@dataclass(frozen=True, slots=True)
class KindCount:
    """How often events of a kind are in a list.

    Args:
        kind: the kind.
        events: how many events.
        groups: in how many groups.
        first: the time of the earliest one.
        last: the time of the latest one.
    """

    kind: str
    events: int
    groups: int
    first: datetime
    last: datetime


def events_of(transaction: Transaction, chosen: EventFilter) -> list[EventView]:
    return transaction.rows("events", EventView, **chosen.parameters())


def open_hole_of(view: GroupView) -> EventView | None:
    if view.hole_since is None or view.hole_through is None:
        return None
    facts = (view.next, view.hole_through, 1, view.hole_since, view.hole_since, None, None, None, None)
    return EventView(None, None, view.queue, view.group, view.incarnation, EventKind.HOLE_OPENED.word, *facts)


def with_open_holes(transaction: Transaction, chosen: EventFilter) -> list[EventView]:
    """List events, newest first, and begin with the holes that are open now, unless they are among the events."""
    kinds = chosen.parameters()["kinds"]
    if chosen.before is not None or (kinds is not None and EventKind.HOLE_OPENED.word not in kinds):
        return events_of(transaction, chosen)
    keys = None if chosen.group is None else [chosen.group]
    where = GroupFilter(
        chosen.queue, key=chosen.key, since=chosen.since, until=chosen.until, state=("waiting", "timed_out"),
        limit=max(chosen.limit // 2, 1),
    )  # fmt: skip
    holes = [one for one in map(open_hole_of, groups_of(transaction, where, keys)) if one is not None]
    found = events_of(transaction, chosen)
    known = {(one.queue, one.group, one.at) for one in found if one.kind == EventKind.HOLE_OPENED.word}
    holes = [one for one in holes if (one.queue, one.group, one.at) not in known][
        : max(chosen.limit - 1, 0 if found else 1)
    ]
    is_full = len(found) + len(holes) >= chosen.limit
    found = found[: chosen.limit - len(holes)]
    # A page that is full goes on behind its last event, which therefore stays last.
    last = found[-1:] if is_full else []
    return [*sorted([*holes, *found[: len(found) - len(last)]], key=lambda one: one.at, reverse=True), *last]


def events_of_group(transaction: Transaction, queue_id: int, group: str, limit: int) -> list[EventView]:
    return transaction.rows("events_of_group", EventView, queue_id=queue_id, group_key=group, limit=limit)


def read_events(
    begin: Begin, after: int, *, queue: str | None, kinds: str | Collection[str] | None, limit: int
) -> list[EventView]:
    """Give positions to committed events that have none, and list at most `limit` events behind a position, in their order."""
    if not is_whole(after, 0, _LAST_POSITION):
        raise UsageError(
            f"{shown(after)} is not a position", remedy="the position of the last event that was read, or 0"
        )
    wanted = EventFilter(queue, kinds=kinds, limit=limit).parameters() | {"after": after}
    while True:
        with begin() as transaction:
            more = transaction.value("place_events", at_most=_PLACED)
            rows = transaction.rows("events_after", EventView, **wanted)
        if len(rows) == limit or not more:
            return rows


def skips_of(
    transaction: Transaction, queue: BoxQueue, group: str, numbers: Collection[int]
) -> Mapping[int, EventView]:
    if not numbers:
        return {}
    parameters = {
        "queue": queue.declared.name, "queue_id": queue.queue_id, "group_key": group, "numbers": sorted(numbers),
    }  # fmt: skip
    rows = transaction.rows("skips_of", dict, **parameters)
    return {row.pop("number"): EventView(**row) for row in rows}
