"""Messages with their places in the queues: list them, read one, route unrouted and invalid ones again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators import resubmit as routing
from seriatim.box.operators.actions import Operation, retry_messages
from seriatim.box.operators.actions import take_out as taking_out
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.resubmit import Resubmitted
from seriatim.box.operators.take_out import waiting_messages
from seriatim.box.views.listing import ErrorCount, Page, filters_of
from seriatim.box.views.message_places import MessageFilter, Placed, Stored, message_with_places, places_of, places_page
from seriatim.errors import ActionRefused, Unavailable, UsageError, shown
from seriatim.kernel.groups.verbs import Action
from seriatim.operations import bulk, groups
from seriatim.operations.bulk import Refused
from seriatim.operations.listing import listed

__all__ = [
    "ErrorCount",
    "Page",
    "Placed",
    "Resubmitted",
    "Stored",
    "message",
    "messages",
    "messages_by_error",
    "page",
    "resubmit",
    "retry",
    "retry_each",
    "take_out",
    "unrouted",
    "waiting",
]

#: The most messages that one transaction retries.
_BATCH = 1_000


@listed(MessageFilter, without=("message_id", "after", "seconds"))
def messages(transaction: Transaction, chosen: MessageFilter) -> list[Placed]:
    """List messages, oldest first, with one row for each queue that has the message; an unrouted message has one row.

    A message that is done is listed only if its queue keeps it.
    """
    return places_of(transaction, chosen)


@listed(MessageFilter, without=("message_id", "properties"), limit=50)
def page(transaction: Transaction, chosen: MessageFilter) -> Page[Placed, tuple[int, int]]:
    """A page of messages with their places, in the order in which they came in, of a box of any size.

    It reads at most 20,000 messages, and none after some seconds; others follow. `after`: the `following` of the page before.
    """
    return places_page(transaction, chosen)


@listed(
    MessageFilter, without=filters_of(MessageFilter).keys() - {"after", "limit", "seconds"}, status="unrouted", limit=50
)
def unrouted(transaction: Transaction, chosen: MessageFilter) -> Page[Placed, tuple[int, int]]:
    """A page of unrouted messages; see `page`."""
    return places_page(transaction, chosen)


@listed(MessageFilter, without=("message_id", "after", "seconds"), limit=100)
def messages_by_error(transaction: Transaction, chosen: MessageFilter) -> list[ErrorCount]:
    """Count messages by the last error of their handlers, or by the reason why they were set aside, the most frequent first.

    Messages without either aren't counted.
    """
    return transaction.rows("places_by_error", ErrorCount, **chosen.parameters())


def message(box: MessageBox, message_id: str, *, id_space: str | None = None) -> tuple[Stored, list[Placed]]:
    """A message with its body, and the queues that have it.

    Args:
        box: the box.
        message_id: its id.
        id_space: the id space, see `grant`. It may be None if only one message has the id.

    Raises:
        UsageError: the box has no message with the id, or it has several messages with the id in different id spaces.
    """
    return box.access.within(message_with_places, message_id, id_space)


def waiting(box: MessageBox, message_ids: Iterable[str], *, queue: str) -> list[str]:
    """Those of some ids whose messages wait in a queue.

    Raises:
        UsageError: there is no such queue.
    """
    found = box.definitions().queue(queue)
    with box.access.transaction() as transaction:
        return [one for one in message_ids if waiting_messages(transaction, found, one)]


def take_out(
    box: MessageBox, message_ids: str | Iterable[str], *, queue: str, actor: str, reason: str
) -> list[Operation]:
    """Take waiting messages out of a queue: they become dead letters. All of them, or none, in one transaction.

    In a queue with groups that is `groups.skip_message` for each, with its id. A message of an `Unordered` queue, which nobody has
    in hand, is just set aside, also one that is faulted.

    Args:
        box: the box.
        message_ids: their ids, or the id of one.
        queue: the queue's name.
        actor: the operator's name.
        reason: the reason.

    Raises:
        UsageError: there is no such queue, or the actor or the reason is missing.
        ActionRefused: a message doesn't wait in the queue, or its group is locked.
        Unavailable: the transaction has to be repeated.
    """
    ids, by = [message_ids] if isinstance(message_ids, str) else list(message_ids), Operator(actor, reason)
    found = box.definitions().queue(queue)
    with box.access.transaction() as transaction:
        return [taking_out(transaction, found, one, by) for one in ids]


def retry(
    box: MessageBox, message_ids: str | Iterable[str], *, queue: str, body: bytes | None = None, actor: str, reason: str
) -> list[Operation]:
    """Retry messages that stop themselves alone, in an `Unordered` queue: they are faulted, postponed, or wait for their next
    attempt. All of them, or none, in one transaction. Where messages stop their groups, retry the groups.

    Args:
        box: the box.
        message_ids: their ids, or the id of one.
        queue: the queue's name.
        body: a new body for the only message. The box keeps the original body; the properties stay. None: no change.
        actor: the operator's name.
        reason: the reason.

    Raises:
        UsageError: there is no such queue, its messages stop their groups, the actor or the reason is missing, a new body is given for
            several messages, or it doesn't fit the message's type.
        ActionRefused: a message isn't faulted or postponed, and waits for no attempt; or somebody has it in hand.
        Unavailable: the transaction has to be repeated.
    """
    ids = [message_ids] if isinstance(message_ids, str) else list(dict.fromkeys(message_ids))
    by = Operator(actor, reason)
    if body is not None and len(ids) != 1:
        raise UsageError("a new body is for one message", remedy="retry each with its own body, or with --edits")
    found = box.definitions().queue(queue)
    with box.access.transaction() as transaction:
        done = retry_messages(transaction, found, ids, by, body=body)
        if refused := next((one for one in done.values() if isinstance(one, ActionRefused)), None):
            raise refused
    return [one for one in (done[each] for each in ids) if not isinstance(one, ActionRefused)]


def retry_each(box: MessageBox, found: Sequence[Placed], *, actor: str, reason: str) -> Iterator[Operation | Refused]:
    """Retry faulted messages, as `retry`, of one queue after another; yields for each message what was done, or why it wasn't.

    A message that stops its group is retried with the group. A transaction retries up to 1,000 messages, or one group. What has
    changed meanwhile is refused; the others are retried, and nothing is undone.
    """
    by = Operator(actor, reason)
    for queue, each in groupby(sorted(found, key=lambda one: str(one.queue)), key=lambda one: str(one.queue)):
        mine, declared = list(each), box.definitions().queue(queue)
        if declared.has_groups:
            views = [groups.group_view(box, queue, str(one.group)) for one in mine]
            yield from bulk.each(box, Action.RETRY, views, actor=actor, reason=reason)
            continue
        for begin in range(0, len(mine), _BATCH):
            some = {one.message_id: one for one in mine[begin : begin + _BATCH]}
            try:
                done = box.access.within(retry_messages, declared, list(some), by)
            except Unavailable as error:
                yield from (Refused(queue, one.group or "", error.what) for one in some.values())
                continue
            for message_id, one in done.items():
                yield Refused(queue, some[message_id].group or "", one.what) if isinstance(one, ActionRefused) else one


def resubmit(
    box: MessageBox,
    message_ids: str | Iterable[str] | None = None,
    *,
    message_type: str | None = None,
    queue: str | None = None,
    actor: str | None = None,
    reason: str | None = None,
) -> Resubmitted:
    """Route unrouted messages, or the invalid messages of a queue, again by the present definitions.

    The messages keep their tickets, and so their places in the order. Messages that still match no subscription stay
    unrouted. Each transaction routes some hundreds of messages.

    Args:
        box: the box.
        message_ids: only these messages, or only this message.
        message_type: only messages of this type.
        queue: route the invalid messages of this queue, into this queue only; None: route unrouted messages.
        actor: the operator's name, for the operator log, which gets an entry for each transaction; None: nothing is logged.
        reason: the reason, for the operator log.

    Raises:
        UsageError: invalid ids or type, there is no such queue, it is one of two regions, or there is an actor and no
            reason.
        Unavailable: a receiver keeps the group of a gate locked at which a message has its place.
    """
    by = None if actor is None else Operator(actor, reason or "")
    given = [message_ids] if isinstance(message_ids, str) else message_ids
    if given is not None and not isinstance(given, Iterable):
        raise UsageError(f"{shown(given)} is no list of ids", remedy="give one id, or a list of them")
    ids = None if given is None else list(given)
    return routing.resubmit(box.access, ids, message_type, queue, by)
