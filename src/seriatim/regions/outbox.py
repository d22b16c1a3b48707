"""Work off the outboxes: copy the messages that the other box lacks, under the same ids and numbers, and remove them.

Any process may do that, at any time. A copy is written like a new message: in one transaction, under the locks of its sessions, and left
out where the box has it. So any number of processes may do it at once, and be killed at any moment: the row in the outbox is removed after
the copy was committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.messages.received import stored_message
from seriatim.box.postgres.translate import is_locked
from seriatim.errors import Unavailable
from seriatim.pipeline.types.message import Part
from seriatim.regions.box_role import role_of
from seriatim.regions.box_votes import Way, led_alike, strike, vote
from seriatim.regions.journal.journal import Journal
from seriatim.regions.numbered import Numbered, SessionNumber
from seriatim.regions.pair import LOCKED_MS, LOOK_S, Pair, other_than

#: How many messages are copied at once.
PORTION = 500
#: How long a box may take for a portion, of at most 32 MiB: one that is slow is not away, and would never get it.
_COPYING_S = 60.0
#: How many portions of a pass are only struck off, when the other box hasn't answered.
_STRUCK = 4
_US = 1_000_000


@dataclass(slots=True)
class Copied:
    """What became of the outbox of a region.

    Args:
        region: the region whose outbox it is.
        copied: how many messages the other box has now.
        sent: how many messages of applications' transactions got their numbers confirmed, and are in the queues of this box now.
        over: how many weren't copied, because their numbers are over.
        waiting: messages that can't go on, such as those that the other box leads elsewhere; with the reasons.
        why: why the rest waits, for people; None: nothing waits for a reason that is known.
    """

    region: str
    copied: int = 0
    over: int = 0
    waiting: dict[str, str] = field(default_factory=dict)
    why: str | None = None
    sent: int = 0


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A message of an outbox; `numbered` is None if it isn't stored any more."""

    outbox_id: int
    message_id: str
    age_us: int
    numbered: Numbered | None


@contextmanager
def noted(copied: Copied) -> Iterator[None]:
    """Note that a party is away; the caller goes on with other work."""
    try:
        yield
    except Unavailable as error:
        copied.why = copied.why or str(error)


def copy_outbox(pair: Pair, copied: Copied, *, through: int = 2**63 - 1) -> Iterator[None]:
    """Work off the outbox of a region, and yield after each portion. If the other box doesn't answer, nothing more is copied, which would
    overtake what wasn't; some portions are struck off, from where the last such pass ended.
    """
    region, behind, copies, left = copied.region, 0, True, _STRUCK
    locked: set[tuple[str, str]] = set()
    with noted(copied):
        while (
            behind < through
            and left
            and (
                rows := pair.in_box(
                    region, partial(_outgoing, name=pair.name, region=region, behind=behind), patience_s=_COPYING_S
                )
            )
        ):
            behind = rows[-1].outbox_id
            if not copies:
                left -= 1
                _strike_over(pair, region, rows, copied)
            elif not (copies := _copy(pair, region, rows, copied, locked)):
                behind = max(behind, pair.struck.get(region, 0))
            yield
        if not copies:
            pair.struck[region] = 0 if left else behind


def report(pair: Pair, region: str) -> bool:
    """Report to the journal the age of a region's oldest message, so that the journal may forget sessions."""
    # In this order: a copy may be on its way between the two looks.
    waiting = pair.journal.call(lambda journal: journal.others_outbox(pair.name, region))

    def look(transaction: Transaction) -> tuple[Any, Any]:
        return role_of(transaction, pair.name, region), transaction.one("region_ages", of_name=pair.name)

    role, ages = pair.in_box(region, look, patience_s=LOOK_S)
    if not role.votes:
        return False
    return pair.journal.call(
        lambda journal: journal.report(
            pair.name,
            region,
            role.incarnation,
            outbox_age=ages.outbox_age / _US,
            queue_age=ages.queue_age / _US,
            others=waiting,
        )
    )


def _outgoing(transaction: Transaction, name: str, region: str, behind: int) -> list[_Outgoing]:
    role_of(transaction, name, region)
    rows = transaction.rows("region_outgoing", of_name=name, behind=behind, at_most=PORTION)
    with_parts = [row for row in rows if row.parts]
    parts: dict[tuple[int, int], list[Part]] = {}
    if with_parts:
        for row in transaction.rows(
            "region_parts",
            of_arrivals=[row.arrival_id for row in with_parts],
            of_positions=[row.position for row in with_parts],
        ):
            parts.setdefault((row.arrival_id, row.position), []).append(Part(row.name, row.content_type, row.body))
    return [_read(row, parts.get((row.arrival_id, row.position), ())) for row in rows]


def _read(row: Any, parts: Iterable[Part]) -> _Outgoing:
    if row.type is None or row.numbers is None:
        return _Outgoing(row.outbox_id, row.message_id, row.age, None)
    places = tuple(
        SessionNumber(queue, session, number)
        for queue, session, number in zip(row.queues, row.sessions, row.numbers, strict=True)
    )
    return _Outgoing(row.outbox_id, row.message_id, row.age, Numbered(stored_message(row, parts), places))


def _strike_off(pair: Pair, region: str, ids: list[str], counted: int | None = None) -> None:
    if ids:
        pair.in_box(region, lambda transaction: strike(transaction, pair.name, ids, counted), patience_s=_COPYING_S)


def _strike_over(pair: Pair, region: str, rows: Sequence[_Outgoing], copied: Copied) -> list[_Outgoing]:
    """Strike off what is over, or not stored any more; return the other messages."""
    done = _over(pair, [row for row in rows if row.numbered is not None])
    over = [row for row in rows if row.numbered is None or _is_over(row.numbered, done)]
    _strike_off(pair, region, [row.message_id for row in over])
    copied.over += len(over)
    return [row for row in rows if row not in over]


def _copy(pair: Pair, region: str, rows: Sequence[_Outgoing], copied: Copied, locked: set[tuple[str, str]]) -> bool:
    """Strike off what is over; copy the other messages, and strike them off; return whether the other box answers. `locked`: sessions that
    another transaction there has locked: all their messages are left out, so that none overtakes another.
    """
    other = other_than(region)

    def put(some: Sequence[_Outgoing], patience_ms: int) -> None:
        try:
            alike, elsewhere, counted = pair.in_box(
                other, partial(_write, pair, other, some, patience_ms), patience_s=_COPYING_S
            )
        except Unavailable as error:
            if not is_locked(error):
                raise
            if len(some) == 1:
                locked.update(_sessions(some[0]))
                copied.why = copied.why or str(error)
            else:
                for row in some:
                    if locked.isdisjoint(_sessions(row)):
                        put([row], LOCKED_MS)
            return
        copied.waiting |= {some[at].message_id: why for at, why in elsewhere.items()}
        _strike_off(pair, region, [some[at].message_id for at in alike], counted)
        copied.copied += len(alike)

    there = _strike_over(pair, region, rows, copied)
    if going := [row for row in there if locked.isdisjoint(_sessions(row))]:
        try:
            put(going, pair.lock_ms(other))
        except Unavailable as error:
            copied.why = copied.why or str(error)
            return False
    return True


def _write(
    pair: Pair, region: str, rows: Sequence[_Outgoing], patience_ms: int, transaction: Transaction
) -> tuple[list[int], dict[int, str], int | None]:
    alike, elsewhere = led_alike(transaction, pair.name, region, [row.numbered for row in rows if row.numbered])
    chosen = [rows[at] for at in alike]
    if not chosen:
        return alike, elsewhere, None
    delays = [
        pair.delay(region, row.numbered.places[0].session, is_first=False, age_us=row.age_us)
        for row in chosen
        if row.numbered
    ]
    votes = vote(
        transaction, pair.name, region, [row.numbered for row in chosen if row.numbered], way=Way.COPY, delays=delays,
        ages=[row.age_us for row in chosen], patience_ms=patience_ms,
    )  # fmt: skip
    return alike, elsewhere, votes.incarnation


def _sessions(row: _Outgoing) -> set[tuple[str, str]]:
    return {(place.queue, place.session) for place in (row.numbered.places if row.numbered else ())}


def _over(pair: Pair, rows: Sequence[_Outgoing]) -> dict[tuple[str, str], int]:
    """Return through which number sessions are over; nothing is known while the journal is away."""
    by_queue: dict[str, set[str]] = {}
    for row in rows:
        for place in row.numbered.places if row.numbered else ():
            by_queue.setdefault(place.queue, set()).add(place.session)

    def read(journal: Journal) -> dict[tuple[str, str], int]:
        return {
            (queue, session): through
            for queue, sessions in by_queue.items()
            for session, through in journal.done_through(pair.name, queue, sorted(sessions)).items()
        }

    try:
        return pair.journal.call(read) if by_queue else {}
    except Unavailable:
        return {}


def _is_over(item: Numbered, done: dict[tuple[str, str], int]) -> bool:
    return all(
        (through := done.get((place.queue, place.session))) is not None and place.number <= through
        for place in item.places
    )
