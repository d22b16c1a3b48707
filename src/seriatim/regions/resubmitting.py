"""Publish a dead letter of two regions again. Its number is over in the journal, so its content gets another id and another number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import NAMESPACE_OID, uuid5

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.dead_letters import DeadLetterFilter, dead_letters_of, delete, numbers_of
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views.message_places import message_of
from seriatim.errors import NotFound, Unavailable, UsageError, shown
from seriatim.pipeline.types.message import Message, Property
from seriatim.regions.box_role import role_of
from seriatim.regions.pair import REGIONS, Pair
from seriatim.regions.sending import Sent


@dataclass(frozen=True, slots=True)
class Resubmitted:
    """A dead letter that was published again.

    Args:
        message_id: the id of the dead letter.
        new_id: the id under which its content was published; the same at each attempt.
        queue: the queue.
        session: the session.
        number: the number that it has now.
        regions: the regions in which the dead letter was deleted.
        left: why it may be left in a region; None: it isn't.
    """

    message_id: str
    new_id: str
    queue: str
    session: str
    number: int
    regions: tuple[str, ...]
    left: str | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The dead letter of a queue in one region: its message, and its number in that box."""

    message: Message
    entry_id: int
    sequence: str


def resubmit(
    pair: Pair, publish: Callable[[Message], Sequence[Sent]], message_id: str, queue: str | None, number: int | None,
    by: Operator,
) -> Resubmitted:  # fmt: skip
    """Publish a dead letter again, then delete it. A call that was interrupted is repeated."""
    letters_of, away = {}, {}
    for region in REGIONS:
        try:
            letters_of[region] = pair.in_box(region, partial(_read, pair.name, region, message_id))
        except Unavailable as error:
            away[region] = str(error)
    queues = sorted({name for letters in letters_of.values() for name in letters} if queue is None else {queue})
    ours = {region: letters[queues[0]] for region, letters in letters_of.items() if queues and queues[0] in letters}
    if not ours:
        raise NotFound(
            f"no region has a dead letter {shown(message_id)}"
            + "".join(f"; region {region} is away: {why}" for region, why in away.items()),
            remedy="seriatim dead-letters list shows those of a box",
        )
    if len(queues) > 1:
        raise UsageError(
            f"several queues have the dead letter {shown(message_id)}: {', '.join(queues)}", remedy="name the queue"
        )
    name, first = queues[0], next(iter(ours.values()))
    (sent,) = publish(_anew(first, name, number))
    pair.journal.call(
        lambda journal: journal.note(
            pair.name, name, sent.session, action="resubmit", actor=by.actor, reason=by.reason,
            detail=f"dead letter {message_id} is published as {sent.message_id}, number {sent.number}",
        ),
        anyway=True,
    )  # fmt: skip
    for region, letter in ours.items():
        try:
            pair.in_box(region, lambda transaction, one=letter: delete(transaction, [one.entry_id], by))  # type: ignore[misc]
        except Unavailable as error:
            away[region] = str(error)
    left = "; ".join(f"region {region} is away: {why}" for region, why in away.items()) or None
    deleted = tuple(region for region in ours if region not in away)
    return Resubmitted(message_id, sent.message_id, name, sent.session, sent.number, deleted, left)


def _read(name: str, region: str, message_id: str, transaction: Transaction) -> dict[str, _Found]:
    """The dead letter in the box of a region, by queue."""
    queue_ids = role_of(transaction, name, region).queue_ids
    definitions = transaction.definitions()
    try:
        stored = message_of(transaction, message_id)
    except NotFound:
        return {}
    numbers = numbers_of(transaction, message_id, stored.id_space, stored.received_at)
    letters = dead_letters_of(transaction, DeadLetterFilter(entry_ids=numbers)) if numbers else []
    message = Message(
        message_id=message_id, type=stored.type, content_type=stored.content_type, context=stored.context,
        body=stored.body, parts=stored.parts,
    )  # fmt: skip
    return {
        one.queue: _Found(message, one.entry_id, str(definitions.queue(one.queue).declared.sequence))
        for one in letters
        if definitions.queue(one.queue).queue_id in queue_ids
    }


def _anew(resent: _Found, queue: str, number: int | None) -> Message:
    """The content of a dead letter as another message, for its queue only."""
    message = resent.message
    context: dict[str, Property] = {**message.context, "to": queue}
    context.pop(resent.sequence, None)
    if number is not None:
        context[resent.sequence] = number
    return Message(
        message_id=str(uuid5(NAMESPACE_OID, f"seriatim/{queue}/{message.message_id}")), type=message.type,
        content_type=message.content_type, context=context, body=message.body, parts=message.parts,
    )  # fmt: skip
