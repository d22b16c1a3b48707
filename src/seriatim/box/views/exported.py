"""Messages with their bodies, to edit them outside of the box. They are read in portions, never all at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.messages.received import context_of, dialog_of
from seriatim.box.views.message_places import MessageFilter
from seriatim.pipeline.types.message import Property

#: How many rows without bodies are fetched at once.
_PAGE = 1_000
#: The most bytes of bodies that are read at once; one larger body is read alone.
_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """A message in a queue, with its body and properties as they are handed out next, an operator's edits included."""

    queue: str | None
    #: The group's key; None if it has no group.
    group: str | None
    message_id: str
    #: The number of its entry in the queue; None if it is unrouted.
    entry_id: int | None
    status: str
    #: Its position in its group, as its producer numbered it; microseconds if the queue orders by time.
    sequence: int | None
    attempt: int
    #: The error at which its handler failed last in that queue, or the reason why it was set aside; None: neither.
    error: str | None
    type: str
    content_type: str | None
    context: Mapping[str, Property]
    body: bytes = field(repr=False)
    #: The file and line that it was read from, for errors.
    where: str = field(default="", compare=False)


def exported(
    transaction: Transaction, chosen: MessageFilter, entries: Mapping[str, Sequence[int]] | None = None
) -> Iterator[ExportedMessage]:
    """Read messages with their bodies, oldest first; a message in two queues comes twice."""
    only: dict[str, list[Any] | None] = {"group_keys": None, "entry_ids": None}
    if entries is not None:
        only = {"group_keys": list(entries), "entry_ids": [entry_id for each in entries.values() for entry_id in each]}
    for page in transaction.portions("places_to_export", _PAGE, **chosen.parameters(), **only):
        for rows in _by_size(page):
            columns = {
                "arrival_ids": [row.arrival_id for row in rows],
                "positions": [row.position for row in rows],
                "entry_ids": [row.entry_id for row in rows],
            }
            bodies = {stored.place: stored for stored in transaction.rows("bodies_to_export", **columns)}
            for at, row in enumerate(rows, 1):
                if at not in bodies:
                    continue  # it was done and deleted meanwhile
                if bodies[at].body is None:  # a role sees its heads in one queue, and bodies in another
                    transaction.check_sight("see_bodies", queue=row.queue)
                yield _message(row, bodies[at])


def _by_size(page: Sequence[Any]) -> Iterator[list[Any]]:
    """Cut rows where their bodies together would be too large."""
    portion: list[Any] = []
    size = 0
    for row in page:
        if portion and size + (row.body_bytes or 0) > _BYTES:
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += row.body_bytes or 0
    if portion:
        yield portion


def _message(row: Any, stored: Any) -> ExportedMessage:
    context = context_of(stored.context, stored.property_types)
    dialog_of(context, row.type)  # which is no property
    return ExportedMessage(
        row.queue,
        row.group,
        row.message_id,
        row.entry_id,
        row.status,
        row.sequence,
        row.attempt,
        row.error or row.reason,
        row.type,
        stored.content_type,
        context,
        stored.body,
    )
