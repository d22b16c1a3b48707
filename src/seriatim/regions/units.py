"""Units of messages that are sent to two regions together, and the replies to a sender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from seriatim.errors import SeriatimError, shown
from seriatim.kernel.regions import votes as rules
from seriatim.kernel.regions.votes import Reply, SendStep
from seriatim.regions.journal.values import Numbered as OfJournal
from seriatim.regions.numbered import Numbered, units_of
from seriatim.regions.numbering import of_journal
from seriatim.regions.pair import REGIONS


@dataclass(slots=True)
class Unit:
    """Messages sent or refused together: a session's. `first`: the first box that has them. `is_sent`: the journal has them. `known`: the
    ids of those that a party knew before.
    """

    messages: list[Numbered]
    replies: list[Reply] = field(default_factory=lambda: [Reply.NOT_ASKED] * 3)
    first: str | None = None
    why: str = ""
    error: SeriatimError | None = None
    is_sent: bool = False
    known: set[str] = field(default_factory=set)

    @property
    def where(self) -> str:
        """The queue and the session of its first message, in words."""
        place = self.messages[0].places[0]
        return f"queue {place.queue!r}, session {shown(place.session, 80)}"

    @property
    def ids(self) -> list[str]:
        return [item.message.message_id for item in self.messages]


def at_step(units: Sequence[Unit], wanted: SendStep, enough: int) -> list[Unit]:
    first, second, journal = (np.array([unit.replies[party] for unit in units], np.int64) for party in range(3))
    steps = rules.send_steps(first, second, journal, enough).tolist()
    return [unit for unit, step in zip(units, steps, strict=True) if step == wanted]


def known_by(replies: Sequence[Reply]) -> tuple[str, ...]:
    """Return the parties that know a number: ``a``, ``b`` and ``journal``."""
    return tuple(party for party, reply in zip((*REGIONS, "journal"), replies, strict=True) if reply == Reply.FOR)


def as_units(messages: Sequence[Numbered]) -> list[Unit]:
    """Return the units of messages, each with its numbers ascending."""
    units: dict[int, Unit] = {}
    for unit, message in zip(units_of([item.places for item in messages]), messages, strict=True):
        units.setdefault(unit, Unit([])).messages.append(message)
    return list(units.values())


def numbers_by_queue(units: Sequence[Unit]) -> dict[str, list[tuple[int, OfJournal]]]:
    """The numbers of messages by their queues, each with the place of its unit."""
    numbers: dict[str, list[tuple[int, OfJournal]]] = {}
    for nth, unit in enumerate(units):
        for item in unit.messages:
            for place in item.places:
                numbers.setdefault(place.queue, []).append((nth, of_journal(item.message, place)))
    return numbers
