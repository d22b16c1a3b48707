"""Send messages under numbers that the journal gives out, so that several senders of a session can send at once: reserve, write, confirm.

The journal's word is the one that counts: a number that isn't confirmed before its reservation ends is void. So the boxes ask for no order here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from seriatim.box.connection.access import Transaction
from seriatim.errors import NumberRefused, SeriatimError, Unavailable, UsageError, shown
from seriatim.kernel.regions.votes import NO_NUMBER, Reply
from seriatim.pipeline.types.message import Message
from seriatim.regions.box_votes import Sight, Way, see, strike, vote, withdraw
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Holder, Reservation
from seriatim.regions.numbered import Numbered, SessionNumber
from seriatim.regions.numbering import of_journal, routed, with_number
from seriatim.regions.pair import REGIONS, Pair, Routing
from seriatim.regions.sending import Sent

__all__ = ["RESERVED_S", "Reserving", "check_one_number"]

#: After that a number that isn't confirmed is void.
RESERVED_S = 10.0


@dataclass(slots=True)
class _One:
    """A message on its way. `reservation`: of its number; None: it is confirmed already."""

    numbered: Numbered
    reservation: Reservation | None
    replies: list[Reply]
    error: SeriatimError | None = None

    @property
    def place(self) -> SessionNumber:
        return self.numbered.places[0]

    @property
    def message_id(self) -> str:
        return self.numbered.message.message_id


class Reserving:
    """One call of `Regions.publish` with ``numbers="journal"``."""

    def __init__(self, pair: Pair, restore: Callable[[str], bool]) -> None:
        self._pair, self._restore = pair, restore
        self._began = time.monotonic()

    def send(self, messages: Sequence[Message]) -> list[Sent]:
        """Send messages."""
        if not messages:
            return []
        routing, places = routed(self._pair, messages)
        check_one_number(messages, places)
        ones = self._reserved(messages, [its[0] for its in places], routing)
        self._write(ones)
        self._confirm(ones)
        self._finish(ones)
        return _told(ones)

    def _reserved(self, messages: Sequence[Message], places: Sequence[SessionNumber], routing: Routing) -> list[_One]:
        """Messages with the numbers that they have, or with reserved ones."""
        had = self._numbers_had(messages, places)
        holders = self._holders(list(had.values()))
        found: dict[int, _One] = {}
        again: list[str] = []
        for at, (message, place) in enumerate(zip(messages, places, strict=True)):
            if message.message_id not in had:
                continue
            mine = had[message.message_id]
            holder = holders[mine]
            if holder.message_id == message.message_id:
                found[at] = _One(
                    with_number(message, place, mine.number, routing),
                    None,
                    [Reply.NOT_ASKED, Reply.NOT_ASKED, Reply.FOR],
                )
            elif holder.is_void or holder.message_id is not None:
                again.append(message.message_id)  # nobody ever claims it under this number
            else:
                raise Unavailable(
                    f"number {mine.number} of message {message.message_id} is reserved, and isn't confirmed",
                    where=f"session {shown(mine.session, 80)}",
                    remedy=f"is its sender at work? If not, publish it again after {RESERVED_S:g} s",
                )
        self._withdraw(again)
        counts: dict[str, dict[str, int]] = {}
        for at, place in enumerate(places):
            if at not in found:
                counts.setdefault(place.queue, {}).setdefault(place.session, 0)
                counts[place.queue][place.session] += 1

        def reserve(journal: Journal) -> dict[tuple[str, str], list[Reservation]]:
            return {
                (queue, session): its
                for queue, sessions in counts.items()
                for session, its in journal.reserve(self._pair.name, queue, sessions, lease=RESERVED_S).items()
            }

        kept = self._pair.journal.call(reserve) if counts else {}
        for at, (message, place) in enumerate(zip(messages, places, strict=True)):
            if at not in found:
                mine_now = kept[place.queue, place.session].pop(0)
                found[at] = _One(with_number(message, place, mine_now.number, routing), mine_now, [Reply.NOT_ASKED] * 3)
        return [found[at] for at in range(len(messages))]

    def _numbers_had(self, messages: Sequence[Message], places: Sequence[SessionNumber]) -> dict[str, SessionNumber]:
        """The numbers that messages have already, as the journal and the boxes that are there know."""
        keys = {
            message.message_id: (place.queue, place.session) for message, place in zip(messages, places, strict=True)
        }
        found: dict[str, SessionNumber] = {}
        away = 0
        for region in REGIONS:
            try:
                sight, waiting = self._pair.in_box(region, partial(self._seen, region=region, ids=list(keys)))
            except Unavailable:
                away += 1
                continue
            if waiting:
                raise Unavailable(
                    f"message {waiting[0]} was committed in a transaction of region {region}, and its number isn't confirmed yet",
                    remedy="somebody has to tend the regions: seriatim regions run FILE; then publish it again",
                )
            for ident, its in sight.numbers.items():
                if (number := its.get(keys[ident])) is not None and (
                    ident not in found or number > found[ident].number
                ):
                    found[ident] = SessionNumber(*keys[ident], number)
        if away == len(REGIONS):
            raise Unavailable("both regions are away", remedy="publish the same again later, under the same ids")
        by_queue: dict[str, list[tuple[str, str]]] = {}
        for ident, (queue, session) in keys.items():
            by_queue.setdefault(queue, []).append((session, ident))

        def read(journal: Journal) -> dict[str, SessionNumber]:
            return {
                ident: SessionNumber(queue, session, number)
                for queue, its in by_queue.items()
                for (session, ident), number in journal.numbers_of(self._pair.name, queue, its).items()
            }

        return found | self._pair.journal.call(read)  # what it has confirmed counts

    def _seen(self, transaction: Transaction, region: str, ids: list[str]) -> tuple[Sight, list[str]]:
        """What a box knows of messages; and those that a transaction has left there (`waiting.py`)."""
        waiting = transaction.rows("region_waiting_numbers", of_name=self._pair.name, of_messages=ids)
        return see(transaction, self._pair.name, region, [], ids), sorted(row.message_id for row in waiting)

    def _holders(self, places: Sequence[SessionNumber]) -> dict[SessionNumber, Holder]:
        """Whose numbers are."""
        by_queue: dict[str, list[SessionNumber]] = {}
        for one in places:
            by_queue.setdefault(one.queue, []).append(one)

        def ask(journal: Journal) -> dict[SessionNumber, Holder]:
            return {
                place: holder
                for queue, its in by_queue.items()
                for place, holder in zip(
                    its,
                    journal.holders(self._pair.name, queue, [(one.session, one.number) for one in its]),
                    strict=True,
                )
            }

        return self._pair.journal.call(ask) if by_queue else {}

    def _write(self, ones: Sequence[_One]) -> None:
        """Write messages to the boxes that are there."""
        whys = []
        for at, region in enumerate(REGIONS):
            age_us = round((time.monotonic() - self._began) * 1_000_000)
            is_first = not any(Reply.FOR in one.replies[:2] for one in ones)
            delays = [self._pair.delay(region, one.place.session, is_first=is_first, age_us=age_us) for one in ones]
            messages = [one.numbered for one in ones]
            try:
                found = self._pair.in_box(
                    region,
                    partial(
                        vote, name=self._pair.name, region=region, messages=messages, way=Way.RESERVED, delays=delays,
                        ages=[age_us] * len(messages), renumbers=True,
                    ),
                )  # fmt: skip
            except Unavailable as error:
                whys.append(str(error))
                continue
            if not found.is_asked:
                whys.append(f"region {region} was restored, and hasn't learned yet")
                self._restore(region)
                continue
            for one in ones:
                one.replies[at] = Reply.FOR
        if len(whys) == len(REGIONS):
            raise Unavailable(
                f"both regions are away: {'; '.join(whys)}", remedy="publish the same again later, under the same ids"
            )

    def _confirm(self, ones: Sequence[_One]) -> None:
        """Confirm numbers."""
        by_queue: dict[str, list[_One]] = {}
        for one in ones:
            if one.reservation is not None:
                by_queue.setdefault(one.place.queue, []).append(one)

        def confirm(journal: Journal) -> tuple[set[Reservation], dict[tuple[str, str, str], int]]:
            void: set[Reservation] = set()
            others: dict[tuple[str, str, str], int] = {}
            for queue, its in by_queue.items():
                kept = [
                    (one.reservation, of_journal(one.numbered.message, one.place)) for one in its if one.reservation
                ]
                lost = journal.confirm(self._pair.name, queue, kept)
                void.update(lost)
                asked = [(one.place.session, one.message_id) for one in its if one.reservation in lost]
                found = journal.numbers_of(self._pair.name, queue, asked)
                others |= {(queue, session, ident): number for (session, ident), number in found.items()}
            return void, others

        void, others = self._pair.journal.call(confirm) if by_queue else (set(), {})
        for one in ones:
            where = f"queue {one.place.queue!r}, session {shown(one.place.session, 80)}"
            other = others.get((one.place.queue, one.place.session, one.message_id))
            if one.reservation not in void:
                one.replies[2] = Reply.FOR
            elif other is not None:
                one.error = Unavailable(
                    f"another call has sent message {one.message_id} at the same time, under number {other}", where=where,
                    remedy="publish it again: it keeps that number",
                )  # fmt: skip
            else:
                one.error = NumberRefused(
                    f"number {one.place.number} wasn't confirmed within {RESERVED_S:g} s, and is void", where=where,
                    remedy="publish the message again: it gets another number",
                )  # fmt: skip

    def _finish(self, ones: Sequence[_One]) -> None:
        """Take back what is void, and strike off what both boxes have."""
        self._withdraw([one.message_id for one in ones if isinstance(one.error, NumberRefused)])
        both = [one.message_id for one in ones if one.error is None and one.replies[0] == one.replies[1] == Reply.FOR]
        self._in_both(lambda one: strike(one, self._pair.name, both), both)

    def _withdraw(self, ids: Sequence[str]) -> None:
        self._in_both(lambda one: withdraw(one, self._pair.name, ids), ids)

    def _in_both(self, work: Callable[..., None], ids: Sequence[str]) -> None:
        """Do something in the boxes that are there; what isn't done is found by the worker, or when it would be copied."""
        for region in REGIONS if ids else ():
            try:
                self._pair.in_box(region, work)
            except Unavailable:
                continue


def check_one_number(messages: Sequence[Message], places: Sequence[Sequence[SessionNumber]]) -> None:
    """Refuse messages to which the journal can't give a number."""
    for message, its in zip(messages, places, strict=True):
        if len(its) > 1 or its[0].number != NO_NUMBER:
            raise UsageError(
                'numbers="journal" gives each message one number, and it has its own or goes to several queues',
                where=f"message {message.message_id}", remedy='leave the number out, or numbers="journal"',
            )  # fmt: skip


def _told(ones: Sequence[_One]) -> list[Sent]:
    """What became of messages."""
    failed = [one.error for one in ones if one.error is not None]
    if failed:
        first, sent = failed[0], len(ones) - len(failed)
        others = f"; {sent} of {len(ones)} messages are sent" if sent else ""
        raise type(first)(f"{first.what}{others}", where=first.where, remedy=first.remedy)
    return [
        Sent(
            one.message_id, one.place.session, one.place.number,
            tuple(who for who, reply in zip((*REGIONS, "journal"), one.replies, strict=True) if reply == Reply.FOR),
        )
        for one in ones
    ]  # fmt: skip
