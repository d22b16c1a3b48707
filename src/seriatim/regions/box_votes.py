"""A box's work with messages of sessions: vote on their numbers and take them in, in one transaction.

The sessions are locked in one order, and read with all that is known of the numbers; the kernel decides; the decisions are written as sets.
So any number of messages takes the same number of round trips.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import Enum
from typing import cast

import numpy as np

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.route import Routed, router_of
from seriatim.box.definitions.unique import check_keys
from seriatim.box.postgres.array_text import written
from seriatim.box.publishing.batch import check_all, parameters_of, portions
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.kernel.groups.policy import Policy, Standard
from seriatim.kernel.regions import votes as rules
from seriatim.kernel.regions.votes import Vote
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.message import Message
from seriatim.regions.box_role import Role, role_of
from seriatim.regions.numbered import Numbered, SessionNumber, places_of, units_of

#: How often the definitions may change while messages are routed by them.
_TRIES = 5
_Key = tuple[int, str]


class LedElsewhere(UsageError):
    """The definitions of a box route a message to other queues or numbers than those by which it was sent."""


class Way(Enum):
    """How messages come: a sender asks for a vote; the journal has given out the number, and decides; or the other box has them."""

    SENT = "sent"
    RESERVED = "reserved"
    COPY = "copy"


@dataclass(frozen=True, slots=True)
class BoxVotes:
    #: Whether the box knows the message under its numbers, for each message.
    votes: list[bool]
    incarnation: int
    #: False: the box doesn't vote now, because it was restored.
    is_asked: bool = True
    #: Whether the call counts a vote that the other box gave before its restore.
    stale: bool = False
    #: The messages that the box knew under their numbers before.
    known: frozenset[str] = frozenset()
    #: Why a message is refused, for people; by its place.
    why: Mapping[int, str] = field(default_factory=dict)
    #: The messages, by their places, on which the box doesn't vote: it has them under lower numbers.
    elsewhere: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Sight:
    """A box's knowledge of sessions, and of messages that have numbers already."""

    #: The highest number of each session; unknown sessions are missing.
    through: Mapping[tuple[str, str], int]
    #: The numbers of messages, by id, then by queue and session.
    numbers: Mapping[str, Mapping[tuple[str, str], int]]
    #: Whether the box votes: it wasn't restored, or has learned since.
    votes: bool = True


@dataclass(slots=True)
class _NumberedMessage:
    at: int
    queue_id: int
    place: SessionNumber

    @property
    def key(self) -> _Key:
        return self.queue_id, self.place.session

    @property
    def number_key(self) -> tuple[int, str, int]:
        return self.queue_id, self.place.session, self.place.number


@dataclass(frozen=True, slots=True)
class _Known:
    """A box's entry under a number."""

    message_id: str
    voted: bool
    beside: bool
    withdrawn: bool


def route_in(transaction: Transaction | None, messages: Sequence[Message], definitions: Definitions) -> Routed:
    """Route messages by definitions. Filters on the time read the box's clock; without a transaction this process's clock."""
    router = router_of(definitions)
    moment = None
    if router.needs_time:
        moment = datetime.now(UTC) if transaction is None else transaction.value("moment")
    return router.route(messages, moment)


def vote(
    transaction: Transaction,
    name: str,
    region: str,
    messages: Sequence[Numbered],
    *,
    way: Way,
    counted: int | None = None,
    delays: Sequence[int | None] = (),
    ages: Sequence[int] = (),
    renumbers: bool = False,
    patience_ms: int | None = None,
) -> BoxVotes:
    transaction.check_enabled()
    role = role_of(transaction, name, region, holds=counted is not None)
    if way is not Way.COPY and not role.votes:
        return BoxVotes([False] * len(messages), role.incarnation, is_asked=False)
    is_stale = counted is not None and counted < role.fence
    definitions = transaction.definitions()
    for _ in range(_TRIES):
        writing = _Writing(transaction, name, role, definitions, messages, way)
        writing.decide(is_stale=is_stale, renumbers=renumbers, patience_ms=patience_ms)
        if writing.take_in(list(delays) or [None] * len(messages), list(ages) or [0] * len(messages)):
            return BoxVotes(
                writing.granted,
                role.incarnation,
                stale=is_stale,
                known=frozenset(writing.known),
                why=writing.why,
                elsewhere=frozenset(writing.elsewhere),
            )
        definitions = transaction.access.known.read(transaction)
    raise Unavailable("the definitions change again and again", where=transaction.access.place, remedy="repeat it")


def led_alike(
    transaction: Transaction, name: str, region: str, messages: Sequence[Numbered]
) -> tuple[list[int], dict[int, str]]:
    """Return the copies that a box routes to the queues and numbers of the other box; and for the others the reasons."""
    role = role_of(transaction, name, region)
    definitions = transaction.definitions()
    alike: list[int] = []
    elsewhere: dict[int, str] = {}
    for at, item in enumerate(messages):
        try:
            (here,) = places_of(route_in(transaction, [item.message], definitions), definitions, role.queue_ids)
        except UsageError as error:
            elsewhere[at] = str(error)
        else:
            if here == item.places:
                alike.append(at)
            else:
                elsewhere[at] = f"it leads to {_told(here)} here, and to {_told(item.places)} there"
    return alike, elsewhere


def see(
    transaction: Transaction, name: str, region: str, sessions: Iterable[tuple[str, str]], ids: Sequence[str]
) -> Sight:
    """Read what the box knows of sessions, and of messages by their ids, without locks."""
    role = role_of(transaction, name, region)
    definitions = transaction.definitions()
    numbers = {queue: bound.queue_id for queue, bound in definitions.queues.items() if bound.queue_id in role.queue_ids}
    names = {queue_id: queue for queue, queue_id in numbers.items()}
    pairs = [(numbers[queue], session) for queue, session in sessions if queue in numbers]
    rows = transaction.rows(
        "region_through", of_queues=[queue_id for queue_id, _ in pairs], of_sessions=[queue_id for _, queue_id in pairs]
    )
    through = {(names[row.queue_id], row.session): row.through for row in rows}
    sights: dict[str, dict[tuple[str, str], int]] = {}
    for row in transaction.rows("region_known", of_queues=[], of_sessions=[], of_numbers=[], of_messages=list(ids)):
        if not row.withdrawn and row.queue_id in names:
            throughs = sights.setdefault(row.message_id, {})
            key = names[row.queue_id], row.session
            throughs[key] = max(row.number, throughs.get(key, row.number))
    return Sight(through, sights, role.votes)


def strike(transaction: Transaction, name: str, ids: Sequence[str], counted: int | None) -> None:
    """Remove messages from the outbox: the other box has them, in this incarnation, or (None) their numbers are over."""
    transaction.do("region_strike", of_name=name, of_messages=list(ids), counted=counted)


def withdraw(transaction: Transaction, name: str, ids: Sequence[str]) -> None:
    """Withdraw messages that the journal has barred from their numbers. The votes stay."""
    transaction.do("region_withdraw", of_name=name, of_messages=list(ids))


class _Writing:
    """One call of `vote`, by one version of the definitions."""

    def __init__(
        self, transaction: Transaction, name: str, role: Role, definitions: Definitions, messages: Sequence[Numbered],
        way: Way,
    ) -> None:  # fmt: skip
        self._transaction, self._name, self._role, self._way = transaction, name, role, way
        self._definitions = definitions
        self._messages = [item.message for item in messages]
        routed = route_in(transaction, self._messages, definitions)
        ours = places_of(routed, definitions, role.queue_ids)
        for item, here in zip(messages, ours, strict=True):
            if item.places != here:
                raise LedElsewhere(
                    f"the box leads it to {_told(here)}, and it was sent to {_told(item.places)}",
                    where=f"{transaction.access.place}: message {item.message.message_id}",
                    remedy="define the same in both boxes: seriatim regions check FILE",
                )
        queue_ids = {queue: bound.queue_id for queue, bound in definitions.queues.items()}
        self._rows = [
            _NumberedMessage(at, queue_ids[place.queue], place) for at, places in enumerate(ours) for place in places
        ]
        self._units = units_of(ours)
        self._floors = {
            bound.queue_id: _floor(bound.declared.policy)
            for bound in definitions.queues.values()
            if bound.queue_id in role.queue_ids
        }
        #: Whether the box knows each message under its numbers now.
        self.granted: list[bool] = []
        #: The messages that it knew under their numbers before.
        self.known: set[str] = set()
        self._taken: list[int] = []
        self._votes: list[bool] = []
        self._besides: list[bool] = []
        self._barred: list[str] = []
        #: Messages that a sender asks for, and that the box has under lower numbers.
        self.elsewhere: set[int] = set()
        #: Why messages are refused.
        self.why: dict[int, str] = {}

    def decide(self, *, is_stale: bool, renumbers: bool, patience_ms: int | None) -> None:
        """Lock the sessions, read what is known of the numbers, and decide."""
        through, closed = self._locked(patience_ms)
        known, elsewhere = self._known()
        own = [
            next((one for one in known.get(row.number_key, ()) if one.message_id == self._id(row)), None)
            for row in self._rows
        ]
        dropped = self._check_elsewhere(elsewhere, renumbers=renumbers or self._way is Way.COPY)
        if self._way is Way.SENT:
            votes = self._asked(through, own, is_stale=is_stale)
            granted = [vote in (Vote.GRANTED, Vote.HELD) for vote in votes]
            self._votes = granted
        else:
            granted = [True] * len(self._rows)
            self._votes = self._votes_of_copies(through)
        if closed and self._way is not Way.COPY:  # a copy is taken in: the journal decides about it
            self._refuse_closed(closed, own, granted)
        self.granted = [True] * len(self._messages)
        for row, own_row, rows in zip(self._rows, own, granted, strict=True):
            self.granted[row.at] &= rows
            if own_row is not None:
                self.known.add(self._id(row))
            if not rows and row.at not in self.why:
                strangers = [other for other in known.get(row.number_key, ()) if other is not own_row]
                self.why[row.at] = (
                    f"there, message {strangers[0].message_id} has number {row.place.number}"
                    if strangers
                    else f"there, the highest number is {through[row.key]}"
                )
        self._taken = [
            at
            for at, message in enumerate(self._messages)
            if self.granted[at] and message.message_id not in self.known and at not in dropped
        ]
        taken_places: set[tuple[int, str, int]] = set()
        for row in self._rows:
            place = row.number_key
            there = place in taken_places or any(not known_row.beside for known_row in known.get(place, ()))
            self._besides.append(there)
            if not there:
                taken_places.add(place)

    def take_in(self, delays: Sequence[int | None], ages: Sequence[int]) -> bool:
        """Store the new messages, and note their numbers; False, and nothing is done: the definitions have changed."""
        if self._barred:
            withdraw(self._transaction, self._name, self._barred)
        if not self._taken:
            return True
        messages = [self._messages[at] for at in self._taken]
        routed = route_in(self._transaction, messages, self._definitions)
        if routed.entries.keys is not None:
            check_keys(routed.entries, routed.typed.messages)
        check_all(routed)
        known = self._stored(messages, self._without_besides(routed))
        if known is None:
            return False
        if known and self._way is not Way.COPY:
            raise UsageError(
                "a message with this id was published before, or lies here under a number that is forgotten",
                where=f"{self._transaction.access.place}: message {min(known)}",
                remedy="give it an id of its own",
            )
        if known:
            LOG.warning(
                "region_copies_left_out",
                region=self._role.region,
                messages=len(known),
                _ids=", ".join(sorted(known)[:5]),
            )
        fresh = [at for at in self._taken if self._messages[at].message_id not in known]
        place_of = {at: place for place, at in enumerate(fresh, 1)}
        rows = [nth for nth, row in enumerate(self._rows) if row.at in place_of]
        self._transaction.do(
            "region_note", of_name=self._name, of_messages=[self._messages[at].message_id for at in fresh],
            ages=[ages[at] for at in fresh], delays=[delays[at] for at in fresh], is_copy=self._way is Way.COPY,
            numbered=[place_of[self._rows[nth].at] for nth in rows],
            of_queues=[self._rows[nth].queue_id for nth in rows],
            of_sessions=[self._rows[nth].place.session for nth in rows],
            of_numbers=[self._rows[nth].place.number for nth in rows], votes=[self._votes[nth] for nth in rows],
            besides=[self._besides[nth] for nth in rows],
        )  # fmt: skip
        return True

    def _id(self, row: _NumberedMessage) -> str:
        return self._messages[row.at].message_id

    def _locked(self, patience_ms: int | None) -> tuple[dict[_Key, int], dict[_Key, str]]:
        """Return the highest number of each session, under its lock; and the keys before which closed sessions take no messages."""
        keys = sorted({row.key for row in self._rows}, key=lambda key: (key[0], key[1].encode()))
        rows = self._transaction.rows(
            "region_lock", of_queues=[queue_id for queue_id, _ in keys], of_sessions=[queue_id for _, queue_id in keys],
            floors=[self._floors[queue_id] for queue_id, _ in keys], patience_ms=patience_ms,
        )  # fmt: skip
        return (
            {(row.queue_id, row.session): max(row.through, row.over_through or row.through) for row in rows},
            {(row.queue_id, row.session): row.closed_before for row in rows if row.closed_before is not None},
        )

    def _known(self) -> tuple[dict[tuple[int, str, int], list[_Known]], dict[str, list[tuple[int, str, int]]]]:
        """Return the entries of the box under these numbers; and the numbers of the messages, by their ids."""
        known: dict[tuple[int, str, int], list[_Known]] = {}
        numbers: dict[str, list[tuple[int, str, int]]] = {}
        for row in self._transaction.rows(
            "region_known",
            of_queues=[row.queue_id for row in self._rows],
            of_sessions=[row.place.session for row in self._rows],
            of_numbers=[row.place.number for row in self._rows],
            of_messages=[message.message_id for message in self._messages],
        ):
            place = row.queue_id, row.session, row.number
            known.setdefault(place, []).append(_Known(row.message_id, row.voted, row.beside, row.withdrawn))
            if not row.withdrawn:
                numbers.setdefault(row.message_id, []).append(place)
        return known, numbers

    def _check_elsewhere(self, elsewhere: Mapping[str, Sequence[tuple[int, str, int]]], *, renumbers: bool) -> set[int]:
        """Return the messages that have a higher number here; the lower number is void, or will be."""
        dropped: set[int] = set()
        rows = {self._id(row): row for row in self._rows}
        for row in rows.values():
            numbers = {other.number_key for other in self._rows if other.at == row.at}
            for queue_id, session, number in elsewhere.get(self._id(row), ()):
                if (queue_id, session, number) in numbers:
                    continue
                same = next((other for other in numbers if other[:2] == (queue_id, session)), None)
                if same is None and self._way is Way.COPY:
                    dropped.add(row.at)  # its id belongs to another message here
                    continue
                if not renumbers or same is None:
                    raise UsageError(
                        f"the message has the number {number} already",
                        where=f"message {self._id(row)}, session {shown(session, 80)}",
                        remedy="publish it under that number again, or give it an id of its own",
                    )
                if number > same[2]:
                    dropped.add(row.at)
                elif self._way is Way.SENT:
                    self.elsewhere.add(row.at)
                else:
                    self._barred.append(self._id(row))
        return dropped

    def _asked(self, through: Mapping[_Key, int], own: Sequence[_Known | None], *, is_stale: bool) -> list[int]:
        order = sorted(range(len(self._rows)), key=lambda nth: (self._units[self._rows[nth].at], nth))
        rows = [self._rows[nth] for nth in order]
        verdicts = rules.voted(
            rules.VoteRequests(
                np.array([self._units[row.at] for row in rows], np.int64),
                np.array([row.place.number for row in rows], np.int64),
                np.array([through[row.key] for row in rows], np.int64),
                np.array(
                    [(one := own[nth]) is not None and one.voted and not one.withdrawn for nth in order], np.bool_
                ),
                np.full(len(rows), is_stale, np.bool_),
                np.array([row.at in self.elsewhere for row in rows], np.bool_),
            )
        ).tolist()
        votes = [0] * len(rows)
        for nth, vote in zip(order, verdicts, strict=True):
            votes[nth] = vote
        return votes

    def _refuse_closed(self, closed: Mapping[_Key, str], mine: Sequence[_Known | None], granted: list[bool]) -> None:
        """Refuse what is new of sessions that take no messages any more, and what belongs together with it."""
        refused: dict[int, str] = {}
        for row, one in zip(self._rows, mine, strict=True):
            if one is None and row.key in closed:
                refused[self._units[row.at]] = (
                    f"sessions of queue {row.place.queue!r} before {shown(closed[row.key], 80)} take no messages any more"
                )
        if refused and self._way is Way.RESERVED:
            raise UsageError(
                next(iter(refused.values())),
                where=self._transaction.access.place,
                remedy="send the message under the key of another session",
            )
        for nth, (row, one) in enumerate(zip(self._rows, mine, strict=True)):
            if one is None and (why := refused.get(self._units[row.at])) is not None:
                granted[nth] = self._votes[nth] = False
                self.why[row.at] = why

    def _votes_of_copies(self, through: Mapping[_Key, int]) -> list[bool]:
        """Whether copies are votes: only above all its numbers, as the journal may have skipped a hole that the box doesn't know."""
        highest, votes = dict(through), []
        for row in self._rows:
            is_next = self._way is Way.COPY and self._role.votes and row.place.number > highest[row.key]
            highest[row.key] = max(highest[row.key], row.place.number)
            votes.append(is_next)
        return votes

    def _without_besides(self, routed: Routed) -> Routed:
        """Return the messages without the entries whose numbers other messages have in the queue."""
        besides = {
            (self._messages[row.at].message_id, row.queue_id)
            for row, beside in zip(self._rows, self._besides, strict=True)
            if beside
        }
        if not besides:
            return routed
        ids, entries = [message.message_id for message in routed.typed.messages], routed.entries
        kept = [
            at
            for at, (place, queue_id) in enumerate(zip(entries.places, entries.queue_ids, strict=True))
            if (ids[place], queue_id) not in besides
        ]
        return replace(routed, entries=entries.take(kept))

    def _stored(self, messages: Sequence[Message], routed: Routed) -> set[str] | None:
        """Store messages; return the ids of those that are left out; None: the definitions have changed."""
        numbers: dict[str, int] = {}
        for row in self._rows:
            numbers[self._id(row)] = numbers.get(self._id(row), 0) + 1
        known: set[str] = set()
        for begin, end in portions(messages):
            parameters = parameters_of(routed, begin, end)
            parameters["destinations"] = [numbers[message.message_id] for message in messages[begin:end]]
            answer = self._transaction.value(
                "take_in", **written(parameters), visible_at=None, delay=None, by_itself=False, flushed=False
            )
            if answer is None:
                return None
            known.update(messages[begin + place - 1].message_id for place in answer)
        return known


def _floor(policy: Policy) -> int:
    """The number before the first one."""
    standard = cast("Standard", policy)  # as `RegionalQueue` makes it
    return int(standard.start) - standard.increment


def _told(places: Sequence[SessionNumber]) -> str:
    return ", ".join(f"{place.number} of session {shown(place.session, 80)} in {place.queue!r}" for place in places)
