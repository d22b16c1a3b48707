"""Messages in a transaction of the application, under numbers that the journal gives out: reserve, keep, commit; and afterwards confirm, and take in.

Whoever tends the regions sees what was committed, and has its number confirmed. Until then the message is in no queue, so no region can have handled it: where
the transaction took longer than its reservation, the number is void, and the message gets another one. The row in the box says which number it is: it is changed
by comparison, and only what it says is confirmed. So any number of processes may do that at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.messages.received import context_of
from seriatim.box.publishing.batch import check_all, parameters_of
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.pipeline.types.message import Message, Part
from seriatim.regions.box_role import role_of
from seriatim.regions.box_votes import Way, route_in, see, vote
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Reservation
from seriatim.regions.numbered import Numbered, Place
from seriatim.regions.numbering import of_journal, routed, with_number
from seriatim.regions.outbox import PORTION, Copied
from seriatim.regions.pair import Pair, Routing
from seriatim.regions.reserving import RESERVED_S, check_one_number
from seriatim.regions.sending import Sent

__all__ = ["send_waiting", "wait_in"]

#: So often what got another number is looked at again at once.
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
        raise Unavailable(
            f"region {region} was restored, and hasn't learned from the others yet", remedy="repeat it later"
        )
    routing, places = routed(pair, messages)
    check_one_number(messages, places)
    had = _had(transaction, pair, region, messages, [its[0] for its in places])
    fresh = [at for at, one in enumerate(messages) if one.message_id not in had]
    kept = _reserve(pair, [places[at][0] for at in fresh])
    numbered = [
        with_number(messages[at], places[at][0], its.number, routing) for at, its in zip(fresh, kept, strict=True)
    ]
    if numbered:
        taken = _keep(transaction, pair.name, numbered, kept)
        had |= {one.message.message_id: one.places[0] for one in numbered}
        had |= _waiting_numbers(transaction, pair.name, taken)  # another transaction was faster
    return [
        Sent(one.message_id, had[one.message_id].session, had[one.message_id].number, (region,)) for one in messages
    ]


def _had(
    transaction: Transaction, pair: Pair, region: str, messages: Sequence[Message], places: Sequence[Place]
) -> dict[str, Place]:
    """The numbers that messages have already."""
    ids = [one.message_id for one in messages]
    found = _waiting_numbers(transaction, pair.name, ids)
    of = {ident: place for ident, place in zip(ids, places, strict=True) if ident not in found}
    by_queue: dict[str, list[tuple[str, str]]] = {}
    for ident, place in of.items():
        by_queue.setdefault(place.queue, []).append((place.session, ident))

    def read(journal: Journal) -> dict[str, Place]:
        return {
            ident: Place(queue, session, number)
            for queue, its in by_queue.items()
            for (session, ident), number in journal.numbers_of(pair.name, queue, its).items()
        }

    found |= pair.journal.call(read) if by_queue else {}
    sight = see(transaction, pair.name, region, [], list(of))
    for ident in sight.numbers:
        if ident not in found:
            raise Unavailable(
                f"message {ident} lies in region {region} under a number that isn't confirmed",
                where=f"session {shown(of[ident].session, 80)}",
                remedy="is its sender at work? If not, publish it once more without a connection",
            )
    return found


def _waiting_numbers(transaction: Transaction, name: str, ids: Sequence[str]) -> dict[str, Place]:
    if not ids:
        return {}
    rows = transaction.rows("region_waiting_numbers", of_name=name, of_messages=list(ids))
    return {row.message_id: Place(row.queue, row.session, row.number) for row in rows}


def _reserve(pair: Pair, places: Sequence[Place]) -> list[Reservation]:
    """Numbers for messages, in their order."""
    counts: dict[str, dict[str, int]] = {}
    for one in places:
        of_queue = counts.setdefault(one.queue, {})
        of_queue[one.session] = of_queue.get(one.session, 0) + 1

    def reserve(journal: Journal) -> dict[tuple[str, str], list[Reservation]]:
        return {
            (queue, session): its
            for queue, sessions in counts.items()
            for session, its in journal.reserve(pair.name, queue, sessions, lease=RESERVED_S).items()
        }

    kept = pair.journal.call(reserve) if counts else {}
    return [kept[one.queue, one.session].pop(0) for one in places]


def _keep(transaction: Transaction, name: str, numbered: Sequence[Numbered], kept: Sequence[Reservation]) -> list[str]:
    """Keep messages; the ids of those that wait already."""
    definitions = transaction.access.known.current(transaction)
    found = route_in(transaction, [one.message for one in numbered], definitions)
    check_all(found)
    columns = parameters_of(found, 0, len(numbered))
    with transaction.connection.transaction():
        taken: list[str] = transaction.value(
            "region_wait", of_name=name, of_queues=[definitions.queues[one.places[0].queue].queue_id for one in numbered],
            of_sessions=[one.places[0].session for one in numbered], of_numbers=[one.places[0].number for one in numbered],
            reservations=[one.id for one in kept], **{key: columns[key] for key in _COLUMNS},
        )  # fmt: skip
        _check_closed(transaction, definitions, [one.places[0] for one in numbered])
    return taken


def _check_closed(transaction: Transaction, definitions: Definitions, places: Sequence[Place]) -> None:
    """Refuse messages of sessions that take none any more. Only after they are written: then nobody closes a session beside that."""
    closed = transaction.maybe(
        "region_closed", of_queues=[definitions.queues[one.queue].queue_id for one in places],
        of_sessions=[one.session for one in places],
    )  # fmt: skip
    if closed is not None:
        raise UsageError(
            f"sessions before {shown(closed.closed_before, 80)} take no messages any more",
            where=f"session {shown(closed.session, 80)}", remedy="send the message under the key of another session",
        )  # fmt: skip


# ---- after the commit


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A message whose number isn't confirmed yet, as far as is known."""

    waiting_id: int
    numbered: Numbered
    reservation: Reservation
    age_us: int

    @property
    def place(self) -> Place:
        return self.numbered.places[0]

    @property
    def message_id(self) -> str:
        return self.numbered.message.message_id


def send_waiting(pair: Pair, region: str, found: Copied) -> None:
    """Have the numbers of messages confirmed whose transactions have committed, and let them come into the queues of the box."""
    for _ in range(_TRIES):
        behind, anew = 0, 0
        while rows := pair.in_box(region, partial(_all_waiting, pair=pair, region=region, behind=behind)):
            behind = rows[-1].waiting_id
            anew += _send(pair, region, rows, found)
        if not anew:
            return


def _all_waiting(transaction: Transaction, pair: Pair, region: str, behind: int) -> list[_Waiting]:
    role_of(transaction, pair.name, region)
    rows = transaction.rows("region_all_waiting", of_name=pair.name, behind=behind, at_most=PORTION)
    return [_read(row) for row in rows]


def _read(row: Any) -> _Waiting:
    parts = zip(row.part_names or (), row.part_content_types or (), row.part_bodies or (), strict=True)
    message = Message(
        type=row.type, body=row.body, context=context_of(row.context, row.property_types), message_id=row.message_id,
        content_type=row.content_type, parts=tuple(Part(*one) for one in parts),
    )  # fmt: skip
    place = Place(row.queue, row.session, row.number)
    return _Waiting(
        row.waiting_id, Numbered(message, (place,)), Reservation(row.session, row.number, row.reservation), row.age
    )


def _send(pair: Pair, region: str, rows: Sequence[_Waiting], found: Copied) -> int:
    """Confirm some messages, and take them in; how many got other numbers instead."""
    by_queue: dict[str, list[_Waiting]] = {}
    for one in rows:
        by_queue.setdefault(one.place.queue, []).append(one)
    confirmed: list[_Waiting] = []
    anew: list[tuple[_Waiting, int, str]] = []
    for queue, its in by_queue.items():
        void = _confirm(pair, queue, its, found)
        gone = {one.waiting_id for one in void}
        confirmed += [one for one in its if one.waiting_id not in gone]
        void = [one for one in void if one.message_id not in found.waiting]
        anew += _renumbered(pair, queue, void)
    confirmed = [one for one in confirmed if one.message_id not in found.waiting]
    if confirmed:
        _take_in(pair, region, confirmed, found)
    if not anew:
        return 0
    changed: int = pair.in_box(
        region,
        lambda one: one.value(
            "region_wait_anew", of_messages=[its.waiting_id for its, _, _ in anew],
            of_numbers=[its.place.number for its, _, _ in anew], new_numbers=[number for _, number, _ in anew],
            reservations=[ident for _, _, ident in anew],
        ),
    )  # fmt: skip
    return changed


def _confirm(pair: Pair, queue: str, its: Sequence[_Waiting], found: Copied) -> list[_Waiting]:
    """Confirm numbers; those that are void, or another message's."""

    def ask(journal: Journal) -> list[_Waiting]:
        kept = [(one.reservation, of_journal(one.numbered.message, one.place)) for one in its]
        void = set(journal.confirm(pair.name, queue, kept))
        left = [one for one in its if one.reservation in void]
        holders = journal.holders(pair.name, queue, [(one.place.session, one.place.number) for one in left])
        known = journal.numbers_of(pair.name, queue, [(one.place.session, one.message_id) for one in left])
        over = journal.over_before(pair.name).get(queue, "") if left else ""
        gone = []
        for one, holder in zip(left, holders, strict=True):
            if holder.message_id == one.message_id:
                continue  # it was confirmed before
            gone.append(one)
            is_forgotten = holder.is_over and holder.message_id is None and not holder.is_void
            is_forgotten |= one.place.session < over
            if is_forgotten and (one.place.session, one.message_id) not in known:
                found.waiting[one.message_id] = (
                    f"number {one.place.number} of session {shown(one.place.session, 80)} is over, and the journal has forgotten "
                    "whose it was"
                )
        return gone

    return pair.journal.call(ask)


def _renumbered(pair: Pair, queue: str, void: Sequence[_Waiting]) -> list[tuple[_Waiting, int, str]]:
    """Other numbers for messages: those that the journal has for them already, as after a restore of the box, or the next ones."""
    if not void:
        return []

    def read(journal: Journal) -> dict[tuple[str, str], int]:
        return journal.numbers_of(pair.name, queue, [(one.place.session, one.message_id) for one in void])

    known = pair.journal.call(read)
    without = [one for one in void if (one.place.session, one.message_id) not in known]
    fresh = zip(without, _reserve(pair, [one.place for one in without]), strict=True)
    return [
        *((one, known[key], "") for one in void if (key := (one.place.session, one.message_id)) in known),
        *((one, its.number, its.id) for one, its in fresh),
    ]


def _take_in(pair: Pair, region: str, rows: Sequence[_Waiting], found: Copied) -> None:
    """Let messages come into the queues of the box; those that it doesn't take are told, and stay."""
    try:
        routing = pair.routing()
        found.sent += pair.in_box(region, partial(_write, pair=pair, region=region, rows=rows, routing=routing))
    except UsageError as error:
        if len(rows) == 1:
            found.waiting[rows[0].message_id] = str(error)
            return
        for one in rows:
            _take_in(pair, region, [one], found)


def _write(transaction: Transaction, pair: Pair, region: str, rows: Sequence[_Waiting], routing: Routing) -> int:
    mine = {
        waiting_id
        for (waiting_id,) in transaction.rows(
            "region_waited", of_messages=[one.waiting_id for one in rows], of_numbers=[one.place.number for one in rows]
        )
    }
    chosen = [one for one in rows if one.waiting_id in mine]
    if not chosen:
        return 0
    messages = [
        with_number(one.numbered.message, one.place, one.place.number, routing) for one in chosen
    ]  # the property says the number that it has now
    delays = [pair.delay(region, one.place.session, is_first=True, age_us=one.age_us) for one in chosen]
    done = vote(
        transaction, pair.name, region, messages, way=Way.RESERVED, delays=delays, ages=[one.age_us for one in chosen],
        renumbers=True,
    )  # fmt: skip
    if not done.is_asked:
        raise Unavailable(
            f"region {region} was restored, and hasn't learned from the others yet", remedy="it is tried again"
        )
    return len(chosen)
