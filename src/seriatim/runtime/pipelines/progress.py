"""The reports of a run: progress and summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal, Self

from seriatim.errors import InvariantBroken
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.runtime.pipelines.unread_files import UnreadFiles
from seriatim.spark.calls.register import Call
from seriatim.spark.control.lease_state import LeaseState
from seriatim.spark.deliver.outgoing import Waiting
from seriatim.spark.deliver.set_aside_reasons import SetAsideReason
from seriatim.spark.resequence.bucket import MOST_SKIPPED

#: The news and the facts of other modules that a report has.
__all__ = ["LeaseState", "SetAsideReason", "Waiting"]

#: The reason why a run ended: a signal; the end of its input; the end of time after that; the end of the input at its begin.
Ending = Literal["stopped", "once", "finished", "drained"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Account:
    """The law of conservation for one destination, and one batch or run, in messages.

    Args:
        destination: its name.
        held_before: held before it.
        arrived: received during it.
        released: left in order, or late and delivered; likewise for the other dispositions.
        held: held after it.
    """

    destination: str
    held_before: int = 0
    arrived: int = 0
    released: int = 0
    held: int = 0
    late: int = 0
    duplicate: int = 0
    invalid: int = 0
    rejected: int = 0
    dead: int = 0
    void: int = 0
    copy: int = 0

    @property
    def set_aside(self) -> int:
        """Decided and not released; without voids, which leave nothing, and copies, whose first sight is counted."""
        return self.late + self.duplicate + self.invalid + self.rejected + self.dead

    @property
    def missing(self) -> int:
        """The difference from the law: 0, unless seriatim lost (above 0) or invented (below 0) messages."""
        return self.held_before + self.arrived - self.released - self.held - self.set_aside - self.void - self.copy


@dataclass(frozen=True, slots=True)
class Routing:
    """The law of conservation for the router, and one batch or run, in messages.

    Args:
        received: received during it.
        routed: went to one destination or several.
        unrouted: matched no destination, and are in the unrouted port.
        invalid: were invalid and matched no destination, and are set aside.
    """

    received: int = 0
    routed: int = 0
    unrouted: int = 0
    invalid: int = 0

    @property
    def missing(self) -> int:
        """The difference from the law: 0, unless seriatim lost (above 0) or invented (below 0) messages."""
        return self.received - self.routed - self.unrouted - self.invalid


@dataclass(frozen=True, slots=True)
class HeldGroup:
    """A group that holds messages, and what it waits for.

    Args:
        destination: the destination.
        group: the group's key.
        held: how many messages it holds.
        missing_first: the first of the numbers that it misses; None: it misses none.
        missing_last: the last number of that run; None: it misses none, or as many as follow.
        since: when the hole, the round or the set began; by the event clock a time of the messages. None: no clock runs.
        reason: why it holds them.
    """

    destination: str
    group: str
    held: int
    missing_first: int | None
    missing_last: int | None
    since: datetime | None
    reason: str

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Self:
        """Read an operator's report; see `Bucket.report`."""
        destination, group, held, first, last, since, reason = fields
        try:
            moment = None if since is None else _EPOCH + timedelta(microseconds=since)
        except OverflowError:  # event times have no bounds
            moment = None
        return cls(destination, group, held, first, last, moment, reason)

    @property
    def missing(self) -> str:
        """The numbers that it misses, as people write them; empty: it misses none."""
        return missing_numbers(self.missing_first, self.missing_last)


@dataclass(frozen=True, slots=True)
class SkippedHole:
    """A hole that was skipped: a run of numbers that were missing for too long.

    Args:
        destination: the destination.
        group: the group's key.
        first: the first of the missing numbers.
        last: the last of them.
    """

    destination: str
    group: str
    first: int
    last: int

    @property
    def numbers(self) -> str:
        """The missing numbers, as people write them."""
        return missing_numbers(self.first, self.last)


@dataclass(frozen=True, slots=True)
class SkippedHoles:
    """The holes that were skipped during a run.

    Args:
        holes: how many holes.
        numbers: how many missing numbers they had.
        first: the first of these holes, at most ten.
    """

    holes: int = 0
    numbers: int = 0
    first: tuple[SkippedHole, ...] = ()

    @classmethod
    def of(cls, holes: int, numbers: int, first: Iterable[tuple[str, str, int, int]]) -> Self:
        """Read an operator's report; see `Bucket.report`."""
        return cls(holes, numbers, tuple(SkippedHole(*hole) for hole in islice(first, MOST_SKIPPED)))

    def __add__(self, later: SkippedHoles) -> SkippedHoles:
        first = (*self.first, *later.first)[:MOST_SKIPPED]
        return SkippedHoles(self.holes + later.holes, self.numbers + later.numbers, first)


@dataclass(frozen=True, slots=True)
class SuspectedRestart:
    """A group whose producer seems to have begun anew.

    Args:
        destination: the destination.
        group: the group's key.
        number: the number of the last message that tells so.
    """

    destination: str
    group: str
    number: int


@dataclass(frozen=True, slots=True)
class SuspectedRestarts:
    """The groups whose producer seems to have begun anew, at the end of a run.

    Args:
        groups: how many groups.
        first: the first of them by destination and key, at most ten.
    """

    groups: int = 0
    first: tuple[SuspectedRestart, ...] = ()


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of a batch: the number of tasks with messages of it, and the smallest and largest number of messages."""

    tasks: int = 0
    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Running:
    """A batch that takes long.

    Args:
        batch: its id.
        seconds: its time so far.
        call: the longest running call of the user's code, if it is known.
    """

    batch: int
    seconds: float
    call: Call | None = None


@dataclass(frozen=True, slots=True)
class Ports:
    """The failing ports, or their reasons, have changed; `waiting` is empty when all ports work again."""

    waiting: tuple[Waiting, ...]


@dataclass(frozen=True, slots=True)
class Again:
    """The query had a transient failure, and is restarted.

    Args:
        what: the cause, in words.
        reason: the failure.
        seconds: the time until the restart.
        attempt: the number of the restart since the last completed batch, from 1.
        attempts: the largest number of restarts.
    """

    what: str
    reason: str
    seconds: float
    attempt: int
    attempts: int


@dataclass(frozen=True, slots=True)
class Progress:
    """A micro-batch of a run.

    Args:
        batch: its id.
        seconds: its duration.
        rows: the rows that it read.
        rows_per_s: the rows that it read per second.
        accounts: the account of each destination.
        holes: the number of open holes after it.
        routing: the account of the router.
        waiting: destinations that haven't got all their released messages, or whose ports fail.
        spread: the distribution of the batch over tasks.
        behind: the number of records that the run is behind its source, of the partition that is furthest behind; None: the source
            doesn't tell it.
    """

    batch: int
    seconds: float
    rows: int
    rows_per_s: float
    accounts: tuple[Account, ...]
    holes: int
    routing: Routing = Routing()
    waiting: tuple[Waiting, ...] = ()
    spread: Spread = Spread()
    behind: int | None = None

    @property
    def held(self) -> int:
        """The number of held messages, over all destinations."""
        return sum(account.held for account in self.accounts)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run that ended well.

    Args:
        pipeline: its name.
        ending: the reason why it ended.
        seconds: the time from the start of the query to its end.
        batches: the number of micro-batches that read or decided messages.
        accounts: the account of each destination.
        holes: the number of open holes at the end.
        routing: the account of the router.
        waiting: destinations that haven't got all their released messages, or whose ports fail.
        held_groups: how many groups hold messages at the end.
        longest: those of them that have waited longest, at most ten.
        reasons: why messages were set aside during the run, the most frequent reason first.
        skipped: the holes that were skipped during the run.
        suspected: the groups whose producer seems to have begun anew.
        unread: the input files that aren't read, or not as they are now.
    """

    pipeline: str
    ending: Ending
    seconds: float
    batches: int
    accounts: tuple[Account, ...]
    holes: int
    routing: Routing = Routing()
    waiting: tuple[Waiting, ...] = ()
    held_groups: int = 0
    longest: tuple[HeldGroup, ...] = ()
    reasons: tuple[SetAsideReason, ...] = ()
    skipped: SkippedHoles = SkippedHoles()
    suspected: SuspectedRestarts = SuspectedRestarts()
    unread: UnreadFiles = field(default_factory=UnreadFiles)

    @property
    def invalid(self) -> int:
        """The number of invalid messages, of all destinations and without a destination."""
        return sum(account.invalid for account in self.accounts) + self.routing.invalid

    @property
    def set_aside(self) -> int:
        """Messages that were set aside during the run, over all destinations and of those that have none."""
        return sum(account.set_aside for account in self.accounts) + self.routing.invalid

    @property
    def held(self) -> int:
        """Messages held at the end, over all destinations."""
        return sum(account.held for account in self.accounts)

    @property
    def is_whole(self) -> bool:
        """Whether every message was released and delivered: none was set aside, unrouted, skipped as missing or left in its file, and none
        waits.
        """
        aside = self.set_aside or self.routing.unrouted or self.skipped.holes
        return not (aside or self.held or self.undelivered or self.unread.first)

    @property
    def undelivered(self) -> int:
        """The number of released rows that their ports haven't got yet; they are kept in the checkpoint."""
        return sum(batch.rows for batch in self.waiting)

    def check(self) -> None:
        """Check the law of conservation.

        Raises:
            InvariantBroken: it doesn't hold.
        """
        for account in self.accounts:
            if account.missing:
                raise InvariantBroken(
                    f"the law of conservation is broken by {account.missing}: {account}",
                    where=f"destination {account.destination}",
                )
        if self.routing.missing:
            problem = f"the law of conservation is broken by {self.routing.missing}: {self.routing}"
            raise InvariantBroken(problem, where="route")


#: Called after each micro-batch.
Report = Callable[[Progress], None]
#: The news between micro-batches.
News = Running | Ports | Again | LeaseState
Tell = Callable[[News], None]
