"""Clean up: delete rows that nothing refers to, and rows that are older than their keeping time.

This module decides what a box keeps and for how long. It works in batches, each in its own transaction, beside
publishers and receivers. It holds no lock that they need for longer than a moment, and reads by indexes, whatever the
box's size.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

from psycopg import errors

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.operators.operator_log import Operator, log
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.kernel.fields import LONGEST_DAYS
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.queue import Queue

#: The most rows that a transaction deletes.
_BATCH = 10_000
#: The most groups that a transaction forgets: each takes a lock, and the server's table of locks has a fixed size.
_GROUPS = 500
#: The number of days ahead for which the history has a part already.
_DAYS_AHEAD = 7
_LONG_AGO = datetime(1, 1, 2, tzinfo=UTC)
_DAY = timedelta(days=1)
#: A key whose message is gone stays so long, because it is likely to be taken again.
_KEY_AGE = timedelta(hours=1)

#: What is kept for some time: the error where none is given, and an example.
_KEPT = {
    "message_ids": ("message ids have to be remembered for some time", 'such as "7d"'),
    "faults": ("faults have to be kept for some time", 'such as "30d"'),
    "events": ("events have to be kept for some time", 'such as "30d"'),
}
#: Called after each batch with what is done so far.
Progress = Callable[["Purged"], None]


@dataclass(frozen=True, slots=True)
class Purged:
    """The rows that a clean-up deleted.

    Args:
        messages: messages without references.
        message_bytes: the bytes of their bodies.
        history: entries of the history.
        days: partitions of the history that were dropped.
        message_ids: ids that are no longer recognised when they are published again.
        requests: requests that are over, with their replies.
        region_numbers: numbers of sessions in two regions that are over, and of which it's forgotten whose they were.
        tickets: rows of dispensed numbers, or of numbers whose messages are gone.
        places: rows of place numbers of `Unordered` queues with a gate; of each group the newest row stays.
        waiters: entries of waiting receivers whose connection is gone.
        groups: expired groups that were forgotten.
        arrivals: messages that got a number now, because their publishing transactions gave none.
        faults: faults older than their keeping time.
        events: events older than their keeping time.
        bulk_operations: bulk operations that ended, or were gathered and never begun, longer ago than events are kept.
        complete: whether the clean-up finished; False if its time was over before.
    """

    messages: int = 0
    message_bytes: int = 0
    history: int = 0
    days: int = 0
    message_ids: int = 0
    requests: int = 0
    region_numbers: int = 0
    tickets: int = 0
    places: int = 0
    waiters: int = 0
    arrivals: int = 0
    groups: int = 0
    faults: int = 0
    events: int = 0
    bulk_operations: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Purgeable:
    """The rows that a clean-up would delete.

    Args:
        messages: an upper bound of the messages; messages with other references stay.
        history: entries of the history.
        message_ids: ids older than their keeping time.
        size_bytes: their bytes in tables and indexes, by the mean size of a row. PostgreSQL reuses them for new rows.
        groups: an upper bound of the expired groups, if they are to be forgotten.
        faults: an upper bound of the faults; the newest fault of a present message stays.
        events: events older than their keeping time.
    """

    messages: int
    history: int
    message_ids: int
    size_bytes: int
    groups: int = 0
    faults: int = 0
    events: int = 0


def run(
    access: Access,
    *,
    queue: str | None = None,
    older_than: float | str | None = None,
    forget_expired: bool = False,
    seconds: float | None = None,
    now: datetime | None = None,
    progress: Progress | None = None,
) -> Purged:
    """Clean up. It may run at any time, also several times at once; worker processes call it from time to time."""
    return _CleanUp(access, seconds, progress).run(queue, _period(older_than), forget_expired, now)


def purgeable(
    access: Access, *, queue: str | None = None, older_than: float | str | None = None, now: datetime | None = None
) -> Purgeable:
    """Count the rows that `run` with these arguments would delete; changes nothing."""
    with access.transaction() as transaction:
        keeping = transaction.one("keeping")
        moment = now or keeping.moment
        befores = _befores(transaction, queue, _period(older_than), moment, keeping.faults_for)
        parameters = {
            "queue_ids": list(befores),
            "befores": list(befores.values()),
            "ids_before": moment - keeping.message_ids_for,
            "faults_before": moment - keeping.faults_for,
            "events_before": moment - keeping.events_for,
        }
        found = transaction.one("purgeable", Purgeable, **parameters)
        groups, definitions = 0, transaction.definitions()
        for one, before in _expired(transaction, queue, moment):
            looked_at = definitions.queue(str(one.declared.gate_name)) if one.numbers else one
            named = {"queue_id": looked_at.queue_id, "before": before}
            groups += transaction.value("count_expired", **named)
        return replace(found, groups=groups)


def keep(access: Access, what: str, period: float | str) -> None:
    """Set how long something of `_KEPT` is kept: seconds, or ``"30d"``."""
    wanted = _period(period)
    if wanted is None or (what == "message_ids" and not wanted):
        problem, remedy = _KEPT[what]
        raise UsageError(problem, remedy=remedy)
    with access.transaction() as transaction:
        transaction.do("keep", **dict.fromkeys(_KEPT) | {what: wanted})


class _CleanUp:
    def __init__(self, access: Access, seconds: float | None, progress: Progress | None) -> None:
        self._access = access
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._progress = progress
        self._purged = Purged()

    def run(
        self, queue: str | None, older_than: timedelta | None, forget_expired: bool, now: datetime | None
    ) -> Purged:
        """Do all steps, in the order in which each frees rows for the next; those that read what stays come last."""
        with self._access.transaction() as transaction:
            keeping = transaction.one("keeping")
            moment = now or keeping.moment
            befores = _befores(transaction, queue, older_than, moment, keeping.faults_for)
            expired = _expired(transaction, queue, moment) if forget_expired else []
            transaction.do("sample")
        ids_before, events_before = moment - keeping.message_ids_for, moment - keeping.events_for
        self._add_days(moment)
        self._days(befores, moment)
        for queue_id, before in befores.items():
            self._delete("purge_history", queue_id=queue_id, since=_LONG_AGO, before=before)
        self._delete("purge_requests", before=moment)
        with self._transaction() as transaction:  # what tasks of pipelines have staged long ago, and no batch contains
            for (part_id,) in transaction.rows("stray_parts", writer="", batch=-1):
                transaction.do("drop_parts", part_ids=[part_id])
        self._delete("purge_messages", after=0)
        self._delete("purge_message_ids", since=_LONG_AGO, before=ids_before)
        self._delete("purge_region_numbers", before=ids_before)
        self._delete("purge_unique_keys", before=moment - _KEY_AGE)
        self._delete("purge_dispensed")
        self._groups(expired)
        self._delete("purge_events", after=0, before=events_before)
        self._delete("purge_bulk_operations", to_the_last=True, before=events_before)
        self._rest()
        # These read what stays, too, which may take all of a short run: none comes first each time.
        sweeps = [
            partial(self._tickets, keeping.swept_through),
            # Runs of place numbers that nobody counts on from any more.
            partial(self._delete, "purge_places", queue_id=0, group_key="", first=0),
            partial(self._delete, "purge_faults", after=0, before=moment - keeping.faults_for),
        ]
        first = 0 if self._deadline is None else random.randrange(len(sweeps))  # noqa: S311
        for sweep in sweeps[first:] + sweeps[:first]:
            sweep()
        return self._purged

    def _delete(self, statement: str, *, to_the_last: bool = False, **given: Any) -> None:
        """Delete batch after batch, until one isn't full, or `to_the_last`, until there is nothing to look at. A statement returns by their
        names the fields of `Purged` that grow; the parameters that say where the next batch begins; and at how many rows it has `looked`,
        where that isn't the number of deleted ones.
        """
        while self._goes_on():
            found = self._row(statement, **given)._asdict()
            given |= {name: found.pop(name) for name in given.keys() & found.keys()}
            looked = found.pop("looked", None)
            self._count(**found)
            if (sum(found.values()) if looked is None else looked) < (1 if to_the_last else _BATCH):
                return

    def _tickets(self, begun: int) -> None:
        """Delete rows of numbers, once around from where the last run stopped."""
        around = begun == 0
        while self._goes_on():
            through, tickets = self._row("purge_tickets")
            self._count(tickets=tickets)
            if around and (through == 0 or through >= begun > 0):
                break
            around = around or through == 0

    def _groups(self, expired: Sequence[tuple[BoxQueue, datetime]]) -> None:
        for queue, before in expired:
            name, by = queue.declared.name, Operator("clean-up", f"idle since {before.isoformat(' ', 'seconds')}")
            after: str | None = ""
            while after is not None and self._goes_on():
                named = {"of_queue": queue.queue_id, "before": before, "after_key": after, "how_many": _GROUPS}
                with self._transaction() as transaction:
                    groups, after = transaction.one("forget_expired", **named)
                    if groups:  # with them, as `requeue_facts` goes by it
                        log(transaction, by, "forget", queue=name, group=None, details={"groups": groups})
                self._count(groups=groups)

    def _rest(self) -> None:
        if self._goes_on():
            with self._transaction() as transaction:
                waiters = transaction.do("purge_waiters")
                transaction.do("purge_workers")
                transaction.do("purge_samples")
                transaction.do("purge_edited")
            with self._access.transaction() as transaction:
                arrivals = transaction.value("number_left")
            self._count(waiters=waiters, arrivals=arrivals)

    # ---- the days of the history

    def _add_days(self, moment: datetime) -> None:
        today = moment.astimezone(UTC).date()
        with self._access.transaction() as transaction:
            known = set(_days(transaction))
        for ahead in range(_DAYS_AHEAD + 1):
            if (day := today + ahead * _DAY) not in known:
                self._try("add_history_day", of_day=day)

    def _days(self, befores: dict[int, datetime], moment: datetime) -> None:
        """Drop whole partitions of past days, if no queue keeps any of their rows."""
        today = moment.astimezone(UTC).date()
        with self._access.transaction() as transaction:
            days = [day for day in _days(transaction) if day < today]
            queues = _history_queues(transaction)
        for day in days:
            ends = datetime(day.year, day.month, day.day, tzinfo=UTC) + _DAY
            staying = [one for one in queues if one not in befores or befores[one] < ends]
            if not self._goes_on():
                return
            if (emptied := self._try("empty_history_day", of_day=day, staying=staying)) is not None:
                dropped = self._try("drop_history_day", of_day=day)
                self._count(history=emptied, days=int(bool(dropped)))

    def _try(self, name: str, **parameters: Any) -> Any:
        """Do a step that needs a lock; return None if another transaction has the lock, so that a later run does it."""
        try:
            with self._transaction() as transaction:
                return transaction.value(name, **parameters)
        except Unavailable as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
            return None

    # ---- all of them

    def _goes_on(self) -> bool:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._purged = replace(self._purged, complete=False)
            return False
        return True

    def _count(self, **more: int) -> None:
        self._purged = replace(self._purged, **{name: getattr(self._purged, name) + n for name, n in more.items()})
        if self._progress is not None:
            self._progress(self._purged)

    def _row(self, name: str, **parameters: Any) -> Any:
        with self._transaction() as transaction:
            return transaction.one(name, batch=_BATCH, **parameters)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._access.transaction() as transaction:
            transaction.do("purge_begin")
            yield transaction


def _befores(
    transaction: Transaction, queue: str | None, older_than: timedelta | None, moment: datetime, faults_for: timedelta
) -> dict[int, datetime]:
    """For each queue with a history to delete: the time before which its entries may go. `faults_for`: how long faults are kept."""
    definitions = transaction.definitions()
    declared = {one.queue_id: one.declared for one in definitions.queues.values()}
    only = None if queue is None else definitions.queue(queue).queue_id
    befores = {}
    for queue_id in _history_queues(transaction):
        period = older_than if older_than is not None else _kept(declared.get(queue_id), faults_for)
        if period is not None and only in (None, queue_id):
            befores[queue_id] = moment - period
    return befores


def _expired(transaction: Transaction, queue: str | None, moment: datetime) -> list[tuple[BoxQueue, datetime]]:
    """The queues with expiring groups, each with the time since which such groups have been idle."""
    definitions = transaction.definitions()
    only = None if queue is None else definitions.queue(queue)
    return [
        (one, moment - period)
        for one in definitions.queues.values()
        if only in (None, one) and (period := _period(one.declared.group.expire_after)) is not None
    ]


def _kept(queue: Queue | None, faults_for: timedelta) -> timedelta | None:
    """How long the history of a queue is kept, None: for ever; failed messages, unless it says so, as long as their faults."""
    if queue is None or queue.keeps == "nothing":
        return timedelta(0)
    if queue.keep.done_for is not None:
        return _period(queue.keep.done_for)
    return faults_for if queue.keeps == "faults" else None


def _period(value: float | str | None) -> timedelta | None:
    if value is None:
        return None
    period = micros(value)
    if not 0 <= period <= LONGEST_DAYS * micros("1d"):
        raise UsageError(f"a period can't be {shown(value)}", remedy=f"from 0 to {LONGEST_DAYS:,} days")
    return timedelta(microseconds=period)


def _history_queues(transaction: Transaction) -> list[int]:
    return [queue_id for (queue_id,) in transaction.rows("history_queues")]


def _days(transaction: Transaction) -> list[date]:
    return [day for (day,) in transaction.rows("history_days")]
