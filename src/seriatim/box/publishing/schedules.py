"""Publish the messages of due schedules, each due time once in the whole box.

The time that comes next moves in the transaction that publishes, under the lock of the schedule's row: another process that looks
meanwhile finds it locked, and afterwards moved. Only the owner of the box may do this.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, NamedTuple

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.definitions.schedules import schedule_from
from seriatim.box.publishing.publish_result import Published
from seriatim.box.publishing.publisher import Publisher
from seriatim.errors import QueueFull, Unavailable, UsageError
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.schedule import Schedule

#: The pause before a schedule that couldn't publish is tried again, seconds.
_PAUSE_S = 60
#: With ``catch_up="none"`` a due time counts for this long: workers look once a minute.
_GRACE = timedelta(seconds=90)
#: The messages of one transaction.
_MOST = 1_000
_LONGEST_WHY = 2_000


class ScheduleRun(NamedTuple):
    """The number of published messages, and the seconds until the next schedule is due; None: there is none."""

    published: int
    next_s: float | None


def publish_due(access: Access) -> ScheduleRun:
    """Publish the messages of all due schedules, each schedule in separate transactions; note why one fails, and go on."""
    published = 0
    while True:
        row = None
        try:
            with access.transaction() as transaction:
                row = transaction.maybe("due_schedule")
                if row is None:
                    return ScheduleRun(published, transaction.value("next_schedule"))
                count = _publish(transaction, row)
        except (UsageError, Unavailable) as error:  # of the commit, too, which waits for the locks of locations
            if row is None:
                raise
            access.within(_note_failure, row, str(error))  # which fails if the server is away
        else:
            published += count


def schedules_ahead(transaction: Transaction) -> dict[str, datetime | None]:
    """Return running schedules whose next time lies after their due time (None: they have none), as the clock was ahead; with it."""
    now = transaction.value("clock")
    ahead: dict[str, datetime | None] = {}
    for row in transaction.rows("schedule_times"):
        schedule = None if row.is_paused else schedule_from(row.definition)
        if schedule is None:
            continue
        due = next(schedule.after(now), None)
        waits = row.look_at is not None and row.look_at > now + timedelta(seconds=_PAUSE_S)
        if waits or (row.next_at is not None and due is not None and row.next_at > due):
            ahead[row.schedule] = due
    return ahead


def schedules_put_right(transaction: Transaction) -> int:
    """Let such schedules publish at their next due time; return their number."""
    ahead = schedules_ahead(transaction)
    for name, due in ahead.items():
        transaction.do("put_schedule_right", name=name, next_at=due)
    return len(ahead)


def _publish(transaction: Transaction, row: Any) -> int:
    """Publish for one schedule, and move it on; returns the number of messages."""
    schedule = schedule_from(row.definition)
    if schedule is None:
        raise UsageError("its definition can't be read", remedy="define it again, or drop it")
    every = list(islice(_dues(schedule, row.next_at, row.now), _MOST))
    dues, published = _published(transaction, schedule, every)
    following = row.now if len(dues) == len(every) < _MOST else dues[-1]
    next_at = next(schedule.after(max(following, row.next_at)), None)
    count = len(published) - len(published.left_out)
    last_at, last_message = (dues[-1], published[-1]) if dues else (None, None)
    transaction.do(
        "move_schedule", name=row.schedule, next_at=next_at, last_at=last_at, last_message=last_message, published=count
    )
    return count


def _published(transaction: Transaction, schedule: Schedule, dues: list[datetime]) -> tuple[list[datetime], Published]:
    """Publish the messages of due times; if their queue is too full, those of the first half, down to one. Return which, too."""
    while True:
        messages = [schedule.message(due) for due in dues]
        try:
            with transaction.connection.transaction():
                return dues, Publisher(
                    transaction.access, messages, delay=None, visible_at=None, wait=0, own=True, unrouted="refuse"
                ).publish(transaction)
        except QueueFull:
            if len(dues) == 1:
                raise
            dues = dues[: len(dues) // 2]


def _note_failure(transaction: Transaction, row: Any, why: str) -> None:
    LOG.warning("schedule_fails", schedule=row.schedule, error=why)
    transaction.do(
        "fail_schedule", name=row.schedule, due=row.next_at, why=why[:_LONGEST_WHY], pause=f"{_PAUSE_S} seconds"
    )


def _dues(schedule: Schedule, first: datetime, now: datetime) -> Iterator[datetime]:
    """Yield the due times that get a message, of those from `first` to `now`."""
    if schedule.catch_up == "all":
        yield first
        yield from takewhile(lambda due: due <= now, schedule.after(first))
        return
    last = schedule.last_due(first, now) or first
    if schedule.catch_up == "one" or now - last <= _GRACE:
        yield last
