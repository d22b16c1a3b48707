"""Send messages under numbers that the journal gives out, so that several senders of a session can send at once: reserve, write, confirm.

The journal's word is the one that counts: a number that isn't confirmed before its reservation ends is void. So the boxes ask for no order
here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from seriatim.box.connection.access import Transaction
from seriatim.errors import NumberRefused, SeriatimError, Unavailable, UsageError, shown
from seriatim.kernel.regions.votes import NO_NUMBER, Reply
from seriatim.pipeline.types.message import Message
from seriatim.regions.box_votes import Sight, Way, see, vote, withdraw
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Reservation
from seriatim.regions.numbered import Numbered, SessionNumber, by_queue
from seriatim.regions.numbering import of_journal, routed, with_number
from seriatim.regions.pair import REGIONS, Pair, Routing
from seriatim.regions.sending import Sent, strike_off
from seriatim.regions.units import known_by

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

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._began = time.monotonic()
        self._counted: dict[str, int] = {}

    def send(self, messages: Sequence[Message]) -> list[Sent]:
        if not messages:
            return []
        routing, places = routed(self._pair, messages)
        check_one_number(messages, places)
        ones = self._reserved(messages, [numbers[0] for numbers in places], routing)
        self._write(ones)
        self._confirm(ones)
        self._finish(ones)
        return _told(ones)

    def _reserved(self, messages: Sequence[Message], places: Sequence[SessionNumber], routing: Routing) -> list[_One]:
        had = self._numbers_had(messages, places)
        holders = dict(zip(had.values(), self._pair.holders(list(had.values())), strict=True))
        reserved: dict[int, _One] = {}
        again: list[str] = []
        for at, (message, place) in enumerate(zip(messages, places, strict=True)):
            if message.message_id not in had:
                continue
            own = had[message.message_id]
            holder = holders[own]
            if holder.message_id == message.message_id:
                reserved[at] = _One(
                    with_number(message, place, own.number, routing),
                    None,
                    [Reply.NOT_ASKED, Reply.NOT_ASKED, Reply.FOR],
                )
            elif holder.is_void or holder.message_id is not None:
                again.append(message.message_id)  # no claim ever has it under this number
            else:
                raise Unavailable(
                    f"number {own.number} of message {message.message_id} is reserved, and isn't confirmed",
                    where=f"session {shown(own.session, 80)}",
                    remedy=f"is its sender at work? If not, publish it again after {RESERVED_S:g} s",
                )
        self._withdraw(again)
        fresh = [at for at in range(len(messages)) if at not in reserved]
        for at, kept in zip(fresh, self._pair.reserve([places[at] for at in fresh], RESERVED_S), strict=True):
            numbered = with_number(messages[at], places[at], kept.number, routing)
            reserved[at] = _One(numbered, kept, [Reply.NOT_ASKED] * 3)
        return [reserved[at] for at in range(len(messages))]

    def _numbers_had(self, messages: Sequence[Message], places: Sequence[SessionNumber]) -> dict[str, SessionNumber]:
        """Return the numbers that messages have already, by the journal and the boxes in reach."""
        own = {message.message_id: place for message, place in zip(messages, places, strict=True)}
        numbers: dict[str, SessionNumber] = {}
        away = 0

        def seen(transaction: Transaction, region: str) -> tuple[Sight, list[str]]:
            waiting = transaction.rows("region_waiting_numbers", of_name=self._pair.name, of_messages=list(own))
            return see(transaction, self._pair.name, region, [], list(own)), sorted(row.message_id for row in waiting)

        for region in REGIONS:
            try:
                sight, waiting = self._pair.in_box(region, partial(seen, region=region))
            except Unavailable:
                away += 1
                continue
            if waiting:
                raise Unavailable(
                    f"message {waiting[0]} was committed in a transaction of region {region}, and its number isn't confirmed yet",
                    remedy="somebody has to tend the regions: seriatim regions run FILE; then publish it again",
                )
            for ident, known in sight.numbers.items():
                queue, session = own[ident].queue, own[ident].session
                number = known.get((queue, session))
                if number is not None and (ident not in numbers or number > numbers[ident].number):
                    numbers[ident] = SessionNumber(queue, session, number)
        if away == len(REGIONS):
            raise Unavailable("both regions are away", remedy="publish the same again later, under the same ids")
        return numbers | self._pair.numbers_of(own)  # confirmed numbers count

    def _write(self, ones: Sequence[_One]) -> None:
        whys = []
        for at, region in enumerate(REGIONS):
            age_us = round((time.monotonic() - self._began) * 1_000_000)
            is_first = not any(Reply.FOR in message.replies[:2] for message in ones)
            delays = [self._pair.delay(region, item.place.session, is_first=is_first, age_us=age_us) for item in ones]
            messages = [item.numbered for item in ones]
            try:
                written = self._pair.in_box(
                    region,
                    partial(
                        vote, name=self._pair.name, region=region, messages=messages, way=Way.RESERVED, delays=delays,
                        ages=[age_us] * len(messages), renumbers=True, patience_ms=self._pair.lock_ms(region),
                    ),
                )  # fmt: skip
            except Unavailable as error:
                whys.append(str(error))
                continue
            if not written.is_asked:
                whys.append(f"region {region} was restored, and hasn't learned yet")
                continue
            self._counted[region] = written.incarnation
            for message in ones:
                message.replies[at] = Reply.FOR
        if len(whys) == len(REGIONS):
            raise Unavailable(
                f"both regions are away: {'; '.join(whys)}", remedy="publish the same again later, under the same ids"
            )

    def _confirm(self, ones: Sequence[_One]) -> None:
        reserved = by_queue((item for item in ones if item.reservation is not None), lambda item: item.place)

        def confirm(journal: Journal) -> tuple[set[Reservation], dict[tuple[str, str, str], int]]:
            void: set[Reservation] = set()
            elsewhere: dict[tuple[str, str, str], int] = {}
            for queue, messages in reserved.items():
                kept = [
                    (item.reservation, of_journal(item.numbered.message, item.place))
                    for item in messages
                    if item.reservation
                ]
                lost = journal.confirm(self._pair.name, queue, kept)
                void.update(lost)
                pairs = [(item.place.session, item.message_id) for item in messages if item.reservation in lost]
                numbers = journal.numbers_of(self._pair.name, queue, pairs)
                elsewhere |= {(queue, session, ident): number for (session, ident), number in numbers.items()}
            return void, elsewhere

        void, elsewhere = self._pair.journal.call(confirm) if reserved else (set(), {})
        for item in ones:
            where = f"queue {item.place.queue!r}, session {shown(item.place.session, 80)}"
            other = elsewhere.get((item.place.queue, item.place.session, item.message_id))
            if item.reservation not in void:
                item.replies[2] = Reply.FOR
            elif other is not None:
                item.error = Unavailable(
                    f"another call has sent message {item.message_id} at the same time, under number {other}",
                    where=where,
                    remedy="publish it again: it keeps that number",
                )
            else:
                item.error = NumberRefused(
                    f"number {item.place.number} wasn't confirmed within {RESERVED_S:g} s, and is void",
                    where=where,
                    remedy="publish the message again: it gets another number",
                )

    def _finish(self, ones: Sequence[_One]) -> None:
        """Take back void messages, and remove those that both boxes have."""
        self._withdraw([message.message_id for message in ones if isinstance(message.error, NumberRefused)])
        both = [
            message.message_id
            for message in ones
            if message.error is None and message.replies[0] == message.replies[1] == Reply.FOR
        ]
        strike_off(self._pair, both, self._counted)

    def _withdraw(self, ids: Sequence[str]) -> None:
        if ids:
            self._pair.in_reach(lambda transaction: withdraw(transaction, self._pair.name, ids))


def check_one_number(messages: Sequence[Message], places: Sequence[Sequence[SessionNumber]]) -> None:
    """Refuse messages to which the journal can't give a number."""
    for message, numbers in zip(messages, places, strict=True):
        if len(numbers) > 1 or numbers[0].number != NO_NUMBER:
            raise UsageError(
                'numbers="journal" gives each message one number, and it has its own or goes to several queues',
                where=f"message {message.message_id}",
                remedy='leave the number out, or numbers="journal"',
            )


def _told(ones: Sequence[_One]) -> list[Sent]:
    failed = [message.error for message in ones if message.error is not None]
    if failed:
        first, sent = failed[0], len(ones) - len(failed)
        rest = f"; {sent} of {len(ones)} messages are sent" if sent else ""
        raise type(first)(f"{first.what}{rest}", where=first.where, remedy=first.remedy)
    return [
        Sent(item.message_id, item.place.session, item.place.number, known_by(item.replies), item.reservation is None)
        for item in ones
    ]
