"""Messages in a transaction of the application, under numbers of the journal: reserve, keep, commit; and afterwards confirm, and take in.

The process that tends the regions reads the committed messages, and has their numbers confirmed. Until then the message is in no queue, so
no region can have handled it: if the transaction took longer than its reservation, the number is void, and the message gets another one.
The row in the box has the number: it is changed by comparison, and only its number is confirmed. So any number of processes may do that at
once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.messages.received import stored_message
from seriatim.box.publishing.batch import check_all, parameters_of
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.pipeline.types.message import Message, Part
from seriatim.regions.box_role import role_of
from seriatim.regions.box_votes import Way, route_in, see, vote
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Reservation
from seriatim.regions.numbered import Numbered, SessionNumber, by_queue
from seriatim.regions.numbering import of_journal, routed, with_number
from seriatim.regions.outbox import PORTION, Copied
from seriatim.regions.pair import Pair, Routing, not_voting
from seriatim.regions.reserving import RESERVED_S, check_one_number
from seriatim.regions.sending import Sent

#: How often messages with another number are retried at once.
_TRIES = 3
_COLUMNS = (
    "message_ids", "types", "content_types", "contexts", "property_types", "bodies", "part_places", "part_names",
    "part_content_types", "part_bodies",
)  # fmt: skip


# ---- before the commit


def wait_in(transaction: Transaction, pair: Pair, region: str, messages: Sequence[Message]) -> list[Sent]:
    """Keep messages in a transaction of the caller's, under numbers that are reserved for them."""
    transaction.check_enabled()
    if not role_of(transaction, pair.name, region).votes:
        raise not_voting(region)
    routing, places = routed(pair, messages)
    check_one_number(messages, places)
    had = _had(transaction, pair, region, messages, [place[0] for place in places])
    fresh = [at for at, message in enumerate(messages) if message.message_id not in had]
    kept = pair.reserve([places[at][0] for at in fresh], RESERVED_S)
    numbered = [
        with_number(messages[at], places[at][0], reservation.number, routing)
        for at, reservation in zip(fresh, kept, strict=True)
    ]
    known = set(had)
    if numbered:
        ids = _keep(transaction, pair.name, numbered, kept)
        known.update(ids)
        had |= {item.message.message_id: item.places[0] for item in numbered}
        had |= _waiting_numbers(transaction, pair.name, ids)  # another transaction was faster
    return [
        Sent(id_, had[id_].session, had[id_].number, (region,), id_ in known)
        for id_ in (message.message_id for message in messages)
    ]


def _had(
    transaction: Transaction, pair: Pair, region: str, messages: Sequence[Message], places: Sequence[SessionNumber]
) -> dict[str, SessionNumber]:
    ids = [message.message_id for message in messages]
    numbers = _waiting_numbers(transaction, pair.name, ids)
    of = {ident: place for ident, place in zip(ids, places, strict=True) if ident not in numbers}
    numbers |= pair.numbers_of(of)
    sight = see(transaction, pair.name, region, [], list(of))
    for ident in sight.numbers:
        if ident not in numbers:
            raise Unavailable(
                f"message {ident} lies in region {region} under a number that isn't confirmed",
                where=f"session {shown(of[ident].session, 80)}",
                remedy="is its sender at work? If not, publish it once more without a connection",
            )
    return numbers


def _waiting_numbers(transaction: Transaction, name: str, ids: Sequence[str]) -> dict[str, SessionNumber]:
    if not ids:
        return {}
    rows = transaction.rows("region_waiting_numbers", of_name=name, of_messages=list(ids))
    return {row.message_id: SessionNumber(row.queue, row.session, row.number) for row in rows}


def _keep(transaction: Transaction, name: str, numbered: Sequence[Numbered], kept: Sequence[Reservation]) -> list[str]:
    """Keep messages; return the ids of those that wait already."""
    definitions = transaction.definitions()
    routed = route_in(transaction, [item.message for item in numbered], definitions)
    check_all(routed)
    columns = parameters_of(routed, 0, len(numbered))
    with transaction.connection.transaction():
        ids: list[str] = transaction.value(
            "region_wait", of_name=name, of_queues=[definitions.queues[item.places[0].queue].queue_id for item in numbered],
            of_sessions=[item.places[0].session for item in numbered], of_numbers=[item.places[0].number for item in numbered],
            reservations=[reservation.id for reservation in kept], **{key: columns[key] for key in _COLUMNS},
        )  # fmt: skip
        _check_closed(transaction, definitions, [item.places[0] for item in numbered])
    return ids


def _check_closed(transaction: Transaction, definitions: Definitions, places: Sequence[SessionNumber]) -> None:
    """Refuse messages of sessions that take none any more. Only after they are written: then nobody closes a session beside that."""
    closed = transaction.maybe(
        "region_closed",
        of_queues=[definitions.queues[one.queue].queue_id for one in places],
        of_sessions=[one.session for one in places],
    )
    if closed is not None:
        raise UsageError(
            f"sessions before {shown(closed.closed_before, 80)} take no messages any more",
            where=f"session {shown(closed.session, 80)}",
            remedy="send the message under the key of another session",
        )


# ---- after the commit


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A message whose number isn't confirmed yet, as far as is known."""

    waiting_id: int
    numbered: Numbered
    reservation: Reservation
    age_us: int

    @property
    def place(self) -> SessionNumber:
        return self.numbered.places[0]

    @property
    def message_id(self) -> str:
        return self.numbered.message.message_id


def send_waiting(pair: Pair, region: str, copied: Copied) -> None:
    """Have the numbers of messages confirmed whose transactions have committed, and move them into the queues of the box."""
    for _ in range(_TRIES):
        behind, anew = 0, 0
        while rows := pair.in_box(region, partial(_all_waiting, pair=pair, region=region, behind=behind)):
            behind = rows[-1].waiting_id
            anew += _send(pair, region, rows, copied)
        if not anew:
            return


def _all_waiting(transaction: Transaction, pair: Pair, region: str, behind: int) -> list[_Waiting]:
    role_of(transaction, pair.name, region)
    rows = transaction.rows("region_all_waiting", of_name=pair.name, behind=behind, at_most=PORTION)
    return [_read(row) for row in rows]


def _read(row: Any) -> _Waiting:
    parts = zip(row.part_names or (), row.part_content_types or (), row.part_bodies or (), strict=True)
    message = stored_message(row, (Part(*fields) for fields in parts))
    place = SessionNumber(row.queue, row.session, row.number)
    return _Waiting(
        row.waiting_id, Numbered(message, (place,)), Reservation(row.session, row.number, row.reservation), row.age
    )


def _send(pair: Pair, region: str, rows: Sequence[_Waiting], copied: Copied) -> int:
    """Confirm some messages, and take them in; return how many got other numbers instead."""
    confirmed: list[_Waiting] = []
    anew: list[tuple[_Waiting, int, str]] = []
    for queue, messages in by_queue(rows, lambda row: row.place).items():
        void = _confirm(pair, queue, messages, copied)
        removed = {row.waiting_id for row in void}
        confirmed += [row for row in messages if row.waiting_id not in removed]
        void = [row for row in void if row.message_id not in copied.waiting]
        anew += _renumbered(pair, void)
    confirmed = [row for row in confirmed if row.message_id not in copied.waiting]
    if confirmed:
        _take_in(pair, region, confirmed, copied)
    if not anew:
        return 0
    changed: int = pair.in_box(
        region,
        lambda transaction: transaction.value(
            "region_wait_anew", of_messages=[item.waiting_id for item, _, _ in anew],
            of_numbers=[item.place.number for item, _, _ in anew], new_numbers=[number for _, number, _ in anew],
            reservations=[ident for _, _, ident in anew],
        ),
    )  # fmt: skip
    return changed


def _confirm(pair: Pair, queue: str, rows: Sequence[_Waiting], copied: Copied) -> list[_Waiting]:
    """Confirm numbers; those that are void, or another message's."""

    def ask(journal: Journal) -> list[_Waiting]:
        kept = [(row.reservation, of_journal(row.numbered.message, row.place)) for row in rows]
        void = set(journal.confirm(pair.name, queue, kept))
        left = [row for row in rows if row.reservation in void]
        holders = journal.holders(pair.name, queue, [(row.place.session, row.place.number) for row in left])
        known = journal.numbers_of(pair.name, queue, [(row.place.session, row.message_id) for row in left])
        over = journal.over_before(pair.name).get(queue, "") if left else ""
        removed = []
        for row, holder in zip(left, holders, strict=True):
            if holder.message_id == row.message_id:
                continue  # confirmed before
            removed.append(row)
            is_forgotten = holder.is_over and holder.message_id is None and not holder.is_void
            is_forgotten |= row.place.session < over
            if is_forgotten and (row.place.session, row.message_id) not in known:
                copied.waiting[row.message_id] = (
                    f"number {row.place.number} of session {shown(row.place.session, 80)} is over, and the journal has forgotten "
                    "whose it was"
                )
        return removed

    return pair.journal.call(ask)


def _renumbered(pair: Pair, void: Sequence[_Waiting]) -> list[tuple[_Waiting, int, str]]:
    """Return other numbers for messages: those that the journal has for them already, as after a restore of the box, or the next ones."""
    if not void:
        return []
    known = pair.numbers_of({row.message_id: row.place for row in void})
    without = [row for row in void if row.message_id not in known]
    fresh = zip(without, pair.reserve([row.place for row in without], RESERVED_S), strict=True)
    return [
        *((row, known[row.message_id].number, "") for row in void if row.message_id in known),
        *((row, reservation.number, reservation.id) for row, reservation in fresh),
    ]


def _take_in(pair: Pair, region: str, rows: Sequence[_Waiting], copied: Copied) -> None:
    """Move messages into the queues of the box; report those that it refuses, which stay."""
    try:
        routing = pair.routing()
        copied.sent += pair.in_box(region, partial(_write, pair=pair, region=region, rows=rows, routing=routing))
    except UsageError as error:
        if len(rows) == 1:
            copied.waiting[rows[0].message_id] = str(error)
            return
        for row in rows:
            _take_in(pair, region, [row], copied)


def _write(transaction: Transaction, pair: Pair, region: str, rows: Sequence[_Waiting], routing: Routing) -> int:
    own = {
        waiting_id
        for (waiting_id,) in transaction.rows(
            "region_waited", of_messages=[row.waiting_id for row in rows], of_numbers=[row.place.number for row in rows]
        )
    }
    chosen = [row for row in rows if row.waiting_id in own]
    if not chosen:
        return 0
    messages = [
        with_number(row.numbered.message, row.place, row.place.number, routing) for row in chosen
    ]  # the property has its present number
    delays = [pair.delay(region, row.place.session, is_first=True, age_us=row.age_us) for row in chosen]
    done = vote(
        transaction, pair.name, region, messages, way=Way.RESERVED, delays=delays, ages=[row.age_us for row in chosen],
        renumbers=True, patience_ms=pair.lock_ms(region),
    )  # fmt: skip
    if not done.is_asked:
        raise not_voting(region, "it is tried again")
    return len(chosen)
