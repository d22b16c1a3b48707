"""Route messages again that were unrouted, or invalid in a queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.definitions.correlation import looking
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.route import Routed, router_of
from seriatim.box.messages.received import stored_message
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.operators.reopen import Reopening
from seriatim.box.publishing.batch import routing_of
from seriatim.box.publishing.sql_arrivals import for_both_regions, without
from seriatim.box.turns.turns import Turns
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Message

#: The most messages of one transaction.
_BATCH = 500


@dataclass(frozen=True, slots=True)
class Resubmitted:
    """The number of `routed` messages, and of messages that are `left` because still no subscription matches."""

    routed: int
    left: int


class _Waiting(NamedTuple):
    """An unrouted message, or one that a queue has set aside as invalid with its number there; with its places in commits and spool."""

    stamp: int
    serial: int
    arrival_id: int
    position: int
    message: Message
    received_at: datetime
    entry_id: int | None


def resubmit(
    access: Access,
    message_ids: Sequence[str] | None = None,
    kind: str | None = None,
    queue: str | None = None,
    by: Operator | None = None,
) -> Resubmitted:
    """Route messages by the present definitions, in order of their tickets, in several transactions."""
    for one in message_ids or ():
        checked_text(one, "a message's id")
    if kind is not None:
        checked_text(kind, "a message's type")
    total = routed = stamp = serial = 0
    while True:
        with access.transaction() as transaction:
            definitions = transaction.definitions()
            queue_id = None if queue is None else definitions.queue(queue).queue_id
            if queue_id is not None and (regional := definitions.regional.get(queue_id)) is not None:
                raise regional.published_here()
            parameters = {
                "queue_id": queue_id,
                "stamp": stamp, "serial": serial, "type": kind, "limit": _BATCH,
                "message_ids": None if message_ids is None else list(message_ids),
            }  # fmt: skip
            rows = transaction.rows("unrouted" if queue is None else "invalid", **parameters)
            waiting = [
                _Waiting(
                    row.stamp, row.serial, row.arrival_id, row.position, stored_message(row), row.received_at,
                    row.entry_id,
                )
                for row in rows
            ]  # fmt: skip
            done = _route(transaction, definitions, waiting, queue_id)
            if by is not None and done is not None and waiting:
                details = {"routed": done, "left": len(waiting) - done}
                log(transaction, by, "resubmit", queue=queue, group=None, details=details)
        if done is None:
            continue  # the definitions have changed meanwhile
        routed, total = routed + done, total + len(waiting)
        if len(waiting) < _BATCH:
            return Resubmitted(routed, total - routed)
        stamp, serial = waiting[-1].stamp, waiting[-1].serial


def _route(
    transaction: Transaction, definitions: Definitions, waiting: Sequence[_Waiting], queue_id: int | None
) -> int | None:
    """Put messages into queues; return the number of routed messages. None if the definitions have changed; then nothing was done."""
    routed, queue_ids = 0, set[int]()
    # A message that is addressed to a queue which has been dropped stays where it is.
    fit = [one for one in waiting if (to := one.message.context.get("to")) is None or to in definitions.queues]
    for moment, some in _batches(definitions, fit):
        found = router_of(definitions).route(
            [one.message for one in some], moment, looking(transaction), bodies=False, carried=True
        )
        if queue_id is not None:
            found = _into(found, queue_id)
        found = without(found, for_both_regions(found, definitions))
        reopening = Reopening.routed(transaction, Turns(transaction), definitions, found)
        parameters = routing_of(found, 0, len(some)) | {
            "arrival_ids": [one.arrival_id for one in some],
            "positions": [one.position for one in some],
        }
        for name in ("contexts", "property_types"):
            parameters[f"new_{name}"] = parameters.pop(name)
        if queue_id is None:
            taken = transaction.value("route_again", **parameters)
        else:
            del parameters["problems"]
            taken = transaction.value("enter_again", entry_ids=[one.entry_id for one in some], **parameters)
        if not taken:
            transaction.connection.rollback()
            return None
        reopening.apply()
        transaction.notice(*found.notices(definitions, [one.message for one in some], again=True))
        routed += sum(one > 0 for one in parameters["destinations"])
        queue_ids.update(found.entries.queue_ids)
    if queue_ids:
        transaction.do("call_all_waiters", of_queues=sorted(queue_ids))
    return routed


def _into(routed: Routed, queue_id: int) -> Routed:
    """Only the entries that this queue can order: the other queues got theirs before."""
    entries = routed.entries
    pairs = enumerate(zip(entries.queue_ids, entries.problems, strict=True))
    kept = [at for at, (its_queue, problem) in pairs if its_queue == queue_id and problem is None]
    return replace(routed, entries=entries.take(kept))


def _batches(definitions: Definitions, waiting: Sequence[_Waiting]) -> Iterator[tuple[datetime | None, list[_Waiting]]]:
    """The messages in batches, with the time at which they were received if a filter reads it."""
    if not router_of(definitions).needs_time:
        if waiting:
            yield None, list(waiting)
        return
    for moment, some in groupby(waiting, key=lambda one: one.received_at):
        yield moment, list(some)
