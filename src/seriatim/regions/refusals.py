"""The fate of messages whose numbers were refused: sent after all, free for another number, or unknown.

A refused message gets another number only if the journal has barred it from the first one, or nobody has it there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from seriatim.errors import Unavailable
from seriatim.kernel.regions import votes as rules
from seriatim.kernel.regions.votes import Reply, SendStep, Vote
from seriatim.regions.box_votes import Sight, withdraw
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Holder
from seriatim.regions.numbered import SessionNumber
from seriatim.regions.numbering import Numbering
from seriatim.regions.pair import REGIONS, Pair
from seriatim.regions.units import Unit, at_step, numbers_by_queue


class Refusals:
    def __init__(self, pair: Pair, numbering: Numbering, counted: Mapping[str, int], began: float, enough: int) -> None:
        self._pair, self._numbering, self._counted = pair, numbering, counted
        self._began, self._enough = began, enough

    def withdrawn(self, units: list[Unit]) -> list[Unit]:
        """Take back refused messages. Messages that turn out to be sent become a unit of their own, after the others."""
        withdrawn = at_step(units, SendStep.WITHDRAW, self._enough)
        refused = [unit for unit in withdrawn if unit.error is None and not unit.is_sent]
        may_bar = rules.may_bar(
            np.array([unit.replies[0] for unit in refused], np.int64),
            np.array([unit.replies[1] for unit in refused], np.int64),
        ).tolist()
        unwritten, barring = [], []
        for unit, bars in zip(refused, may_bar, strict=True):
            if Reply.FOR not in unit.replies and Reply.AWAY not in unit.replies:
                unwritten.append(unit)  # by this call
            elif bars and self._enough > 1:
                barring.append(unit)
            else:
                unit.error = _unsure(unit, "a reply is missing")
        return [*self._free(unwritten), *self._barred(units, barring)]

    def _free(self, refused: Sequence[Unit]) -> list[Unit]:
        """Return the units that this call hasn't written, and that no earlier call has written either, or that are barred. A box refuses a
        message, too, that it has as a copy, or had voted for before it was restored: it may be handled under its number.
        """
        if not refused:
            return []
        ids = [ident for unit in refused for ident in unit.ids]
        sessions = [(place.queue, place.session) for unit in refused for each in unit.messages for place in each.places]
        sights = [self._numbering.seen(region, sessions, ids) for region in REGIONS]
        holders = self._holders([place for unit in refused for each in unit.messages for place in each.places])
        free = []
        for unit in refused:
            if holders is None or None in sights:
                unit.error = _unsure(unit, "one of the three is away")
                continue
            barring = [
                (each.message.message_id, place, holders[place]) for each in unit.messages for place in each.places
            ]
            left = [place for ident, place, _ in barring if any(_has(sight, ident, place) for sight in sights)]
            if all(holder.message_id == ident for ident, _, holder in barring):
                unit.replies = [Reply.AGAINST, Reply.AGAINST, Reply.FOR]
                unit.is_sent = True
            elif any(holder.message_id == ident for ident, _, holder in barring):
                unit.error = _unsure(unit, "some messages of the session are sent")
            elif all(holder.is_void or holder.message_id is not None for _, _, holder in barring):
                free.append(unit)  # no claim ever has them under these numbers
            elif left:
                unit.error = _unsure(
                    unit, "an earlier call has left it in a region, and the journal doesn't know it yet"
                )
            else:
                free.append(unit)
        self._take_back([ident for unit in free for ident in unit.ids])
        return free

    def _holders(self, places: Sequence[SessionNumber]) -> dict[SessionNumber, Holder] | None:
        """Return the holders of numbers; None: the journal is away."""
        try:
            return dict(zip(places, self._pair.holders(places), strict=True))
        except Unavailable:
            return None

    def _barred(self, units: list[Unit], barring: Sequence[Unit]) -> list[Unit]:
        """Have the journal bar messages from their numbers, and withdraw them."""
        if not barring:
            return []
        by_queue, age_s = numbers_by_queue(barring), time.monotonic() - self._began

        def bar(journal: Journal) -> dict[int, dict[str, Vote]]:
            answers_of: dict[int, dict[str, Vote]] = {nth: {} for nth in range(len(barring))}
            for queue, rows in by_queue.items():
                answers = journal.bar(
                    self._pair.name, queue, [row for _, row in rows], age=age_s, counted=self._counted
                )
                for (nth, row), answer in zip(rows, answers, strict=True):
                    answers_of[nth][row.message_id] = _worst(answers_of[nth].get(row.message_id), answer)
            return answers_of

        try:
            answers = self._pair.journal.call(bar)
        except Unavailable as error:
            for unit in barring:
                unit.error = _unsure(unit, str(error))
            return []
        barred = [unit for nth, unit in enumerate(barring) if self._is_barred(units, unit, answers[nth])]
        self._take_back([ident for unit in barred for ident in unit.ids])
        return barred

    @staticmethod
    def _is_barred(units: list[Unit], unit: Unit, answers: Mapping[str, Vote]) -> bool:
        """Return whether any of a unit is left, all barred. What the journal has is sent, in a unit of its own."""
        if Vote.STALE in answers.values():
            unit.error = _unsure(unit, "a box was restored meanwhile")
            return False
        held = [each for each in unit.messages if answers[each.message.message_id] == Vote.HELD]
        unit.messages = [each for each in unit.messages if each not in held]
        if held:  # the journal knows them, and one box
            units.append(Unit(held, [*unit.replies[:2], Reply.FOR], unit.first, is_sent=True))
        if not unit.messages:
            units.remove(unit)
        return bool(unit.messages)

    def _take_back(self, ids: Sequence[str]) -> None:
        """Take barred messages out of the boxes in reach; the worker of another box learns their fate from the journal."""
        if ids:
            self._pair.in_reach(lambda transaction: withdraw(transaction, self._pair.name, ids))


def _has(sight: Sight | None, ident: str, place: SessionNumber) -> bool:
    """Whether a box has a message under a number."""
    return sight is not None and sight.numbers.get(ident, {}).get((place.queue, place.session)) == place.number


def _worst(vote: Vote | None, other: Vote) -> Vote:
    """Return the worse vote for a message in several queues: unknown, before sent, before barred."""
    order = (Vote.STALE, Vote.HELD, Vote.GRANTED)
    return other if vote is None else min(vote, other, key=order.index)


def _unsure(unit: Unit, why: str) -> Unavailable:
    return Unavailable(
        f"number {unit.messages[0].places[0].number} was refused ({unit.why}), and nobody can say what became of it: {why}",
        where=unit.where,
        remedy="publish the same again later, under the same id and number",
    )
