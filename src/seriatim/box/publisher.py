"""Publishing: a call's messages are routed, find room in their queues, and are taken in, all or none."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.access import Access
from seriatim.box.arrays import written
from seriatim.box.correlation import looking
from seriatim.box.definitions import Definitions
from seriatim.box.failures import tell_kept_out
from seriatim.box.publish import check_all, distinct, listed, parameters_of, parameters_of_one, portions
from seriatim.box.published import Published
from seriatim.box.room import NO_ROOM, Full
from seriatim.box.round_trip import OwnConnection, can_flush, is_idle, transact
from seriatim.box.route import Routed
from seriatim.box.statements import statement
from seriatim.box.waiting import patience
from seriatim.errors import UsageError, shown
from seriatim.kernel.time import micros
from seriatim.pipeline.message import Message

__all__ = ["PATIENCE_S", "Publisher"]

_LONGEST_DELAY_US = 10_000 * 86_400 * 10**6
#: In some time zones the first moments of the year 1 are none that can be shown.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
#: Publishers wait that long for room, and look for it after naps from so long to so long. Nobody calls them: whoever
#: completes would have to look whether somebody waits.
PATIENCE_S, _SHORT_NAP_S, _LONG_NAP_S = 30.0, 0.01, 0.25


class Publisher:
    """What one call of `Session.publish` does.

    Args:
        access: the box.
        messages: in the order in which they get their tickets.
        delay: as of `Session.publish`, like the next two.
        visible_at: the moment before which they aren't handed out, instead.
        wait: how long for room.
        own: whether the transaction is ours, and not one that the caller began.
        once: whether nothing else is done in it.

    Raises:
        UsageError: something that isn't a message, a body that is too large, times that can't be.
    """

    def __init__(
        self,
        access: Access,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None,
        visible_at: datetime | None,
        wait: float | str,
        own: bool,
        once: bool = False,
    ) -> None:
        self._access = access
        self._schema = access.schema
        self._given = listed(messages)
        self._fresh = distinct(self._given)
        self._moment = _seen_from(delay, visible_at)
        self._wait_s = patience(wait)
        self._own = own
        self._once = once

    def publish(self, connection: psycopg.Connection) -> Published:
        """Take the messages in.

        Returns:
            the ids of all that were given, in that order, and which of them were left out.

        Raises:
            UsageError: a property that has no place in a context, an address that is no queue.
            QueueFull: a queue has no room.
        """
        fresh, until = self._fresh, time.monotonic() + self._wait_s
        routed, begun = self._admitted(connection, fresh, until, read=False), 0
        runs = portions(fresh)
        if len(runs) > 1:
            check_all(routed)  # before the first of them is sent: nothing of the call is taken in, or all
        once = self._once and len(runs) == 1
        known: set[str] = set()
        for begin, end in runs:
            while (left := self._take_in(connection, routed, begin - begun, end - begun, once=once)) is None:
                # The definitions have changed: what isn't taken in yet is routed by the new ones.
                routed, begun = self._admitted(connection, fresh[begin:], until, read=True), begin
            known.update(fresh[begin + place - 1].message_id for place in left)
        entries = routed.entries
        if begun or len(set(entries.places)) < len(fresh) or entries.problems.count(None) < len(entries.problems):
            tell_kept_out(self._access, connection, [one.message_id for one in fresh])
        ids = [message.message_id for message in self._given]
        return Published(ids, _left_out(ids, known) if known or len(ids) > len(fresh) else ())

    def _take_in(
        self, connection: psycopg.Connection, routed: Routed, begin: int, end: int, *, once: bool
    ) -> Sequence[int] | None:
        """Take some messages of a batch in; None, and nothing is done, where the definitions have changed.

        `once`: there are no others to take in.

        Returns:
            the places, from 1, of those that were published before.
        """
        alone = self._alone(connection) if once else None
        name, parameters = "publish_one", parameters_of_one(routed, begin, end)
        if parameters is None:
            name, parameters = "publish", written(parameters_of(routed, begin, end))
        flush = alone is not None and can_flush(alone)
        parameters.update(self._moment, by_itself=alone is not None, flushed=flush)
        if alone is not None:
            answer = transact(alone, (statement(name, self._schema), parameters), flush=flush)
        else:
            with connection.cursor(row_factory=tuple_row) as cursor:
                ((answer,),) = cursor.execute(statement(name, self._schema), parameters).fetchall()
        if isinstance(answer, bool):  # of one message: whether it is taken in
            return () if answer else (1,)
        return answer

    def _alone(self, connection: psycopg.Connection) -> OwnConnection | None:
        """The connection, where what is taken in is a transaction by itself."""
        if not (isinstance(connection, OwnConnection) and is_idle(connection)) or connection.is_pooled:
            return None  # behind a pooler a transaction says first what it needs
        # Failures are told in the transaction of what failed.
        return None if self._access.known.definitions.router.wants_failures else connection

    def _admitted(
        self, connection: psycopg.Connection, messages: Sequence[Message], until: float, *, read: bool
    ) -> Routed:
        """Messages with their entries, once all queues that get some have room for them.

        Raises:
            QueueFull: one has none, and won't have in time, or says that nobody waits for it.
        """
        known = self._access.known
        nothing_done = self._own and is_idle(connection)
        definitions = known.definitions
        if read or definitions.version < 0:
            definitions = known.read(connection)
            if nothing_done:
                connection.commit()  # only looked
        definitions, routed = self._routed_by_now(connection, messages, definitions, nothing_done=nothing_done)
        nap_s = _SHORT_NAP_S
        while definitions.limited:
            full = self._access.room.full(connection, self._schema, definitions, routed)
            if not full:
                break
            if (now := known.current(connection)).version != definitions.version:
                definitions, routed = now, self._routed(connection, messages, now)
                continue
            if not isinstance(full, Full):
                return routed.refusing(full, NO_ROOM)
            left_s = until - time.monotonic()
            if left_s <= 0 or not full.may_wait:
                raise full.error()
            if nothing_done:
                connection.rollback()  # so that nobody waits for a transaction that naps
            time.sleep(min(nap_s, left_s))
            nap_s = min(2 * nap_s, _LONG_NAP_S)
        return routed

    def _routed_by_now(
        self,
        connection: psycopg.Connection,
        messages: Sequence[Message],
        definitions: Definitions,
        *,
        nothing_done: bool,
    ) -> tuple[Definitions, Routed]:
        """Messages routed; where these definitions refuse one and are old, by those of now."""
        try:
            return definitions, self._routed(connection, messages, definitions)
        except UsageError:
            if (now := self._current(connection, nothing_done=nothing_done)).version == definitions.version:
                raise
            # What the process knew was old: it may route again, and refuses nothing.
            return now, self._routed(connection, messages, now)

    def _current(self, connection: psycopg.Connection, *, nothing_done: bool) -> Definitions:
        """What is defined now."""
        now = self._access.known.current(connection)
        if nothing_done:
            connection.commit()  # only looked
        return now

    def _routed(self, connection: psycopg.Connection, messages: Sequence[Message], definitions: Definitions) -> Routed:
        router = definitions.router
        moment = None
        if router.needs_time:
            with connection.cursor(row_factory=tuple_row, binary=True) as cursor:  # whatever the DateStyle is
                (moment,) = cursor.execute("SELECT now()").fetchall()[0]
        return router.route(messages, moment, looking(connection, self._schema))


def _left_out(ids: Sequence[str], known: Collection[str]) -> list[str]:
    """Of each id that was given what isn't taken in: all of it where it was known before, else what comes after the first."""
    seen: set[str] = set()
    found = []
    for one in ids:
        if one in known or one in seen:
            found.append(one)
        seen.add(one)
    return found


def _seen_from(delay: float | str | None, visible_at: datetime | None) -> dict[str, str | None]:
    """The parameters that say when messages are handed out.

    Raises:
        UsageError: they aren't times, or both are given.
    """
    if delay is not None and visible_at is not None:
        raise UsageError("delay and visible_at can't be combined", remedy="give one of them")
    if visible_at is not None:
        visible_at = _moment(visible_at)
    period_us = 0 if delay is None else micros(delay)
    if not 0 <= period_us <= _LONGEST_DELAY_US:
        raise UsageError(f"a delay can't be {shown(delay)}", remedy="from 0 to 10,000 days")
    return {
        "visible_at": None if visible_at is None else visible_at.isoformat(),
        "delay": f"{period_us} microseconds" if period_us else None,
    }


def _moment(given: object) -> datetime:
    """The moment before which messages aren't handed out, in UTC; what is long over is 1970.

    Raises:
        UsageError: it isn't one, or is too far away.
    """
    if not isinstance(given, datetime):
        raise UsageError(f"{shown(given)} is not a time", remedy="give a datetime")
    try:
        moment = given.astimezone(UTC) if given.tzinfo else given.replace(tzinfo=UTC)
        if moment <= datetime.now(UTC) + timedelta(microseconds=_LONGEST_DELAY_US):
            return max(moment, _LONG_AGO)
    except OverflowError:  # UTC has no such moment
        pass
    raise UsageError(f"visible_at can't be {given}", remedy="at most 10,000 days from now")
