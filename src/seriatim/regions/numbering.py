"""Number messages that are sent to two regions: by their own numbers, earlier ones, or the next ones that two of three parties know."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from seriatim.errors import Unavailable, UsageError
from seriatim.kernel.regions import votes as rules
from seriatim.kernel.regions.votes import NO_NUMBER
from seriatim.kernel.values.columns import Ints
from seriatim.pipeline.types.message import Message, with_context
from seriatim.regions.box_votes import Sight, route_in, see
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Numbered as OfJournal
from seriatim.regions.journal.values import digest_of
from seriatim.regions.numbered import Numbered, SessionNumber, places_of
from seriatim.regions.pair import REGIONS, Pair, Routing


class Numbering:
    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        #: Whether it has given numbers to messages that had none.
        self.gives = False

    def numbered(self, messages: Sequence[Message], enough: int) -> list[Numbered]:
        routing, places = routed(self._pair, messages)
        without = [at for at, numbers in enumerate(places) if any(place.number == NO_NUMBER for place in numbers)]
        if not without:
            return [Numbered(message, numbers) for message, numbers in zip(messages, places, strict=True)]
        if enough == 1:
            raise UsageError(
                "confirm=\"one\" needs numbers of the sender's own: one box alone can't say which is next",
                where=f"message {messages[without[0]].message_id}",
                remedy='number them, or leave out confirm="one"',
            )
        _check_unnumbered(messages, places, without)
        self.gives = True
        fresh = self.next([messages[at] for at in without], [places[at][0] for at in without])
        numbered = [Numbered(message, numbers) for message, numbers in zip(messages, places, strict=True)]
        for at, number in zip(without, fresh, strict=True):
            numbered[at] = with_number(messages[at], places[at][0], number, routing)
        return numbered

    def next(self, messages: Sequence[Message], places: Sequence[SessionNumber], *, anew: bool = False) -> list[int]:
        sessions = sorted({(number.queue, number.session) for number in places})
        ids = [item.message_id for item in messages]
        sights: list[Sight | None] = [self.seen(region, sessions, ids) for region in REGIONS]
        if None in sights:
            sights.append(self._journal_sees(messages, places))
        rows = {key: at for at, key in enumerate(sessions)}
        routing = self._pair.routing()  # the queues of both boxes begin as the journal's do
        steps = [routing.step(queue) for queue, _ in sessions]
        increments = np.array([increment for _, increment in steps], np.int64)
        begins = [start - increment for start, increment in steps]
        following = rules.next_numbers(
            [_throughs(sight, sessions, begins) for sight in sights],
            [np.full(len(sessions), sight is not None, np.bool_) for sight in sights],
            increments,
        ).tolist()
        if following[0] == NO_NUMBER:
            raise Unavailable(
                "two of the three are away: nobody can say which number is next", remedy="publish the same again later"
            )
        had = [_numbers_in(sights, message, place) for message, place in zip(messages, places, strict=True)]
        if not anew and any(len(known) > 1 for known in had):  # the journal's counts
            journal = [self._journal_sees(messages, places)]
            had = [
                _numbers_in(journal, message, place) or known
                for message, place, known in zip(messages, places, had, strict=True)
            ]
        numbers = []
        for known, place in zip(had, places, strict=True):
            key = place.queue, place.session
            if known and not anew:
                numbers.append(max(known))
                continue
            numbers.append(following[rows[key]])
            following[rows[key]] += int(increments[rows[key]])
        return numbers

    def seen(self, region: str, sessions: list[tuple[str, str]], ids: list[str]) -> Sight | None:
        """Return a box's knowledge; None: it is away, or doesn't vote."""
        look = partial(see, name=self._pair.name, region=region, sessions=sessions, ids=ids)
        try:
            sight = self._pair.in_box(region, look)
        except Unavailable:
            return None
        return sight if sight.votes else None

    def _journal_sees(self, messages: Sequence[Message], places: Sequence[SessionNumber]) -> Sight | None:
        """Return the journal's knowledge, in place of a box; None: it is away."""
        by_queue: dict[str, list[tuple[str, str]]] = {}
        for message, place in zip(messages, places, strict=True):
            by_queue.setdefault(place.queue, []).append((place.session, message.message_id))

        def read(journal: Journal) -> Sight:
            through: dict[tuple[str, str], int] = {}
            numbers: dict[str, dict[tuple[str, str], int]] = {}
            for queue, pairs in by_queue.items():
                throughs = journal.through(self._pair.name, queue, sorted({session for session, _ in pairs}))
                through |= {(queue, session): number for session, number in throughs.items()}
                for (session, ident), number in journal.numbers_of(self._pair.name, queue, pairs).items():
                    numbers.setdefault(ident, {})[queue, session] = number
            return Sight(through, numbers)

        try:
            return self._pair.journal.call(read)
        except Unavailable:
            return None


def _numbers_in(sights: Sequence[Sight | None], message: Message, place: SessionNumber) -> set[int]:
    """Return the numbers under which some parties know a message."""
    key = place.queue, place.session
    had = {sight.numbers.get(message.message_id, {}).get(key) for sight in sights if sight is not None}
    return {number for number in had if number is not None}


def routed(pair: Pair, messages: Sequence[Message]) -> tuple[Routing, list[tuple[SessionNumber, ...]]]:
    """Return the numbers of messages, `NO_NUMBER` for none, by the known definitions, or else by the present ones."""
    anew = False
    while True:
        routing = pair.routing(anew=anew)
        try:
            routed = route_in(None, messages, routing.definitions)
            return routing, places_of(routed, routing.definitions, routing.queue_ids)
        except UsageError:
            if anew:
                raise
            anew = True


def _check_unnumbered(
    messages: Sequence[Message], places: Sequence[Sequence[SessionNumber]], without: Sequence[int]
) -> None:
    own = {(place.queue, place.session) for numbers in places for place in numbers if place.number != NO_NUMBER}
    for at in without:
        where = f"message {messages[at].message_id}"
        if len(places[at]) > 1:
            raise UsageError(
                "a message for several queues can't be given a number: it would need one in each",
                where=where,
                remedy="give it its own number in each, or publish a message for each queue",
            )
        if (places[at][0].queue, places[at][0].session) in own:
            raise UsageError(
                "some messages of the session have numbers, and this one has none",
                where=where,
                remedy="number all, or none",
            )


def with_number(message: Message, place: SessionNumber, number: int, routing: Routing) -> Numbered:
    name = str(routing.definitions.queues[place.queue].declared.sequence)
    return Numbered(
        with_context(message, {**message.context, name: number}), (SessionNumber(place.queue, place.session, number),)
    )


def of_journal(message: Message, place: SessionNumber) -> OfJournal:
    digest = digest_of(message.type, message.content_type, message.body)
    return OfJournal(place.session, place.number, message.message_id, digest)


def _throughs(sight: Sight | None, sessions: Sequence[tuple[str, str]], begins: Sequence[int]) -> Ints:
    """Return the highest number of each session that a party knows; an unknown session hasn't begun."""
    known = {} if sight is None else sight.through
    return np.array([known.get(key, begin) for key, begin in zip(sessions, begins, strict=True)], np.int64)
