"""Find messages: the queues that have them, held or set aside with the reason, or unrouted. Reads without locks."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.messages.received import context_of
from seriatim.box.views import listing
from seriatim.box.views.groups import postponement_of
from seriatim.box.views.listing import Listing, Page, When, whole
from seriatim.errors import NotFound, UsageError
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Part, Property, Ticket

#: The states of a message in a queue, or outside of one.
STATUSES = (
    *("arrived", "held", "queued", "in_hand", "faulted"),
    *("late", "duplicate", "invalid", "rejected", "dead", "void"),
    *("done", "unrouted"),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A message in one queue, or an unrouted message.

    Args:
        message_id: its id.
        type: its type.
        location: the location that received it.
        epoch: the epoch of its ticket.
        number: the number of its ticket.
        queue: the queue's name; None if it is unrouted.
        group: the group's key; None if it has no group.
        status: one of `STATUSES`.
        reason: the reason why it was set aside or is unrouted.
        sequence: its position in its group, as its producer numbered it; microseconds if the queue orders by time.
        ordinal: its position among the released messages of its group.
        priority: 1 to 10.
        attempt: the number of times it was handed out, as far as the box knows.
        visible_at: the earliest time at which it is handed out.
        waits: whether it waits because all subscriptions that collected it are stopped.
        subscriptions: the names of the subscriptions that collected it.
        received_at: when it was published.
        since: the time when it was set aside, done, or found to be unrouted.
        body_bytes: the length of its body; None in what `find` found, for a role that does not see bodies.
        parts: the number of its attachments.
        id_space: the id space of its publisher's role; ``""``: the owner's.
        error: the error at which its handler failed last in that queue; None if none failed.
        postponed: how many times it was postponed; None: never, or it isn't in a queue any more.
        postponed_until: the earliest time at which it is handed out, if it was postponed until then.
    """

    message_id: str
    type: str
    location: str
    epoch: int
    number: int
    queue: str | None
    group: str | None
    status: str
    reason: str | None
    sequence: int | None
    ordinal: int | None
    priority: int | None
    attempt: int
    visible_at: datetime | None
    waits: bool
    subscriptions: list[str]
    received_at: datetime
    since: datetime | None
    body_bytes: int | None
    parts: int
    id_space: str = ""
    error: str | None = None
    postponed: int | None = None
    postponed_until: datetime | None = None

    @property
    def postponement(self) -> str | None:
        """Until when it is postponed, and how many times it was; None if it isn't postponed."""
        return postponement_of(self.postponed_until, self.postponed)


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as the box keeps it: its fields, its ticket, when it was published, its parts, and its id space."""

    message_id: str
    type: str
    ticket: Ticket
    content_type: str | None
    context: Mapping[str, Property]
    body: bytes = field(repr=False)
    received_at: datetime
    parts: tuple[Part, ...] = ()
    id_space: str = ""


@dataclass(frozen=True, slots=True)
class MessageFilter(Listing):
    _: KW_ONLY
    queue: str | None = listing.queue("messages in this queue")
    group: str | None = listing.group("messages of groups with this key")
    status: str | None = listing.choice("messages in this status", STATUSES, "a status", aliases={"failed": "faulted"})
    message_type: str | None = listing.text("messages of this type", noun="a message's type", name="type")
    error: str | None = listing.error("messages with this text in their reason, or in the last error of their handler")
    since: When | None = listing.since("messages published", label="Published since")
    until: When | None = listing.until("messages published")
    properties: Mapping[str, object] | None = listing.properties("messages")
    message_id: str | None = listing.given("Only the message with this id.")
    after: tuple[int, int] | None = listing.place(
        lambda one: one, "after_arrival", "after_position", reads=(whole, whole)
    )
    limit: int | None = listing.limit("messages", None, most=2**63 - 1, least=0, shown=100)
    seconds: float = listing.given(
        "A page isn't read for longer than this; it may have fewer rows than its limit therefore.", 0.4
    )


def places_of(transaction: Transaction, chosen: MessageFilter) -> list[Placed]:
    return transaction.rows("places", Placed, **chosen.parameters())


#: Of how many messages a statement reads the places, and how many a page reads at most.
_MOST_AT_ONCE, _MOST_READ = 2_000, 20_000
#: The table that has the messages of a status; all others are found through the stored messages.
_TABLE_OF = {
    **dict.fromkeys(("arrived", "held", "queued", "in_hand", "faulted"), "entries"),
    **dict.fromkeys(("late", "duplicate", "invalid", "rejected", "dead", "void"), "aside"),
    "done": "history",
    "unrouted": "unrouted",
}


def places_page(transaction: Transaction, chosen: MessageFilter) -> Page[Placed, tuple[int, int]]:
    """A page of messages with their places, in the order in which they came in; it reads a bounded number of messages."""
    placeds: list[Placed] = []
    limit = chosen.limit or 1
    place, read, most = chosen.after or (-1, -1), 0, limit
    among, end = _TABLE_OF.get(chosen.status or "", "spool"), time.monotonic() + chosen.seconds
    while True:
        parameters = {"among": among, "after_arrival": place[0], "after_position": place[1], "most": most}
        rows = transaction.rows("places_after", dict, **chosen.parameters() | parameters)
        if not rows:
            return Page(placeds, None, read)
        for row in rows:
            if row["message_id"] is None:
                continue
            if len(placeds) >= limit and (row["arrival_id"], row["position"]) != place:
                return Page(placeds, place, read)
            place = row["arrival_id"], row["position"]
            placeds.append(Placed(**{name: value for name, value in row.items() if name not in _OF_PAGE}))
        place, read = (rows[0]["last_arrival"], rows[0]["last_position"]), read + rows[0]["read"]
        if rows[0]["read"] < most:
            return Page(placeds, None, read)
        if len(placeds) >= limit or read >= _MOST_READ or time.monotonic() >= end:
            return Page(placeds, place, read)
        most = min(most * 8, _MOST_AT_ONCE)


_OF_PAGE = frozenset({"last_arrival", "last_position", "read", "arrival_id", "position"})


def places_at(transaction: Transaction, arrival_id: int, position: int) -> list[Placed]:
    parameters = {"among": "one", "after_arrival": arrival_id, "after_position": position, "most": 1}
    rows = transaction.rows("places_after", dict, **MessageFilter().parameters() | parameters)
    return [
        Placed(**{name: value for name, value in row.items() if name not in _OF_PAGE})
        for row in rows
        if row["message_id"] is not None
    ]


def check_one_space(message_id: str, spaces: Collection[str]) -> None:
    if len(spaces) > 1:
        named = ", ".join(map(repr, sorted(spaces)))
        problem = f"several messages have the id {message_id!r}, in the id spaces {named}"
        raise UsageError(problem, remedy="give its id_space=…, or --id-space")


def message_of(transaction: Transaction, message_id: str) -> Stored:
    """A message with its body and parts; the newest, if it was published again after its id was forgotten."""
    return _found(transaction, message_id, None)[0]


def message_with_places(
    transaction: Transaction, message_id: str, id_space: str | None = None
) -> tuple[Stored, list[Placed]]:
    """A message, and the queues that have it; errors as for `message_of`."""
    message, at = _found(transaction, message_id, id_space)
    return message, places_at(transaction, *at)


def _found(transaction: Transaction, message_id: str, id_space: str | None) -> tuple[Stored, tuple[int, int]]:
    parameters = {"message_id": checked_text(message_id, "a message's id"), "id_space": id_space}
    rows = transaction.rows("recent_message", **parameters) or transaction.rows("message", **parameters)
    check_one_space(message_id, {row.id_space for row in rows})
    if not rows:
        raise NotFound(f"there is no message {message_id!r}", remedy="it never existed, or it is done and was deleted")
    (row,) = rows
    if row.body is None:  # a role sees its heads in one queue, and bodies in another
        (first, *_) = places_at(transaction, row.arrival_id, row.position)
        transaction.check_sight("see_bodies", queue=first.queue)
    parts: tuple[Part, ...] = ()
    if row.parts:
        part_rows = transaction.rows("message_parts", arrival_id=row.arrival_id, position=row.position)
        parts = tuple(Part(*part) for part in part_rows)
    stored = Stored(
        row.message_id,
        row.type,
        Ticket(row.location, row.epoch, row.number),
        row.content_type,
        context_of(row.context, row.property_types),
        row.body,
        row.received_at,
        parts,
        row.id_space,
    )
    return stored, (row.arrival_id, row.position)
