"""Requests: their correlations, the rows that wait for replies, and the replies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.connection.misuse import HANDLING, Misuse
from seriatim.box.connection.round_trip import OwnConnection, commit_last, is_idle, rows_alone
from seriatim.box.connection.wait_time import patience
from seriatim.box.messages.received import context_of
from seriatim.box.postgres.array_text import written
from seriatim.box.postgres.statements import statement
from seriatim.box.publishing.publish_result import Published
from seriatim.box.publishing.publisher import PATIENCE_S, Publisher
from seriatim.box.publishing.slips import REQUEST
from seriatim.errors import NotFound, RequestFailed, UsageError, is_whole, shown
from seriatim.kernel.values.time import micros
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.storable import checked_text, fits_text
from seriatim.pipeline.types.message import Message, Part, Property, with_context

#: How long a request stays open, and its replies are kept.
KEEP = "1d"
_LONGEST_KEEP_US = micros("30d")
#: The most replies that are read at once.
_MOST_REPLIES = 10_000


@dataclass(frozen=True, slots=True)
class Pending:
    """A request that has no reply yet.

    Args:
        id: its id, under which `MessageBox.reply` finds its replies; it is the correlation that the request carries.
        message_id: the id of the request's message.
        reply: the type of the replies.
        until: when it is over; a reply after that is an ordinary message.
        correlation_id: what the message in hand belonged to, when the request was made; None: no message was in hand.
    """

    id: str
    message_id: str
    reply: str
    until: datetime
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Message):
    """A reply to a request: a message.

    Args:
        id: the id of the request.
        received_at: when the reply was published.
        correlation_id: what the message in hand belonged to, when the request was made; None: no message was in hand. The reply itself
            carries the id of the request as its ``correlation_id``.
    """

    id: str
    received_at: datetime
    correlation_id: str | None = None

    def __post_init__(self) -> None:
        """Check nothing: it was checked when it was published."""


class Request:
    def __init__(self, message: Message, reply: str, keep: float | str, asker: str = "") -> None:
        if not isinstance(message, Message):
            raise Misuse(
                f"{type(message).__name__} is not a message",
                remedy='request one: sq.Message(type="…", body=b"…")',
                argument="message",
            )
        if (given := message.context.get("correlation_id")) is not None:
            raise UsageError(
                f"the correlation_id of a request can't be given: {shown(given, 80)}",
                remedy="leave it out: the box draws one, by which it finds the replies",
                argument="message",
            )
        if message.context.get("unique_key") is not None:
            raise UsageError(
                "the unique_key of a request can't be given",
                remedy="leave it out: a message that waits in its place would answer the earlier request only",
                argument="message",
            )
        if not isinstance(reply, str) or not reply or not fits_text(reply):
            raise UsageError(
                f"{shown(reply, 80)} can't be the type of a reply", remedy='such as reply="price"', argument="reply"
            )
        self._keep_us = micros(keep)
        if not 0 < self._keep_us <= _LONGEST_KEEP_US:
            raise UsageError(
                f"a request can't be kept for {shown(keep)}", remedy="more than 0, and at most 30 days", argument="keep"
            )
        self.message = message
        self._asker = checked_text(asker, "the name of an asker")
        self._reply = reply
        self._id = f"{REQUEST}{os.urandom(16).hex()}"
        self._correlation: str | None = None

    def stamped(self, message: Message) -> Message:
        """Return the message with the id in place of the correlation that it has of the message in hand."""
        own = message.context.get("correlation_id")
        self._correlation = None if own is None else str(own)
        return with_context(message, {**message.context, "correlation_id": self._id})

    def publish(
        self,
        transaction: Transaction,
        message: Message,
        *,
        carried: bool = False,
        in_hand: Sequence[int] = (),
        by_itself: bool = False,
        room_s: float = PATIENCE_S,
        check: Callable[[Published], None] = lambda _: None,
    ) -> Pending:
        """Publish the message, and record the request, or return an earlier one with its id. `by_itself`: commit. `check`: may refuse."""
        published = Publisher(
            transaction.access, self.stamped(message), delay=None, visible_at=None, wait=room_s, own=by_itself,
            unrouted="refuse", carried=carried, in_hand=in_hand, is_request=True,
        ).publish(transaction)  # fmt: skip
        check(published)
        transaction.publish_notices()
        name, own = self.message.message_id, transaction.connection
        given = {
            "request": self._id, "of_message": name, "of_type": self._reply, "correlation": self._correlation,
            "keep": f"{self._keep_us} microseconds", "is_new": not published.left_out, "of_asker": self._asker,
        }  # fmt: skip
        if by_itself and isinstance(own, OwnConnection) and not own.is_pooled:
            row = commit_last(own, (statement("ask", transaction.schema, *given), given))
        else:
            row = transaction.value("ask", **given)
        if row is None:
            raise UsageError(
                f"message {name} was published before, and is no open request", remedy="give a new message_id, or none"
            )
        request_id, reply, until, correlation = row
        if reply != self._reply:
            raise UsageError(
                f"message {name} was requested before, with a reply of type {reply!r}",
                remedy=f"ask for that, or give a new message_id: reply={reply!r}",
                argument="reply",
            )
        _warn_of_one_way(transaction, published.queues.get(name, ()))
        return Pending(request_id, name, reply, datetime.fromisoformat(until), correlation)


def _warn_of_one_way(transaction: Transaction, queues: Sequence[str]) -> None:
    """Log a request that goes over a link by which no reply comes back."""
    known = transaction.access.known.definitions.queues
    links = {at.link for name in queues if name in known and (at := known[name].declared.at) is not None}
    if not links:
        return
    for link in transaction.value("ways_missing", of_links=sorted(links)):
        if transaction.access.told.is_first(("request", link, "")):
            LOG.warning("request_one_way", link=link)


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a caller asks for: the first replies to a request. `asker`: for whom it asks."""

    request_id: str
    count: int
    asker: str

    @classmethod
    def checked(cls, request_id: object, count: object, asker: str) -> Awaited:
        """Check what is asked for; a count of None: as many as come."""
        count = _MOST_REPLIES if count is None else count
        if not is_whole(count, 1, _MOST_REPLIES):
            raise UsageError(
                f"cannot wait for {shown(count)} replies",
                remedy=f"an integer from 1 to {_MOST_REPLIES:,}",
                argument="count",
            )
        if not isinstance(request_id, str) or not fits_text(request_id):
            raise UsageError(
                f"{shown(request_id, 80)} is no id of a request", remedy="give the id of a Pending", argument="id"
            )
        return cls(request_id, count, checked_text(asker, "the name of an asker"))


@dataclass(frozen=True, slots=True)
class Found:
    """What there is of a request. `failed`: it was set aside."""

    pending: Pending
    replies: list[Reply]
    failed: RequestFailed | None

    @property
    def all(self) -> list[Reply]:
        """The replies; those of a request that was set aside, too."""
        if self.failed is not None and not self.replies:
            raise self.failed
        return self.replies

    @property
    def first(self) -> Reply | Pending:
        """The first reply, or what it waits for."""
        return next(iter(self.all), self.pending)


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until nobody has to wait any more, at most a number of seconds."""

    awaited: Awaited
    seconds: float


#: What a caller does next: a call, or a wait without a connection, which gives what there is then; None: look.
Step = Callable[[Access], Any] | Wait


def asked(
    message: Message, reply: str, wait: float | str | None, keep: float | str, asker: str
) -> Generator[Step, Any, Found]:
    until = _end_of(wait)
    pending = yield lambda access: _publish(access, Request(message, reply, keep, asker))
    return (yield from _awaited(Awaited(pending.id, 1, asker), until, is_new=True))


def replied(request_id: str, count: int | None, wait: float | str | None, asker: str) -> Generator[Step, Any, Found]:
    until = _end_of(wait)
    return (yield from _awaited(Awaited.checked(request_id, count, asker), until, is_new=False))


def _end_of(wait: float | str | None) -> float:
    """When a wait is over, on the monotonic clock. A handler, which has a transaction open, may not wait."""
    wait_s = 0.0 if wait is None else patience(wait)
    if wait_s and HANDLING.get():
        raise Misuse(
            "a handler can't wait for a reply: its transaction, or its lease, would stay open",
            remedy="ask by tx.request, and handle the reply as a message of a queue",
            argument="wait",
        )
    return time.monotonic() + wait_s


def _awaited(wanted: Awaited, until: float, *, is_new: bool) -> Generator[Step, Any, Found]:
    """The steps of a wait. `is_new`: the request was made a moment ago, so a first look would be in vain."""
    while True:
        left_s = until - time.monotonic()
        if left_s <= 0 or not is_new:
            found: Found = yield lambda access: _look(access, wanted)
            if left_s <= 0 or found.failed is not None or len(found.replies) >= wanted.count:
                return found
        is_new = False
        waited: Found | None = yield Wait(wanted, left_s)
        if waited is not None:
            return waited


def _publish(access: Access, request: Request) -> Pending:
    with access.transaction() as transaction:
        return request.publish(transaction, request.message, by_itself=True)


def _look(access: Access, wanted: Awaited) -> Found:
    with access.transaction() as transaction:
        found = found_of(transaction, [wanted], None).get(0)
    if found is None:
        raise NotFound(
            f"there is no open request {shown(wanted.request_id, 80)}",
            remedy="it is over, or another role's; or the transaction that made it is not committed",
        )
    return found


def found_of(transaction: Transaction, wanted: Sequence[Awaited], largest: int | None) -> dict[int, Found | None]:
    """What there is of the role's requests, by place; None: not here. `largest`: only what is final, without larger bodies."""
    rows: dict[int, list[Any]] = {}
    for row in _alone(
        transaction, "replies_of", requests=[one.request_id for one in wanted], counts=[one.count for one in wanted],
        askers=[one.asker for one in wanted], largest=largest,
    ):  # fmt: skip
        rows.setdefault(row.place - 1, []).append(row)
    return {place: _found(its) for place, its in rows.items()}


def _alone(transaction: Transaction, name: str, **given: Any) -> list[Any]:
    """The rows of a statement that is a transaction by itself: in one round trip, if the connection needs no settings first."""
    own = transaction.connection
    if isinstance(own, OwnConnection) and is_idle(own) and not own.begins_with_settings:
        return rows_alone(own, (statement(name, transaction.schema, *given, of_rows=True), written(given)))
    rows = transaction.rows(name, **given)
    own.commit()
    return rows


def _found(rows: Sequence[Any]) -> Found | None:
    """A request with its first replies, and its failure if it was set aside."""
    first, failed = rows[0], None
    if first.request_id is None or any(row.is_left for row in rows):
        return None
    if first.failed_in is not None:
        failed = RequestFailed(
            f"the request {first.asked_by} was set aside as {first.disposition}: {first.reason}",
            where=f"queue {first.failed_in!r}",
            remedy="once an operator puts it back, its reply is found under the same id",
            request_id=first.request_id,
        )
    pending = Pending(first.request_id, first.asked_by, first.reply_type, first.until, first.correlation_id)
    return Found(pending, [_reply(row) for row in rows if row.message_id is not None], failed)


def _reply(row: Any) -> Reply:
    context: dict[str, Property] = context_of(row.context, row.property_types)
    parts = tuple(map(Part, row.part_names or (), row.part_content_types or (), row.part_bodies or ()))
    return Reply(
        id=row.request_id, received_at=row.received_at, correlation_id=row.correlation_id, message_id=row.message_id,
        type=row.type, content_type=row.content_type, context=context, body=row.body, parts=parts,
    )  # fmt: skip
