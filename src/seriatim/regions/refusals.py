"""What becomes of messages whose numbers were refused: sent after all, free for another number, or nobody knows.

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
from seriatim.regions.units import Unit, numbers_by_queue, steps

__all__ = ["Refusals"]


class Refusals:
    """The refusals of one call of `Regions.publish`."""

    def __init__(self, pair: Pair, numbering: Numbering, counted: Mapping[str, int], began: float, enough: int) -> None:
        self._pair, self._numbering, self._counted = pair, numbering, counted
        self._began, self._enough = began, enough

    def withdrawn(self, units: list[Unit]) -> list[Unit]:
        """Take back what was refused. Messages that turn out to be sent are moved into a unit of their own, behind the others."""
        refused = [
            one for one, step in zip(units, steps(units, self._enough), strict=True)
            if one.error is None and not one.is_sent and step == SendStep.WITHDRAW
        ]  # fmt: skip
        may_bar = rules.may_bar(
            np.array([one.replies[0] for one in refused], np.int64),
            np.array([one.replies[1] for one in refused], np.int64),
        ).tolist()
        unwritten, barring = [], []
        for one, bars in zip(refused, may_bar, strict=True):
            if Reply.FOR not in one.replies and Reply.AWAY not in one.replies:
                unwritten.append(one)  # by this call
            elif bars and self._enough > 1:
                barring.append(one)
            else:
                one.error = _unsure(one, "a reply is missing")
        return [*self._free(unwritten), *self._barred(units, barring)]

    def _free(self, refused: Sequence[Unit]) -> list[Unit]:
        """Of units of which this call has written nothing, those of which an earlier call has left nothing either, or that are barred.

        A box refuses a message, too, that it has as a copy, or had voted for before it was restored: it may be handled under its number.
        """
        if not refused:
            return []
        ids = [ident for one in refused for ident in one.ids]
        sessions = [(place.queue, place.session) for one in refused for each in one.messages for place in each.places]
        sights = [self._numbering.seen(region, sessions, ids) for region in REGIONS]
        holders = self._holders(refused)
        free = []
        for nth, one in enumerate(refused):
            if holders is None or None in sights:
                one.error = _unsure(one, "one of the three is away")
                continue
            its = [
                (each.message.message_id, place, holders[nth, place]) for each in one.messages for place in each.places
            ]
            left = [place for ident, place, _ in its if any(_has(sight, ident, place) for sight in sights)]
            if all(holder.message_id == ident for ident, _, holder in its):
                one.replies = [Reply.AGAINST, Reply.AGAINST, Reply.FOR]
                one.is_sent = True
            elif any(holder.message_id == ident for ident, _, holder in its):
                one.error = _unsure(one, "some messages of the session are sent")
            elif all(holder.is_void or holder.message_id is not None for _, _, holder in its):
                free.append(one)  # nobody ever claims them under these numbers
            elif left:
                one.error = _unsure(one, "an earlier call has left it in a region, and the journal doesn't know it yet")
            else:
                free.append(one)
        self._take_back([ident for one in free for ident in one.ids])
        return free

    def _holders(self, units: Sequence[Unit]) -> dict[tuple[int, SessionNumber], Holder] | None:
        """Whose the numbers are, by the place of their unit; None: the journal is away."""
        by_queue: dict[str, list[tuple[int, SessionNumber]]] = {}
        for nth, unit in enumerate(units):
            for one in unit.messages:
                for place in one.places:
                    by_queue.setdefault(place.queue, []).append((nth, place))

        def ask(journal: Journal) -> dict[tuple[int, SessionNumber], Holder]:
            return {
                key: holder
                for queue, its in by_queue.items()
                for key, holder in zip(
                    its,
                    journal.holders(self._pair.name, queue, [(place.session, place.number) for _, place in its]),
                    strict=True,
                )
            }

        try:
            return self._pair.journal.call(ask)
        except Unavailable:
            return None

    def _barred(self, units: list[Unit], barring: Sequence[Unit]) -> list[Unit]:
        """Have the journal bar messages from their numbers, and withdraw them."""
        if not barring:
            return []
        by_queue, age_s = numbers_by_queue(barring), time.monotonic() - self._began

        def bar(journal: Journal) -> dict[int, dict[str, Vote]]:
            found: dict[int, dict[str, Vote]] = {nth: {} for nth in range(len(barring))}
            for queue, rows in by_queue.items():
                answers = journal.bar(
                    self._pair.name, queue, [row for _, row in rows], age=age_s, counted=self._counted
                )
                for (nth, row), answer in zip(rows, answers, strict=True):
                    found[nth][row.message_id] = _worst(found[nth].get(row.message_id), answer)
            return found

        try:
            answers = self._pair.journal.call(bar)
        except Unavailable as error:
            for one in barring:
                one.error = _unsure(one, str(error))
            return []
        gone = [one for nth, one in enumerate(barring) if self._is_barred(units, one, answers[nth])]
        self._take_back([ident for one in gone for ident in one.ids])
        return gone

    @staticmethod
    def _is_barred(units: list[Unit], one: Unit, answers: Mapping[str, Vote]) -> bool:
        """Whether messages are left of a unit, and all of them are barred. Those that the journal has are sent, and a unit of their own."""
        if Vote.STALE in answers.values():
            one.error = _unsure(one, "a box was restored meanwhile")
            return False
        held = [each for each in one.messages if answers[each.message.message_id] == Vote.HELD]
        one.messages = [each for each in one.messages if each not in held]
        if held:  # the journal knows them, and one box
            units.append(Unit(held, [*one.replies[:2], Reply.FOR], one.first, is_sent=True))
        if not one.messages:
            units.remove(one)
        return bool(one.messages)

    def _take_back(self, ids: Sequence[str]) -> None:
        """Take barred messages out of the boxes that are there; where one is away, its worker hears from the journal what became of them."""
        for region in REGIONS if ids else ():
            try:
                self._pair.in_box(region, lambda one: withdraw(one, self._pair.name, ids))
            except Unavailable:
                continue


def _has(sight: Sight | None, ident: str, place: SessionNumber) -> bool:
    """Whether a box has a message under a number."""
    return sight is not None and sight.numbers.get(ident, {}).get((place.queue, place.session)) == place.number


def _worst(one: Vote | None, other: Vote) -> Vote:
    """Of a message in several queues: nobody knows, before it is sent, before it is barred."""
    order = (Vote.STALE, Vote.HELD, Vote.GRANTED)
    return other if one is None else min(one, other, key=order.index)


def _unsure(unit: Unit, why: str) -> Unavailable:
    return Unavailable(
        f"number {unit.messages[0].places[0].number} was refused ({unit.why}), and nobody can say what became of it: {why}",
        where=unit.where, remedy="publish the same again later, under the same id and number",
    )  # fmt: skip
