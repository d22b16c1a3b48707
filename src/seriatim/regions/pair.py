"""`Pair`: the two boxes and the journal, for sending and copying."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.errors import Unavailable
from seriatim.kernel.groups.policy import Standard
from seriatim.regions.box_role import role_of
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Holder, Reservation
from seriatim.regions.numbered import SessionNumber, by_queue
from seriatim.regions.party import Party

#: The primary and the secondary.
REGIONS = ("a", "b")
#: How long a look at all waiting messages may take: of a long backlog it takes longer than a step.
LOOK_S = 30.0
#: How long a locked session is waited for once more, to find out which of several are locked.
LOCKED_MS = 10
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Routing:
    """The definitions of one of the boxes, and the queues of the regions there, for routing."""

    definitions: Definitions
    queue_ids: frozenset[int]

    def step(self, queue: str) -> tuple[int, int]:
        """Return the first number of a queue's sessions, and the step from one number to the next."""
        policy = cast("Standard", self.definitions.queues[queue].declared.policy)  # as `RegionalQueue` makes it
        return int(policy.start), policy.increment


class Pair:
    """Two boxes and a journal. Threads may share it."""

    def __init__(
        self, name: str, boxes: Mapping[str, Party[MessageBox]], journal: Party[Journal], prefer_us: int | None,
        spread_us: int,
    ) -> None:  # fmt: skip
        self.name, self.boxes, self.journal = name, boxes, journal
        self._prefer_us, self._spread_us = prefer_us, spread_us
        #: By region the row of the outbox through which it was struck off while the other box was away; 0: all of it.
        self.struck: dict[str, int] = {}
        self._routing: Routing | None = None

    def forget(self) -> None:
        self._routing = None

    def in_box(
        self, region: str, work: Callable[[Transaction], _Result], *, patience_s: float | None = None
    ) -> _Result:

        def within(box: MessageBox) -> _Result:
            with box.access.transaction() as transaction:
                return work(transaction)

        return self.boxes[region].call(within, patience_s=patience_s)

    def lock_ms(self, region: str) -> int:
        """How long a box waits for sessions that other transactions have locked: for less time than makes it count as away."""
        return max(1, round(self.boxes[region].patience_s * 500))

    def in_reach(self, work: Callable[[Transaction], object]) -> None:
        """Do work in the boxes that are there; a worker, or the copying, makes up for the others."""
        for region in self.boxes:
            with suppress(Unavailable):
                self.in_box(region, work)

    def holders(self, numbers: Sequence[SessionNumber]) -> list[Holder]:
        def ask(journal: Journal) -> list[Holder]:
            found: dict[SessionNumber, Holder] = {}
            for queue, ours in by_queue(numbers, lambda place: place).items():
                pairs = [(place.session, place.number) for place in ours]
                found.update(zip(ours, journal.holders(self.name, queue, pairs), strict=True))
            return [found[place] for place in numbers]

        return self.journal.call(ask) if numbers else []

    def numbers_of(self, messages: Mapping[str, SessionNumber]) -> dict[str, SessionNumber]:
        """Return the numbers that the journal has for messages, by their ids, in these queues and sessions."""

        def ask(journal: Journal) -> dict[str, SessionNumber]:
            by_queue: dict[str, list[tuple[str, str]]] = {}
            for ident, place in messages.items():
                by_queue.setdefault(place.queue, []).append((place.session, ident))
            return {
                ident: SessionNumber(queue, session, number)
                for queue, pairs in by_queue.items()
                for (session, ident), number in journal.numbers_of(self.name, queue, pairs).items()
            }

        return self.journal.call(ask) if messages else {}

    def reserve(self, places: Sequence[SessionNumber], lease_s: float) -> list[Reservation]:
        """Reserve the next numbers of sessions, one for each place, in their order."""

        def ask(journal: Journal) -> list[Reservation]:
            kept: dict[tuple[str, str], list[Reservation]] = {}
            for queue, ours in by_queue(places, lambda place: place).items():
                counts = Counter(place.session for place in ours)
                reserved = journal.reserve(self.name, queue, counts, lease=lease_s)
                kept |= {(queue, session): reservations for session, reservations in reserved.items()}
            return [kept[place.queue, place.session].pop(0) for place in places]

        return self.journal.call(ask) if places else []

    def routing(self, *, anew: bool = False) -> Routing:
        """Return the definitions for routing, from either box; read once, and `anew` when they don't fit any more."""
        if self._routing is None or anew:
            self._routing = self._read_routing()
        return self._routing

    def delay(self, region: str, session: str, *, is_first: bool, age_us: int = 0) -> int | None:
        """How many microseconds from now on a box hands a message out; None: at once."""
        if self._prefer_us is None:
            left = 0 if home_of(session) == region else self._spread_us - age_us
        else:
            left = 0 if is_first else self._prefer_us - age_us
        return left if left > 0 else None

    def _read_routing(self) -> Routing:
        whys = []

        def read(transaction: Transaction, region: str) -> Routing:
            role = role_of(transaction, self.name, region)
            return Routing(transaction.definitions(), role.queue_ids)

        for region in self.boxes:
            try:
                return self.in_box(region, partial(read, region=region))
            except Unavailable as error:
                whys.append(str(error))
        raise Unavailable(f"both regions are away: {'; '.join(whys)}", remedy="publish the same again later")


def not_voting(region: str, remedy: str = "repeat it later") -> Unavailable:
    return Unavailable(f"region {region} was restored, and hasn't learned from the others yet", remedy=remedy)


def home_of(session: str) -> str:
    """The region that has a session for itself at first, where both are active."""
    return REGIONS[hashlib.blake2b(session.encode(), digest_size=1).digest()[0] & 1]


def other_than(region: str) -> str:
    return REGIONS[1 - REGIONS.index(region)]
