"""Send messages to both boxes: which party votes for their numbers, and when a sender has its answer. The kernel decides each step.

All messages of a call go through the steps together: a step asks one of the three parties once, for all messages for which it is to be
asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from seriatim.box.connection.access import Transaction
from seriatim.box.postgres.translate import is_locked
from seriatim.errors import NumberRefused, Unavailable, UsageError, shown
from seriatim.kernel.regions.votes import NO_NUMBER, Reply, SendStep, Vote
from seriatim.pipeline.types.message import Message
from seriatim.regions.box_votes import BoxVotes, Way, strike, vote
from seriatim.regions.journal.journal import Journal
from seriatim.regions.numbered import Numbered
from seriatim.regions.numbering import Numbering, routed, with_number
from seriatim.regions.pair import LOCKED_MS, REGIONS, Pair, not_voting, other_than
from seriatim.regions.refusals import Refusals
from seriatim.regions.units import Unit, as_units, at_step, known_by, numbers_by_queue

_JOURNAL = 2


@dataclass(frozen=True, slots=True)
class Sent:
    message_id: str
    #: Its session; of several queues, that of the first one by name.
    session: str
    number: int
    #: The parties that are known to know the number: ``a``, ``b`` and ``journal``.
    known_by: tuple[str, ...]
    #: Whether it had the number already; perhaps by an attempt of the same call that failed.
    is_known: bool = False


class Sending:
    def __init__(self, pair: Pair, enough: int) -> None:
        self._pair, self._enough = pair, enough
        self._began = time.monotonic()
        self._counted: dict[str, int] = {}
        self._numbering = Numbering(pair)
        self._refusals = Refusals(pair, self._numbering, self._counted, self._began, enough)

    def send(self, messages: Sequence[Message]) -> list[Sent]:
        if not messages:
            return []
        units = as_units(self._numbering.numbered(messages, self._enough))
        self._ask(units)
        refused = self._refusals.withdrawn(units)
        if refused and self._numbering.gives:
            self._renumber(refused)
            self._ask(refused)
            refused = self._refusals.withdrawn(units)
        for unit in refused:
            unit.error = NumberRefused(
                f"number {unit.messages[0].places[0].number} isn't free: {unit.why}",
                where=unit.where,
                remedy='is another sender at work on this session? One at a time, or numbers="journal"',
            )
        self._strike(units)
        return told(messages, units)

    def _renumber(self, units: Sequence[Unit]) -> None:
        """Give refused messages other numbers."""
        routing = self._pair.routing()
        ours = [message for unit in units for message in unit.messages]
        numbers = iter(
            self._numbering.next([item.message for item in ours], [item.places[0] for item in ours], anew=True)
        )
        for unit in units:
            unit.messages = [
                with_number(item.message, item.places[0], next(numbers), routing) for item in unit.messages
            ]
            unit.replies, unit.first, unit.why = [Reply.NOT_ASKED] * 3, None, ""

    # ---- votes

    def _ask(self, units: Sequence[Unit]) -> None:
        """Ask for votes until there are enough, or no more."""
        for at, region in enumerate(REGIONS):
            if wanted := at_step(units, SendStep.ASK_BOX, self._enough):
                self._ask_box(at, region, wanted)
        if wanted := at_step(units, SendStep.ASK_JOURNAL, self._enough):
            self._ask_journal(wanted)
        for unit in at_step(units, SendStep.GIVE_UP, self._enough):
            if unit.error is None:
                unit.error = Unavailable(
                    "two of the three are away, so the message isn't sent for good",
                    where=unit.where,
                    remedy="publish the same again later, under the same ids",
                )

    def _ask_box(self, at: int, region: str, units: Sequence[Unit], lock_ms: int | None = None) -> None:
        messages = [message for unit in units for message in unit.messages]
        age_us = round((time.monotonic() - self._began) * 1_000_000)
        delays = [
            self._pair.delay(region, item.places[0].session, is_first=unit.first is None, age_us=age_us)
            for unit in units
            for item in unit.messages
        ]
        counted = self._counted.get(other_than(region))
        try:
            votes = self._voted(region, messages, counted, delays, age_us, lock_ms or self._pair.lock_ms(region))
        except Unavailable as error:
            if is_locked(error):
                self._refuse_locked(at, region, units)
                return
            votes = BoxVotes([], 0, is_asked=False)
        if not votes.is_asked:
            for unit in units:
                unit.replies[at] = Reply.AWAY
            return
        self._counted.setdefault(region, votes.incarnation)
        begin = 0
        for unit in units:
            end = begin + len(unit.messages)
            is_for = all(votes.votes[begin:end])
            unit.known |= votes.known.intersection(unit.ids)
            unit.replies[at] = Reply.FOR if is_for else Reply.AGAINST
            if is_for:
                unit.first = unit.first or region
            elif not votes.elsewhere.isdisjoint(range(begin, end)):
                unit.replies[at] = Reply.AWAY
            else:
                why = next(
                    (votes.why[place] for place in range(begin, end) if place in votes.why),
                    "a box was restored meanwhile",
                )
                unit.why = f"region {region} refuses it; {why}"
            begin = end

    def _refuse_locked(self, at: int, region: str, units: Sequence[Unit]) -> None:
        """Refuse the units whose sessions another transaction has locked: it may have voted for the same number. Ask for the others."""
        if len(units) > 1:
            for unit in units:
                self._ask_box(at, region, [unit], LOCKED_MS)
            return
        units[0].replies[at] = Reply.AGAINST
        units[0].error = Unavailable(
            f"another transaction in region {region} has messages of the session",
            where=units[0].where,
            remedy="publish the same messages again when that transaction has ended, under the same ids",
        )

    def _voted(
        self, region: str, messages: Sequence[Numbered], counted: int | None, delays: Sequence[int | None], age_us: int,
        lock_ms: int,
    ) -> BoxVotes:  # fmt: skip
        return self._pair.in_box(
            region,
            lambda transaction: vote(
                transaction, self._pair.name, region, messages, way=Way.SENT, counted=counted, delays=delays,
                ages=[age_us] * len(messages),
                renumbers=self._numbering.gives, patience_ms=lock_ms,
            ),
        )  # fmt: skip

    def _ask_journal(self, units: Sequence[Unit]) -> None:
        by_queue = numbers_by_queue(units)

        def ask(journal: Journal) -> dict[int, bool]:
            granted = dict.fromkeys(range(len(units)), True)
            for queue, rows in by_queue.items():
                answers = journal.vote(
                    self._pair.name,
                    queue,
                    [row for _, row in rows],
                    counted=self._counted,
                    renumbers=self._numbering.gives,
                )
                for (nth, row), answer in zip(rows, answers, strict=True):
                    granted[nth] &= answer.vote in (Vote.GRANTED, Vote.HELD)
                    if answer.vote is Vote.HELD:
                        units[nth].known.add(row.message_id)
            return granted

        try:
            votes = self._pair.journal.call(ask)
        except Unavailable:
            for unit in units:
                unit.replies[_JOURNAL] = Reply.AWAY
            return
        for nth, unit in enumerate(units):
            unit.replies[_JOURNAL] = Reply.FOR if votes[nth] else Reply.AGAINST
            if not votes[nth]:
                unit.why = (
                    "the journal refuses it: another message has this number, or a higher one, or it has another number"
                )

    def _strike(self, units: Sequence[Unit]) -> None:
        """Remove messages that both boxes have from the outboxes."""
        ids = [
            ident for unit in units if unit.error is None and unit.replies[0] == unit.replies[1] == Reply.FOR
            for ident in unit.ids
        ]  # fmt: skip
        strike_off(self._pair, ids, self._counted)


def strike_off(pair: Pair, ids: Sequence[str], counted: Mapping[str, int]) -> None:
    """Remove messages from the outboxes. `counted`: the incarnations in which the boxes had them."""
    for region in REGIONS if ids else ():
        with suppress(Unavailable):  # the copying makes up for it
            pair.in_box(region, partial(strike, name=pair.name, ids=ids, counted=counted[other_than(region)]))


def send_in(transaction: Transaction, pair: Pair, region: str, messages: Sequence[Message]) -> list[Sent]:
    """Send messages in a transaction of the caller's: with its commit the box has voted for them, and the outbox has them."""
    _, places = routed(pair, messages)
    for message, numbers in zip(messages, places, strict=True):
        if any(place.number == NO_NUMBER for place in numbers):
            raise UsageError(
                "in a transaction of yours a message needs a number of its own",
                where=f"message {message.message_id}",
                remedy="number it, or publish after the commit",
            )
    numbered = [Numbered(message, numbers) for message, numbers in zip(messages, places, strict=True)]
    delays = [pair.delay(region, item.places[0].session, is_first=True) for item in numbered]
    with transaction.connection.transaction():
        votes = vote(transaction, pair.name, region, numbered, way=Way.SENT, delays=delays)
        if not votes.is_asked:
            raise not_voting(region)
        refused = next((at for at, is_for in enumerate(votes.votes) if not is_for), None)
        if refused is not None:
            place = places[refused][0]
            raise NumberRefused(
                f"number {place.number} isn't free: region {region} refuses it; {votes.why.get(refused, '')}",
                where=f"queue {place.queue!r}, session {shown(place.session, 80)}",
                remedy="is another sender at work on this session?",
            )
    ids = [message.message_id for message in messages]
    return [
        Sent(id_, item.places[0].session, item.places[0].number, (region,), id_ in votes.known)
        for id_, item in zip(ids, numbered, strict=True)
    ]


def told(messages: Sequence[Message], units: Iterable[Unit]) -> list[Sent]:
    sent_by_id: dict[str, Sent] = {}
    errors = []
    for unit in units:
        if unit.error is not None:
            errors.append(unit.error)
            continue
        knowing = known_by(unit.replies)
        for item in unit.messages:
            place, id_ = item.places[0], item.message.message_id
            sent_by_id[id_] = Sent(id_, place.session, place.number, knowing, id_ in unit.known)
    if errors:
        first = errors[0]
        more = f"; {len(errors) - 1} more sessions failed" if len(errors) > 1 else ""
        rest = f"; {len(sent_by_id)} messages of other sessions are sent" if sent_by_id else ""
        raise type(first)(f"{first.what}{more}{rest}", where=first.where, remedy=first.remedy)
    return [sent_by_id[message.message_id] for message in messages]
