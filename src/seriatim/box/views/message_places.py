"""Find messages: the queues that have them, held or set aside with the reason, or unrouted. Reads without locks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.messages.received import context_of
from seriatim.errors import UsageError, shown
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Part, Property, Ticket

__all__ = ["STATUSES", "Placed", "Stored", "check_one_space", "message_of", "places_of"]

#: What a message can be in a queue, or instead of it.
STATUSES = (
    *("arrived", "held", "queued", "in_hand"),
    *("late", "duplicate", "invalid", "rejected", "dead"),
    *("done", "unrouted"),
)


@dataclass(frozen=True, slots=True)
class Placed:
    """A message in one queue, or one that is unrouted.

    Args:
        message_id: its id.
        type: its type.
        location: where it was received.
        epoch: of its ticket.
        number: of its ticket.
        queue: the queue's name; None where it is unrouted.
        group: the group's key; None where it has none.
        status: one of `STATUSES`.
        reason: why it was set aside, or isn't what its type says.
        sequence: its position in its group, as its producer numbered it; microseconds where the queue goes by time.
        ordinal: its position among all that left its group.
        priority: 1 to 10.
        attempt: how often it has been handed out, as far as the box was told.
        visible_at: the moment before which it isn't handed out.
        waits: whether only subscriptions that aren't started have collected it.
        subscriptions: their names.
        received_at: when it was published.
        since: when it was set aside, done, or found to be unrouted.
        body_bytes: how long its body is.
        parts: how many parts it has beside it.
        id_space: where its id is compared: that of the role that published it; ``""``: the owner's.
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
    body_bytes: int
    parts: int
    id_space: str = ""


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


def places_of(
    transaction: Transaction,
    *,
    queue: str | None = None,
    group: str | None = None,
    status: str | None = None,
    kind: str | None = None,
    message_id: str | None = None,
    id_space: str | None = None,
    limit: int | None = None,
) -> list[Placed]:
    """Where messages are, oldest first: of one queue, group, status, type, id or id space; at most `limit`.

    Raises:
        UsageError: not a status, or a group, a type, an id or a limit that can't be.
    """
    if status is not None and status not in STATUSES:
        raise UsageError(f"{shown(status)} is not a status", remedy=f"one of {', '.join(STATUSES)}")
    for given, what in ((group, "a group's key"), (kind, "a message's type"), (message_id, "a message's id")):
        if given is not None:
            checked_text(given, what)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 0 <= limit < 2**63):
        raise UsageError(f"cannot list {shown(limit)} messages", remedy="a whole number from 0")
    parameters: dict[str, Any] = {
        "queue": queue, "group": group, "status": status, "type": kind, "message_id": message_id,
        "id_space": id_space, "limit": limit,
    }  # fmt: skip
    return transaction.rows("places", Placed, **parameters)


def check_one_space(message_id: str, spaces: Collection[str]) -> None:
    """Refuse an id that messages of several id spaces have.

    Raises:
        UsageError: names the id spaces.
    """
    if len(spaces) > 1:
        named = ", ".join(map(repr, sorted(spaces)))
        what = f"several messages have the id {message_id!r}, in the id spaces {named}"
        raise UsageError(what, remedy="give its id_space=…, or --id-space")


def message_of(transaction: Transaction, message_id: str, id_space: str | None = None) -> Stored:
    """A message with its body and parts; the newest, if it was published again after its id was forgotten.

    Raises:
        UsageError: the box has none of that id, or in several id spaces, and none is named.
    """
    checked_text(message_id, "a message's id")
    rows = transaction.rows("message", message_id=message_id, id_space=id_space)
    check_one_space(message_id, {row.id_space for row in rows})
    if not rows:
        raise UsageError(
            f"there is no message {message_id!r}", remedy="it never existed, or it is done and was deleted"
        )
    (row,) = rows
    parts: tuple[Part, ...] = ()
    if row.parts:
        found = transaction.rows("message_parts", arrival_id=row.arrival_id, position=row.position)
        parts = tuple(Part(*one) for one in found)
    return Stored(
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
