"""Publish failures as messages, in the transaction that records them.

Only this module publishes for the box itself. It looks for subscribers of failures once per call, however many notices
there are. If a failure can't be published, that is logged and nothing is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.route import router_of
from seriatim.box.messages.received import context_of, dialog_of
from seriatim.box.notice import (
    EntriesSetAside,
    EntryFailed,
    HolePassed,
    KeptOut,
    MessageFailed,
    Notice,
    conflict,
    dead,
    invalid,
    unrouted,
)
from seriatim.box.publishing.publisher import Publisher
from seriatim.errors import SeriatimError
from seriatim.kernel.values.outcome import Disposition, EventKind
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.box_properties import TRACE
from seriatim.pipeline.types.failure_message import FAILURE, Failed, failure_of
from seriatim.pipeline.types.message import Message, Part
from seriatim.pipeline.types.taken_from import SOURCE

_CLASSES = {EventKind.TIMED_OUT: "HoleTimedOut", EventKind.HOLE_SKIPPED: "HoleSkipped"}
#: The failure of a message that was set aside, by its disposition; other dispositions are dead.
_FAILURES = {Disposition.INVALID.word: invalid, Disposition.DUPLICATE.word: conflict}
#: How many failures are published together: as many as a pipeline's batch has messages may occur at once.
_PORTION = 5_000


def publish(transaction: Transaction, notices: Sequence[Notice]) -> None:
    """Publish the notices to which a queue subscribes; a failure of a failure is only logged."""
    known = transaction.access.known
    definitions = known.definitions if known.definitions.version >= 0 else known.read(transaction)
    if not router_of(definitions).wants_failures:
        return
    _publish(transaction, list(chain.from_iterable(_failed(transaction, notices))))
    for notice in notices:
        if isinstance(notice, KeptOut):
            for portion in _kept_out(transaction, notice):
                _publish(transaction, portion)


def _publish(transaction: Transaction, failed: Sequence[MessageFailed]) -> None:
    for failure in failed:
        if failure.message.type == FAILURE:
            LOG.error(
                "failure_of_failure",
                message_id=failure.message.message_id,
                error=failure.what.error,
                _error_class=failure.what.error_class,
            )
    definitions = transaction.access.known.definitions
    whole = _with_bodies(transaction)
    failures = [
        failure_of(failure.message, failure.what, with_body=failure.what.queue in whole)
        for failure in failed
        if failure.message.type != FAILURE
    ]
    if (declared := definitions.types.get(FAILURE)) is not None:  # then it has no other properties
        known = {*declared.types(), "correlation_id", "location", "parent_id", *TRACE, *SOURCE}
        failures = [
            replace(failure, context={name: value for name, value in failure.context.items() if name in known})
            for failure in failures
        ]
    try:
        wanted = set(router_of(definitions).route(failures).entries.places) if failures else ()
        if wanted:
            with transaction.connection.transaction():
                chosen = [failures[at] for at in sorted(wanted)]
                Publisher(
                    transaction.access, chosen, delay=None, visible_at=None, wait=0, own=False, unrouted="keep"
                ).publish(transaction)
    except SeriatimError as error:
        LOG.error("failure_not_published", error=error)


def _with_bodies(transaction: Transaction) -> dict[str | None, int]:
    """The queues whose failures have the bodies of the failed messages, with their ids."""
    queues = transaction.access.known.definitions.queues
    return {name: one.queue_id for name, one in queues.items() if one.declared.keep.failures == "with_body"}


def _failed(transaction: Transaction, notices: Sequence[Notice]) -> Iterable[list[MessageFailed]]:
    """Each failed message with its notice, except messages that are kept out."""
    yield [notice for notice in notices if isinstance(notice, MessageFailed)]
    faults = {notice.entry_id: notice.what for notice in notices if isinstance(notice, EntryFailed)}
    messages = _messages(transaction, list(faults))
    yield [
        MessageFailed(
            message.message, replace(faults[entry_id], ordinal=message.what.ordinal, attempts=message.what.attempts)
        )
        for entry_id, message in messages.items()
    ]
    yield _of_holes(transaction, [notice for notice in notices if isinstance(notice, HolePassed)])
    aside = [notice for notice in notices if isinstance(notice, EntriesSetAside)]
    entry_ids = [entry_id for notice in aside for entry_id in notice.entry_ids]
    messages = _messages(transaction, entry_ids)
    if (unknown := len(entry_ids) - len(messages)) > 0:
        LOG.error("failures_not_seen", failures=unknown)
    for notice in aside:
        if notice.together:
            _put_together(messages, notice.entry_ids)
    yield list(messages.values())


def _put_together(messages: dict[int, MessageFailed], entry_ids: Sequence[int]) -> None:
    """Let the first of some messages that failed together name all of them."""
    together = {entry_id: messages.pop(entry_id) for entry_id in entry_ids if entry_id in messages}
    ids = tuple(one.message.message_id for one in together.values())
    for entry_id, first in list(together.items())[:1]:
        messages[entry_id] = replace(first, what=replace(first.what, message_ids=ids))


def _kept_out(transaction: Transaction, notice: KeptOut) -> Iterable[list[MessageFailed]]:
    """Messages that the transaction has published: unrouted messages, and messages that a queue set aside as invalid."""
    queues = _names(transaction)
    given = {"bodies_of": list(_with_bodies(transaction).values())}
    # A batch of a pipeline may be large; the messages of a call are in memory already.
    if notice.message_ids is None:
        portions: Iterable[list[Any]] = transaction.portions("kept_out", _PORTION, message_ids=None, **given)
    else:
        portions = [transaction.rows("kept_out", message_ids=list(notice.message_ids), **given)]
    for rows in portions:
        yield [
            MessageFailed(
                _message(row),
                unrouted(row.problem)
                if row.queue_id is None
                else invalid(queues.get(row.queue_id), row.group_key, row.problem),
            )
            for row in rows
        ]


def _names(transaction: Transaction) -> dict[int, str]:
    return {queue.queue_id: name for name, queue in transaction.access.known.definitions.queues.items()}


def _message(row: Any) -> Message:
    """A message, with its body where its queue wants that in failures; its dialog is described by properties."""
    context = context_of(row.context, row.property_types)
    dialog = dialog_of(context, row.type)
    return Message(
        type=row.type, message_id=row.message_id, context=context | ({} if dialog is None else dialog.properties()),
        body=b"" if row.body is None else row.body, content_type=row.content_type,
        parts=tuple(map(Part, row.part_names or (), row.part_content_types or (), row.part_bodies or ())),
    )  # fmt: skip


def _messages(transaction: Transaction, entry_ids: Sequence[int]) -> dict[int, MessageFailed]:
    """Return messages by their entries, if the role may see them, with the reason why they were set aside."""
    if not entry_ids:
        return {}
    queues, bodies_of = _names(transaction), list(_with_bodies(transaction).values())
    return {
        row.entry_id: MessageFailed(
            _message(row),
            replace(
                _FAILURES.get(row.disposition, dead)(queues.get(row.queue_id), row.group_key, row.reason),
                attempts=row.attempt,
                ordinal=row.ordinal,
            ),
        )
        for row in transaction.rows("failed_messages", of_entries=list(entry_ids), bodies_of=bodies_of)
    }


def _of_holes(transaction: Transaction, holes: Sequence[HolePassed]) -> list[MessageFailed]:
    """Return the failures for holes, each with the message that waits, or has waited, behind the hole."""
    failures = []
    for queue_id in {hole.queue_id for hole in holes}:
        of_queue = [hole for hole in holes if hole.queue_id == queue_id]
        behind = transaction.value(
            "behind_holes",
            of_queue=queue_id,
            of_groups=[hole.group for hole in of_queue],
            of_lasts=[hole.last for hole in of_queue],
        )
        messages = _messages(transaction, [entry_id for entry_id in behind if entry_id is not None])
        for hole, entry_id in zip(of_queue, behind, strict=True):
            if (waiting := messages.get(entry_id)) is None:
                continue
            which = f"the numbers {hole.first} to {hole.last} are missing"
            missing = f"number {hole.first} is missing" if hole.first == hole.last else which
            failed = Failed(
                hole.queue, hole.group, kind="hole", error_class=_CLASSES[hole.kind], error=missing,
                attempts=waiting.what.attempts, ordinal=waiting.what.ordinal,
            )  # fmt: skip
            failures.append(MessageFailed(waiting.message, failed))
    return failures
