"""Send messages to both boxes: which number each gets, who votes for it, and what is done where somebody refuses. The kernel decides each step.

All messages of a call go through the steps together: a step asks one of the three parties once, for all messages for which it is to be asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from seriatim.box.connection.access import Transaction
from seriatim.errors import SeriatimError, Unavailable, UsageError, shown
from seriatim.kernel import votes as rules
from seriatim.kernel.columns import Ints
from seriatim.kernel.votes import NO_NUMBER, Reply, SendStep, Vote
from seriatim.pipeline.types.message import Message, with_context
from seriatim.regions.box_votes import BoxVotes, Sight, Way, route_in, see, strike, vote, withdraw
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Holder, digest_of
from seriatim.regions.journal.values import Numbered as OfJournal
from seriatim.regions.numbered import Numbered, Place, places_of, units_of
from seriatim.regions.pair import REGIONS, Pair, Routing, other_than

__all__ = ["NumberRefused", "Sending", "Sent"]

_JOURNAL = 2


class NumberRefused(UsageError):
    """A message didn't get its number, because another message has it, or a higher one. It isn't handed out under this number."""

    code = "number-refused"


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was sent to two regions.

    Args:
        message_id: its id.
        session: its session; of several queues, that of the first one by name.
        number: its number there.
        known_by: who is known to know the number: ``a``, ``b`` and ``journal``.
    """

    message_id: str
    session: str
    number: int
    known_by: tuple[str, ...]


@dataclass(slots=True)
class _Unit:
    """Messages that stand or fall together: those of a session.

    `replies`: of the two boxes and the journal. `first`: the first box that has them. `why`: why they were refused. `is_sent`: the journal has them, whatever
    the boxes say.
    """

    messages: list[Numbered]
    replies: list[Reply] = field(default_factory=lambda: [Reply.NOT_ASKED] * 3)
    first: str | None = None
    why: str = ""
    error: SeriatimError | None = None
    is_sent: bool = False

    @property
    def where(self) -> str:
        place = self.messages[0].places[0]
        return f"queue {place.queue!r}, session {shown(place.session, 80)}"

    @property
    def ids(self) -> list[str]:
        return [one.message.message_id for one in self.messages]


class Sending:
    """One call of `Regions.publish`.

    Args:
        pair: the boxes and the journal.
        restore: lets a restored box take over what the others know; whether it votes now.
        enough: how many of the three have to know a number: 2, or 1: one box.
    """

    def __init__(self, pair: Pair, restore: Callable[[str], bool], enough: int) -> None:
        self._pair, self._restore, self._enough = pair, restore, enough
        self._began = time.monotonic()
        self._counted: dict[str, int] = {}
        self._numbers_are_given = False

    def send(self, messages: Sequence[Message]) -> list[Sent]:
        """Send messages.

        Raises:
            UsageError: a message can't be sent.
            NumberRefused: other messages have the numbers of some. The messages of other sessions are sent.
            Unavailable: two of the three are away; the messages of some sessions may be sent. To publish all again is safe.
        """
        if not messages:
            return []
        units = _as_units(self._numbered(messages))
        self._ask(units)
        refused = self._withdrawn(units)
        if refused and self._numbers_are_given:
            self._renumber(refused)
            self._ask(refused)
            refused = self._withdrawn(units)
        for one in refused:
            one.error = NumberRefused(
                f"number {one.messages[0].places[0].number} isn't free: {one.why}", where=one.where,
                remedy='is another sender at work on this session? One at a time, or numbers="journal"',
            )  # fmt: skip
        self._strike(units)
        return told(messages, units)

    # ---- numbers

    def _numbered(self, messages: Sequence[Message]) -> list[Numbered]:
        """Messages with their own numbers, or with the next ones."""
        routing, places = routed(self._pair, messages)
        without = [at for at, its in enumerate(places) if any(one.number == NO_NUMBER for one in its)]
        if not without:
            return [Numbered(one, its) for one, its in zip(messages, places, strict=True)]
        if self._enough == 1:
            raise UsageError(
                'confirm="one" needs numbers of the sender\'s own: one box alone can\'t say which is next',
                where=f"message {messages[without[0]].message_id}", remedy='number them, or leave out confirm="one"',
            )  # fmt: skip
        check_unnumbered(messages, places, without)
        self._numbers_are_given = True
        given = self._next([messages[at] for at in without], [places[at][0] for at in without])
        found = [Numbered(one, its) for one, its in zip(messages, places, strict=True)]
        for at, number in zip(without, given, strict=True):
            found[at] = with_number(messages[at], places[at][0], number, routing)
        return found

    def _next(self, messages: Sequence[Message], places: Sequence[Place], *, anew: bool = False) -> list[int]:
        """The numbers that messages have, or the next ones.

        Args:
            messages: the messages, in their order.
            places: the queue and the session of each.
            anew: whether they get others than those that they have.

        Raises:
            Unavailable: two of the three are away.
        """
        sessions = sorted({(one.queue, one.session) for one in places})
        ids = [one.message_id for one in messages]
        sights: list[Sight | None] = [self._seen(region, sessions, ids) for region in REGIONS]
        if None in sights:
            sights.append(self._journal_sees(messages, places))
        rows = {key: at for at, key in enumerate(sessions)}
        routing = self._pair.routing()  # the queues of both boxes begin as the journal's do
        steps = [routing.step(queue) for queue, _ in sessions]
        increments = np.array([increment for _, increment in steps], np.int64)
        begins = [start - increment for start, increment in steps]
        following = rules.next_numbers(
            [_throughs(one, sessions, begins) for one in sights],
            [np.full(len(sessions), one is not None, np.bool_) for one in sights],
            increments,
        ).tolist()  # fmt: skip
        if following[0] == NO_NUMBER:
            raise Unavailable(
                "two of the three are away: nobody can say which number is next", remedy="publish the same again later"
            )
        found = []
        for message, place in zip(messages, places, strict=True):
            key = place.queue, place.session
            had = [one.numbers.get(message.message_id, {}).get(key) for one in sights if one is not None]
            known = [one for one in had if one is not None]
            if known and not anew:
                found.append(max(known))
                continue
            found.append(following[rows[key]])
            following[rows[key]] += int(increments[rows[key]])
        return found

    def _seen(self, region: str, sessions: list[tuple[str, str]], ids: list[str]) -> Sight | None:
        """What a box knows; None: it is away, or doesn't vote."""
        try:
            sight = self._pair.in_box(region, lambda one: see(one, self._pair.name, region, sessions, ids))
            if not sight.votes and self._restore(region):
                sight = self._pair.in_box(region, lambda one: see(one, self._pair.name, region, sessions, ids))
        except Unavailable:
            return None
        return sight if sight.votes else None

    def _journal_sees(self, messages: Sequence[Message], places: Sequence[Place]) -> Sight | None:
        """What the journal knows, in place of a box; None: it is away."""
        by_queue: dict[str, list[tuple[str, str]]] = {}
        for message, place in zip(messages, places, strict=True):
            by_queue.setdefault(place.queue, []).append((place.session, message.message_id))

        def read(journal: Journal) -> Sight:
            through: dict[tuple[str, str], int] = {}
            numbers: dict[str, dict[tuple[str, str], int]] = {}
            for queue, its in by_queue.items():
                found = journal.through(self._pair.name, queue, sorted({session for session, _ in its}))
                through |= {(queue, session): number for session, number in found.items()}
                for (session, ident), number in journal.numbers_of(self._pair.name, queue, its).items():
                    numbers.setdefault(ident, {})[queue, session] = number
            return Sight(through, numbers)

        try:
            return self._pair.journal.call(read)
        except Unavailable:
            return None

    def _renumber(self, units: Sequence[_Unit]) -> None:
        """Give refused messages other numbers."""
        routing = self._pair.routing()
        ours = [one for unit in units for one in unit.messages]
        numbers = iter(self._next([one.message for one in ours], [one.places[0] for one in ours], anew=True))
        for unit in units:
            unit.messages = [with_number(one.message, one.places[0], next(numbers), routing) for one in unit.messages]
            unit.replies, unit.first, unit.why = [Reply.NOT_ASKED] * 3, None, ""

    # ---- votes

    def _ask(self, units: Sequence[_Unit]) -> None:
        """Ask for votes until there are enough, or no more."""
        for at, region in enumerate(REGIONS):
            asked = [one for one, step in zip(units, self._steps(units), strict=True) if step == SendStep.ASK_BOX]
            if asked:
                self._ask_box(at, region, asked)
        asked = [one for one, step in zip(units, self._steps(units), strict=True) if step == SendStep.ASK_JOURNAL]
        if asked:
            self._ask_journal(asked)
        for one, step in zip(units, self._steps(units), strict=True):
            if step == SendStep.GIVE_UP and one.error is None:
                one.error = Unavailable(
                    "two of the three are away, so the message isn't sent for good", where=one.where,
                    remedy="publish the same again later, under the same ids",
                )  # fmt: skip

    def _steps(self, units: Sequence[_Unit]) -> list[int]:
        first, second, journal = (np.array([one.replies[party] for one in units], np.int64) for party in range(3))
        found: list[int] = rules.send_steps(first, second, journal, self._enough).tolist()
        return found

    def _ask_box(self, at: int, region: str, units: Sequence[_Unit]) -> None:
        messages = [one for unit in units for one in unit.messages]
        age_us = round((time.monotonic() - self._began) * 1_000_000)
        delays = [
            self._pair.delay(region, one.places[0].session, is_first=unit.first is None, age_us=age_us)
            for unit in units for one in unit.messages
        ]  # fmt: skip
        counted = self._counted.get(other_than(region))
        try:
            found = self._voted(region, messages, counted, delays, age_us)
            if not found.is_asked and self._restore(region):
                found = self._voted(region, messages, counted, delays, age_us)
        except Unavailable:
            found = BoxVotes([], 0, is_asked=False)
        if not found.is_asked:
            for unit in units:
                unit.replies[at] = Reply.AWAY
            return
        self._counted[region] = found.incarnation
        begin = 0
        for unit in units:
            end = begin + len(unit.messages)
            is_for = all(found.votes[begin:end])
            unit.replies[at] = Reply.FOR if is_for else Reply.AGAINST
            if is_for:
                unit.first = unit.first or region
            else:
                why = next(
                    (found.why[one] for one in range(begin, end) if one in found.why), "a box was restored meanwhile"
                )
                unit.why = f"region {region} refuses it; {why}"
            begin = end

    def _voted(
        self, region: str, messages: Sequence[Numbered], counted: int | None, delays: Sequence[int | None], age_us: int
    ) -> BoxVotes:
        return self._pair.in_box(
            region,
            lambda one: vote(
                one, self._pair.name, region, messages, way=Way.SENT, counted=counted, delays=delays,
                ages=[age_us] * len(messages),
                renumbers=self._numbers_are_given,
            ),
        )  # fmt: skip

    def _ask_journal(self, units: Sequence[_Unit]) -> None:
        by_queue = _by_queue(units)

        def ask(journal: Journal) -> dict[int, bool]:
            granted = dict.fromkeys(range(len(units)), True)
            for queue, rows in by_queue.items():
                answers = journal.vote(self._pair.name, queue, [row for _, row in rows], counted=self._counted)
                for (nth, _), answer in zip(rows, answers, strict=True):
                    granted[nth] &= answer.vote in (Vote.GRANTED, Vote.HELD)
            return granted

        try:
            found = self._pair.journal.call(ask)
        except Unavailable:
            for one in units:
                one.replies[_JOURNAL] = Reply.AWAY
            return
        for nth, one in enumerate(units):
            one.replies[_JOURNAL] = Reply.FOR if found[nth] else Reply.AGAINST
            if not found[nth]:
                one.why = "the journal refuses it: another message has this number, or a higher one"

    # ---- refusals

    def _withdrawn(self, units: list[_Unit]) -> list[_Unit]:
        """Take back what was refused. Messages that turn out to be sent are moved into a unit of their own, behind the others.

        Returns:
            the units whose messages aren't handed out under their numbers: they may get others.
        """
        refused = [
            one for one, step in zip(units, self._steps(units), strict=True)
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

    def _free(self, refused: Sequence[_Unit]) -> list[_Unit]:
        """Of units of which this call has written nothing, those of which an earlier call has left nothing either, or that are barred.

        A box refuses a message, too, that it has as a copy, or had voted for before it was restored: it may be handled under its number.
        """
        if not refused:
            return []
        ids = [ident for one in refused for ident in one.ids]
        sessions = [(place.queue, place.session) for one in refused for each in one.messages for place in each.places]
        sights = [self._seen(region, sessions, ids) for region in REGIONS]
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

    def _holders(self, units: Sequence[_Unit]) -> dict[tuple[int, Place], Holder] | None:
        """Whose the numbers are, by the place of their unit; None: the journal is away."""
        by_queue: dict[str, list[tuple[int, Place]]] = {}
        for nth, unit in enumerate(units):
            for one in unit.messages:
                for place in one.places:
                    by_queue.setdefault(place.queue, []).append((nth, place))

        def ask(journal: Journal) -> dict[tuple[int, Place], Holder]:
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

    def _barred(self, units: list[_Unit], barring: Sequence[_Unit]) -> list[_Unit]:
        """Have the journal bar messages from their numbers, and withdraw them."""
        if not barring:
            return []
        by_queue, age_s = _by_queue(barring), time.monotonic() - self._began

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
    def _is_barred(units: list[_Unit], one: _Unit, answers: Mapping[str, Vote]) -> bool:
        """Whether messages are left of a unit, and all of them are barred. Those that the journal has are sent, and a unit of their own."""
        if Vote.STALE in answers.values():
            one.error = _unsure(one, "a box was restored meanwhile")
            return False
        held = [each for each in one.messages if answers[each.message.message_id] == Vote.HELD]
        one.messages = [each for each in one.messages if each not in held]
        if held:  # the journal knows them, and one box
            units.append(_Unit(held, [*one.replies[:2], Reply.FOR], one.first, is_sent=True))
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

    def _strike(self, units: Sequence[_Unit]) -> None:
        """Strike off what both boxes have."""
        ids = [
            ident for one in units if one.error is None and one.replies[0] == one.replies[1] == Reply.FOR
            for ident in one.ids
        ]  # fmt: skip
        for region in REGIONS if ids else ():
            try:
                self._pair.in_box(region, lambda one: strike(one, self._pair.name, ids))
            except Unavailable:
                continue  # it is struck off when it would be copied


def send_in(transaction: Transaction, pair: Pair, region: str, messages: Sequence[Message]) -> list[Sent]:
    """Send messages in a transaction of the caller's: with its commit the box has voted for them, and the outbox has them.

    Args:
        transaction: the caller's, with a box.
        pair: the boxes and the journal.
        region: of that box.
        messages: the messages, with numbers of their own.

    Raises:
        UsageError: a message can't be sent, or has no number.
        NumberRefused: another message has a number, or a higher one; nothing is written.
        Unavailable: the box was restored, and doesn't vote yet.
    """
    _, places = routed(pair, messages)
    for message, its in zip(messages, places, strict=True):
        if any(one.number == NO_NUMBER for one in its):
            raise UsageError(
                "in a transaction of yours a message needs a number of its own", where=f"message {message.message_id}",
                remedy="number it, or publish after the commit",
            )  # fmt: skip
    numbered = [Numbered(one, its) for one, its in zip(messages, places, strict=True)]
    delays = [pair.delay(region, one.places[0].session, is_first=True) for one in numbered]
    with transaction.connection.transaction():
        found = vote(transaction, pair.name, region, numbered, way=Way.SENT, delays=delays)
        if not found.is_asked:
            raise Unavailable(
                f"region {region} was restored, and hasn't learned from the others yet", remedy="repeat it later"
            )
        refused = next((at for at, is_for in enumerate(found.votes) if not is_for), None)
        if refused is not None:
            place = places[refused][0]
            raise NumberRefused(
                f"number {place.number} isn't free: region {region} refuses it; {found.why.get(refused, '')}",
                where=f"queue {place.queue!r}, session {shown(place.session, 80)}",
                remedy="is another sender at work on this session?",
            )
    return [Sent(one.message.message_id, one.places[0].session, one.places[0].number, (region,)) for one in numbered]


def routed(pair: Pair, messages: Sequence[Message]) -> tuple[Routing, list[tuple[Place, ...]]]:
    """The numbers of messages, `NO_NUMBER` for those without, by the definitions that this process knows, or else by those of now.

    Raises:
        UsageError: a message can't be sent.
    """
    anew = False
    while True:
        routing = pair.routing(anew=anew)
        try:
            found = route_in(None, messages, routing.definitions)
            return routing, places_of(found, routing.definitions, routing.queue_ids)
        except UsageError:
            if anew:
                raise
            anew = True


def check_unnumbered(messages: Sequence[Message], places: Sequence[Sequence[Place]], without: Sequence[int]) -> None:
    """Refuse messages that can't be given numbers.

    Raises:
        UsageError: one goes to two queues, or another message of its session has its own number.
    """
    own = {(one.queue, one.session) for its in places for one in its if one.number != NO_NUMBER}
    for at in without:
        where = f"message {messages[at].message_id}"
        if len(places[at]) > 1:
            raise UsageError(
                "a message for several queues can't be given a number: it would need one in each", where=where,
                remedy="number it yourself",
            )  # fmt: skip
        if (places[at][0].queue, places[at][0].session) in own:
            raise UsageError(
                "some messages of the session have numbers, and this one has none",
                where=where,
                remedy="number all, or none",
            )


def with_number(message: Message, place: Place, number: int, routing: Routing) -> Numbered:
    """A message with a number, as its queue reads it."""
    name = str(routing.definitions.queues[place.queue].declared.sequence)
    return Numbered(
        with_context(message, {**message.context, name: number}), (Place(place.queue, place.session, number),)
    )


def of_journal(message: Message, place: Place) -> OfJournal:
    """A message with a number, as the journal knows it."""
    digest = digest_of(message.type, message.content_type, message.body)
    return OfJournal(place.session, place.number, message.message_id, digest)


def told(messages: Sequence[Message], units: Iterable[_Unit]) -> list[Sent]:
    """What became of messages, in their order.

    Raises:
        SeriatimError: not all are sent.
    """
    found: dict[str, Sent] = {}
    errors = []
    for unit in units:
        if unit.error is not None:
            errors.append(unit.error)
            continue
        known_by = tuple(
            who for who, reply in zip((*REGIONS, "journal"), unit.replies, strict=True) if reply == Reply.FOR
        )
        for one in unit.messages:
            place = one.places[0]
            found[one.message.message_id] = Sent(one.message.message_id, place.session, place.number, known_by)
    if errors:
        first = errors[0]
        more = f"; {len(errors) - 1} more sessions failed" if len(errors) > 1 else ""
        others = f"; {len(found)} messages of other sessions are sent" if found else ""
        raise type(first)(f"{first.what}{more}{others}", where=first.where, remedy=first.remedy)
    return [found[one.message_id] for one in messages]


def _as_units(messages: Sequence[Numbered]) -> list[_Unit]:
    """Messages by what stands or falls together, each with its numbers ascending."""
    found: dict[int, _Unit] = {}
    for unit, one in zip(units_of([one.places for one in messages]), messages, strict=True):
        found.setdefault(unit, _Unit([])).messages.append(one)
    return list(found.values())


def _by_queue(units: Sequence[_Unit]) -> dict[str, list[tuple[int, OfJournal]]]:
    """The numbers of messages by their queues, each with the place of its unit."""
    found: dict[str, list[tuple[int, OfJournal]]] = {}
    for nth, unit in enumerate(units):
        for one in unit.messages:
            for place in one.places:
                found.setdefault(place.queue, []).append((nth, of_journal(one.message, place)))
    return found


def _has(sight: Sight | None, ident: str, place: Place) -> bool:
    """Whether a box has a message under a number."""
    return sight is not None and sight.numbers.get(ident, {}).get((place.queue, place.session)) == place.number


def _throughs(sight: Sight | None, sessions: Sequence[tuple[str, str]], begins: Sequence[int]) -> Ints:
    """The highest number of each session, as a party knows it; what it doesn't know hasn't begun."""
    known = {} if sight is None else sight.through
    return np.array([known.get(key, begin) for key, begin in zip(sessions, begins, strict=True)], np.int64)


def _worst(one: Vote | None, other: Vote) -> Vote:
    """Of a message in several queues: nobody knows, before it is sent, before it is barred."""
    order = (Vote.STALE, Vote.HELD, Vote.GRANTED)
    return other if one is None else min(one, other, key=order.index)


def _unsure(unit: _Unit, why: str) -> Unavailable:
    return Unavailable(
        f"number {unit.messages[0].places[0].number} was refused ({unit.why}), and nobody can say what became of it: {why}",
        where=unit.where, remedy="publish the same again later, under the same id and number",
    )  # fmt: skip
