"""The deliveries of one destination: directly into its port, or through its outbox while the port fails.

A port that fails makes only its own destination wait. From then on its batches go to the outbox, so that order is kept; the oldest batch is
retried, after 1 s at first and at most every minute, and when all batches are delivered the next goes directly into the port again. Another
sink of Spark, and one that only one of two runs writes to at a time (`claimed.py`), always get their batches from the outbox.

Two threads work here: the thread of the micro-batch calls `ready` and `put`, a carrier thread calls `carry`.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seriatim.errors import CheckpointMismatch, EnvironmentProblem, SeriatimError
from seriatim.spark.deliver.claimed import Claimed, StandsBy
from seriatim.spark.deliver.outbox import Kept, Outbox
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.targets import Folder, Target, reason_of

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
#: How many batches a standby run looks at: the first batch that the other run hasn't delivered doesn't hold up all later ones.
_MOST_LOOKED_AT = 16


@dataclass(frozen=True, slots=True)
class Waiting:
    """A destination that hasn't got all its released messages, or whose port fails.

    Args:
        destination: its name.
        rows: the number of rows that wait in the checkpoint.
        batches: the number of their micro-batches.
        since: the time since which it waits, such as 2024-05-01T10:00:00Z.
        reason: the last error of the port; empty: nothing is wrong, the rows are being delivered.
        stands_by: whether nothing is wrong with the port: another run of the pipeline has the lease, or nobody can know.
    """

    destination: str
    rows: int
    batches: int
    since: str
    reason: str
    stands_by: bool = False


class Outgoing:
    def __init__(
        self, destination: str, target: Target, outbox: Outbox, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.destination = destination
        self._target = target
        self._outbox = outbox
        self._clock = clock
        self._straight: Port | None = None
        self._columns: tuple[str, ...] = ()
        # Whether the workers write a batch again that the port refused: it isn't in the outbox yet.
        self._rewritten = False
        self._reason = outbox.kept[-1].reason if outbox.kept else ""
        self._since = outbox.kept[0].since if outbox.kept else 0.0
        self._stands_by = False
        self._pause_s = _FIRST_PAUSE_S
        self._next_try = clock()
        self._stopped = False
        # The newest batch that the port may have, as long as it hasn't been asked.
        self._latest: int | None = None

    @property
    def has_work(self) -> bool:
        """Whether the port fails, or hasn't got all finished batches."""
        return bool(self._reason or self._outbox.kept)

    @property
    def is_due(self) -> bool:
        """Whether there are batches to deliver from the outbox now."""
        return self.has_work and self._clock() >= self._next_try

    def waiting(self) -> Waiting | None:
        """The waiting batches of the destination; None if it doesn't wait."""
        kept, reason = self._outbox.kept, self._reason
        if not kept and not reason:
            return None
        since = min([batch.since for batch in kept], default=self._since)
        moment = dt.datetime.fromtimestamp(int(since), dt.UTC).isoformat().replace("+00:00", "Z")
        rows = sum(batch.rows for batch in kept)
        return Waiting(self.destination, rows, len(kept), moment, reason, bool(reason) and self._stands_by)

    def claim(self) -> None:
        """Claim the port; if it can't be written, its destination waits."""
        try:
            self._target.claim()
        except EnvironmentProblem as error:
            self._blame(reason_of(error))

    def check_age(self, latest: int) -> None:
        """Check that the port isn't ahead of the checkpoint; while it fails it is asked again, before it takes anything."""
        self._latest = latest
        try:
            self._check_age()
        except CheckpointMismatch:
            raise
        except (OSError, SeriatimError) as error:
            self._blame(reason_of(error))
        if self._reason:
            self._latest = latest  # what was asked may have been an empty folder, below a disk that isn't mounted

    def begin(self) -> None:
        """Remove the remains of an unfinished batch."""
        if isinstance(self._target, Folder):
            self._target.port.begin()
        self._outbox.port.begin()

    def ready(self, columns: Sequence[str] = ()) -> Port:
        """The place where the workers have to write the next batch."""
        self._columns = tuple(columns)
        self._straight = self._target.port if isinstance(self._target, Folder) and not self.has_work else None
        if self._straight is not None:
            return self._straight
        self._outbox.begin()
        return self._outbox.port

    def put(self, batch: int, parts: list[tuple[str, str]], rows: int, failure: str | None) -> bool:
        """Put a batch in place that the workers wrote to the folder from `ready`."""
        if self._straight is None:
            if failure is not None:
                raise EnvironmentProblem(
                    f"messages that wait for {self.destination} can't be kept in the checkpoint: {failure}",
                    remedy="mend that; the next run goes on where this one stopped",
                )
            since = self._since if self._reason else time.time()
            reason = "" if self._stands_by else self._reason  # the next run asks for the lease's holder itself
            kept = Kept(batch, rows, since, reason, self._columns, dict(self._outbox.port.options))
            self._outbox.put(kept, parts)
            self._rewritten = False
            return True
        try:
            if failure is None:
                self._straight.publish(batch, parts)
                return True
        except OSError as error:
            failure = reason_of(error)
        self._rewritten = True
        self._blame(failure)
        self._straight.begin()
        return False

    def carry(self) -> None:
        """Deliver waiting batches, oldest first, as long as the port accepts them."""
        while self.has_work and not self._stopped:
            # Both are read before the batches: `put` first keeps a batch and then ends the rewriting. Without a reason the direct way
            # is open from the removal of the last batch on, so a later batch isn't ours.
            rewritten, failing = self._rewritten, bool(self._reason)
            oldest = next(iter(self._outbox.kept), None)
            if oldest is None and rewritten:
                return  # otherwise a claimable port would count as one that has everything
            try:
                self._target.claim()
                self._check_age()
                if oldest is not None:
                    self._target.take(oldest.batch, self._outbox.port.folder(oldest.batch))
            except StandsBy as told:
                self._stand_by(str(told))
                return
            except Exception as error:  # noqa: BLE001 - a sink of Spark's raises whatever it likes
                if not self._stopped:
                    self._blame(reason_of(error))
                return
            if oldest is not None:
                self._outbox.drop(oldest)
            if failing:
                self._pause_s, self._reason = _FIRST_PAUSE_S, ""  # the reason last: with it the straight way is open

    def stop(self) -> None:
        """Make the carrier thread end after its present batch."""
        self._stopped = True

    def _check_age(self) -> None:
        if self._latest is None:
            return
        newest = self._target.newest_batch()
        if newest is not None and newest > self._latest:
            raise CheckpointMismatch(
                f"the port has batch {newest}, and the checkpoint would go on with batch {self._latest}: it is older",
                where=f"destination {self.destination}",
                remedy="restore both as of one moment, a message box like a folder, or give the pipeline a new checkpoint and new ports",
            )
        self._latest = None

    def _stand_by(self, reason: str) -> None:
        """Note why this run doesn't deliver now, and remove the batches that another run has delivered, so that the checkpoint doesn't
        grow.
        """
        target = self._target
        if not isinstance(target, Claimed):
            raise TypeError(target)
        if not self._reason:
            self._since = time.time()
        self._reason, self._stands_by, self._pause_s = reason, True, _FIRST_PAUSE_S
        self._next_try = self._clock() + target.look_s
        try:
            for later in self._outbox.kept[1:_MOST_LOOKED_AT]:
                if target.is_over(self._outbox.port.folder(later.batch)):
                    self._outbox.drop(later)
        except StandsBy:
            return  # without the journal nothing is known
        except Exception as error:  # noqa: BLE001 -- as of any target
            self._blame(reason_of(error))

    def _blame(self, reason: str) -> None:
        if not self._reason:
            self._since = time.time()
        self._reason, self._stands_by = reason or "it failed without a word", False
        self._next_try = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
