"""Route messages that were published through SQL. Receivers and `tick` do it.

After its commit such a message waits in ``to_route``. Until it is routed, no message that was committed later is
judged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from seriatim.box.connection.access import Access, Begin, Transaction
from seriatim.box.connection.queue_heads import SHORTEST_S, pause_s
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.definitions.correlation import Look, looking
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.route import Routed, Router, router_of
from seriatim.box.messages.received import stored_message
from seriatim.box.publishing.batch import routing_of
from seriatim.box.publishing.slips import has_slips, log_slips, with_awaited
from seriatim.errors import UsageError
from seriatim.pipeline.bodies.property_values import problem_text
from seriatim.pipeline.types.message import Message

#: The most messages that a transaction routes, and the most bytes of their bodies.
_MOST_MESSAGES = 1_000
_MOST_BYTES = 32 * 2**20
#: The prefix of publishers of messages that came over links.
_LINK = "link:"


class _Pending(NamedTuple):
    """A row of ``pending``; `permitted`: the ids of the queues that `publisher` may publish to, None: all."""

    arrival_id: int
    position: int
    message: Message
    received_at: datetime
    publisher: str
    permitted: Sequence[int] | None

    @property
    def place(self) -> tuple[int, int]:
        return self.arrival_id, self.position


def is_unrouted(transaction: Transaction) -> bool | None:
    """Whether messages wait to be routed; None: they do, but the role of the connection may not route them."""
    answer = transaction.value("is_unrouted", **where_unrouted(transaction))
    return None if answer is None else bool(answer)


def route_pending(access: Access, apart: Begin | None = None, is_over: Callable[[], bool] = lambda: False) -> int:
    """Route waiting messages, in order of commit, in separate transactions. If PostgreSQL refuses a value, one message is routed, then
    two, then four, and so on: so the message with that value is found, and is unrouted. With `apart` the error is raised, because a
    receiver's transaction can't go on after it.
    """
    done, most = 0, _MOST_MESSAGES
    refused: dict[tuple[int, int], str] = {}
    while True:
        pending: Sequence[_Pending] = ()
        try:
            with (apart or access.transaction)() as transaction:
                pending = _read(transaction, most)
                _route(transaction, pending, refused)
        except UsageError as error:
            if apart is not None or not pending or pending[0].place in refused:
                raise
            if len(pending) == 1:
                refused[pending[0].place] = problem_text(error.what)
            most = 1
            continue
        done += len(pending)
        all_read = len(pending) < most and sum(len(arrival.message.body) for arrival in pending) < _MOST_BYTES
        if all_read or is_over():
            return done
        most = min(2 * most, _MOST_MESSAGES)


def _read(transaction: Transaction, at_most: int) -> list[_Pending]:
    where = where_unrouted(transaction)
    parameters = {"at_most": at_most, "at_most_bytes": _MOST_BYTES, **where}
    rows = transaction.rows("pending", **parameters)
    return [
        _Pending(row.arrival_id, row.position, stored_message(row), row.received_at, row.publisher, row.permitted)
        for row in rows
    ]


def _route(transaction: Transaction, pending: Sequence[_Pending], refused: Mapping[tuple[int, int], str]) -> None:
    definitions = transaction.definitions()
    for portion in _portions(pending, router_of(definitions)):
        while not _enter(transaction, portion, definitions, refused):
            definitions = transaction.access.known.read(transaction)


def _portions(pending: Sequence[_Pending], router: Router) -> list[list[_Pending]]:
    """Return portions of messages that can be routed together: all of one time, if a filter reads the time."""
    if not pending or not router.needs_time:
        return [list(pending)] if pending else []
    return [list(same) for _, same in groupby(pending, lambda arrival: arrival.received_at)]


def _enter(
    transaction: Transaction,
    pending: Sequence[_Pending],
    definitions: Definitions,
    wrong: Mapping[tuple[int, int], str],
) -> bool:
    """Put messages into their queues, those of `wrong` into none; False if the definitions have changed."""
    routed = _permitted(_routed(router_of(definitions), pending, looking(transaction)), pending, definitions)
    if wrong:
        routed = without(routed, {row: wrong[one.place] for row, one in enumerate(pending) if one.place in wrong})
    refused: Sequence[_Pending] = ()
    if has_slips(routed):
        routed = with_awaited(transaction, routed)
    if routed.entries.keys is not None:
        pending, routed, refused = _claimed(transaction, pending, routed)
    done = transaction.value(
        "route",
        arrival_ids=[arrival.arrival_id for arrival in pending],
        positions=[arrival.position for arrival in pending],
        **routing_of(routed, 0, len(pending)),
    )
    if done:
        if refused:
            transaction.do(
                "drop_routed",
                arrival_ids=[arrival.arrival_id for arrival in refused],
                positions=[arrival.position for arrival in refused],
            )
        if has_slips(routed):
            transaction.notice(*routed.notices(definitions, [arrival.message for arrival in pending]))
            log_slips(transaction.access, routed, definitions)
    return bool(done)


def _claimed(
    transaction: Transaction, pending: Sequence[_Pending], routed: Routed
) -> tuple[Sequence[_Pending], Routed, Sequence[_Pending]]:
    """Claim the unique keys of messages. Return the messages that stay, with their routing, and the refused ones: in each queue of these
    another message with their key waits.
    """
    typed, entries = routed.typed, routed.entries
    waiting = transaction.value(
        "claim_routed",
        arrival_ids=[arrival.arrival_id for arrival in pending],
        positions=[arrival.position for arrival in pending],
        entry_places=[place + 1 for place in entries.places],
        entry_queues=list(entries.queue_ids),
        entry_keys=list(entries.keys or ()),
    )
    kept = [at for at, answer in enumerate(waiting) if answer is None]
    refused = set(entries.places) - {entries.places[at] for at in kept}
    if len(kept) == len(waiting):
        return pending, routed, ()
    rows = [row for row in range(len(pending)) if row not in refused]
    moved = {row: at for at, row in enumerate(rows)}
    left = entries.take(kept)
    left = replace(left, places=[moved[row] for row in left.places])
    typed = replace(
        typed,
        messages=[typed.messages[row] for row in rows],
        contexts=[typed.contexts[row] for row in rows],
        problems=[typed.problems[row] for row in rows],
        undeclared=[moved[row] for row in typed.undeclared if row in moved],
    )
    awaited = frozenset(moved[row] for row in routed.awaited)
    return (
        [pending[row] for row in rows],
        replace(routed, typed=typed, entries=left, awaited=awaited),
        [pending[row] for row in sorted(refused)],
    )


def _routed(router: Router, pending: Sequence[_Pending], look: Look) -> Routed:
    """Route messages; a message that can't be routed doesn't make the others wait."""
    messages = [arrival.message for arrival in pending]
    carried = any(arrival.publisher.startswith(_LINK) for arrival in pending)
    moment = pending[0].received_at if router.needs_time else None
    try:
        return router.route(messages, moment, look, bodies=False, carried=carried)
    except UsageError:
        wrong = {
            row: why
            for row, message in enumerate(messages)
            if (why := _refusal(router, message, moment, look, carried=carried)) is not None
        }
    plain = [replace(message, context={}) if row in wrong else message for row, message in enumerate(messages)]
    return without(router.route(plain, moment, look, bodies=False, carried=carried), wrong)


def _refusal(router: Router, message: Message, moment: datetime | None, look: Look, *, carried: bool) -> str | None:
    try:
        router.route([message], moment, look, carried=carried)
    except UsageError as error:
        return error.what
    return None


def _permitted(routed: Routed, pending: Sequence[_Pending], definitions: Definitions) -> Routed:
    """Make messages unrouted whose publisher may not publish to their queue, unless a role's subscription leads there."""
    names = {queue.queue_id: name for name, queue in definitions.queues.items()}
    wrong: dict[int, str] = {}
    entries = routed.entries
    astray = {
        at
        for at, (row, queue_id) in enumerate(zip(entries.places, entries.queue_ids, strict=True))
        if pending[row].publisher.startswith(_LINK) and queue_id not in (pending[row].permitted or ())
    }
    if astray:  # a message from a link is for one queue, whatever subscriptions match it
        entries = entries.take([at for at in range(len(entries.places)) if at not in astray])
        routed = replace(routed, entries=entries)
    for row, queue_id, by in zip(entries.places, entries.queue_ids, entries.subscriptions, strict=True):
        arrival = pending[row]
        if arrival.permitted is None or queue_id in arrival.permitted:
            continue
        if not router_of(definitions).is_roles_own(by):  # a role's subscription doesn't need the publisher's right
            wrong.setdefault(row, f"the role {arrival.publisher!r} may not publish to queue {names[queue_id]!r}")
    return without(routed, for_both_regions(routed, definitions) | wrong)


def for_both_regions(routed: Routed, definitions: Definitions) -> dict[int, str]:
    """The messages for queues of two regions, which one box alone can't number, with that reason."""
    entries = routed.entries
    return {
        row: str(definitions.regional[queue_id].published_here())
        for row, queue_id in zip(entries.places, entries.queue_ids, strict=True)
        if queue_id in definitions.regional
    }


def without(routed: Routed, wrong: Mapping[int, str]) -> Routed:
    """Remove the entries of invalid messages, and add the reasons. The stored message stays as it is, so its context is not sent again."""
    typed, entries = routed.typed, routed.entries
    problems = [wrong.get(row, problem) for row, problem in enumerate(typed.problems)]
    messages = [
        message if problem is None else replace(message, context={})
        for message, problem in zip(typed.messages, problems, strict=True)
    ]
    left = entries.take([at for at, row in enumerate(entries.places) if row not in wrong])
    return replace(routed, typed=replace(typed, messages=messages, problems=problems), entries=left)


class SettledTransactions(NamedTuple):
    """The transactions that may have messages to route; those of all others are routed."""

    #: All transactions from this one on.
    settled: str
    #: Earlier ones, as the text of an array.
    unsettled: str


EVERYWHERE = SettledTransactions("0", "{}")


def where_unrouted(transaction: Transaction) -> dict[str, str]:
    """The parameters for the search for messages that wait to be routed. Routed rows stay in the index until vacuum, as in
    `queue_heads.py`; but here no row may be missed, because no later message is judged before. So a connection remembers a set of
    transactions: a later row belongs to one that hadn't ended when the set was read. It forgets them when it ends, because a server that
    crashed or was replaced may use transaction numbers again.
    """
    if not isinstance(transaction.connection, OwnConnection) or transaction.connection.is_pooled:
        return EVERYWHERE._asdict()
    now = time.monotonic()
    if transaction.connection.settled is None:
        transaction.connection.settled = EVERYWHERE, now + SHORTEST_S
    elif now >= transaction.connection.settled[1]:
        settled, unsettled, took_us = transaction.one("settled")
        transaction.connection.settled = SettledTransactions(settled, unsettled), time.monotonic() + pause_s(took_us)
    return transaction.connection.settled[0]._asdict()
