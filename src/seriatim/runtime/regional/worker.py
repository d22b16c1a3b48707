"""`RegionalWorker`: works on a queue of two regions, in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from seriatim.box.box import MessageBox
from seriatim.box.definitions.definition import BoxQueue
from seriatim.errors import UsageError, shown
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Lease, Mode, Pace
from seriatim.regions.journal.values import QueueRules
from seriatim.regions.regions import Regions
from seriatim.runtime.regional.claims import ClaimKeeper
from seriatim.runtime.regional.holes import Holes
from seriatim.runtime.regional.intake import Intake
from seriatim.runtime.regional.run import RegionalTurns
from seriatim.runtime.workers.handlers import GivenHandler, no_handler
from seriatim.runtime.workers.lease_keeper import LeaseKeeper
from seriatim.runtime.workers.turn import TransactionalTurns
from seriatim.runtime.workers.worker import Worker
from seriatim.runtime.workers.worker_thread import Turns

#: How sessions can be claimed.
CLAIMS = ("session", "message")
#: Connections to the journal for each thread, which publishes while its transaction is open; and for work beside the turns.
_CONNECTIONS, _MORE_CONNECTIONS = 2, 4


class RegionalWorker(Worker):
    """Works on a queue of two regions, in one of them: each session in order, and each message in one region.

    It leases copies of messages in the region's own box, claims them in the journal, and calls the handler with a message and a transaction
    of the **journal's** database. The completion is the last statement of that transaction. Writes elsewhere, also in the region's box,
    happen at least once, before the completion: with `tx.key` and `tx.token`. The handler's results are published to both
    regions before the completion; its ids are made of the queue, the session, the number and the place among the results.

    Args:
        regions: the regions.
        queue: the queue's name.
        handler: as of `Worker`: a function of a message and a `HandlerTransaction`, its name, or a mapping by types; no coroutine function.
        region: where it works, ``"a"`` or ``"b"``.
        lease: a `Lease`, or its seconds (or ``"10s"``), after which the other region takes over the session of a worker that was lost.
        claims: ``"session"``: a claim has the messages that follow without a gap, *n* + 1 commits for *n* messages;
            ``"message"``: one message, and another region may have the next one; twice *n* commits.
        batch: call the handler with a `Delivery` of all messages that a claim has.
        workers: the number of threads; each works on one session at a time.
        recheck: the longest pause (seconds, or ``"1s"``) before a session that is worked on elsewhere is asked about again;
            sessions that stand are asked about less and less often, down to a sixteenth of that.
        pace, faults, name, folders: as of `Worker`; the run's length is that of a claim.

    Raises:
        UsageError: an argument is invalid; there is no such queue; or it is defined otherwise in the box than in the journal.
        Unavailable: the box or the journal is away.
    """

    _takes_coroutines = False
    _by_regions = True

    def __init__(
        self,
        regions: Regions,
        queue: str,
        handler: GivenHandler | str | Mapping[str, GivenHandler | str],
        *,
        region: str,
        lease: Lease | float | str = 10.0,
        claims: str = "session",
        batch: bool = False,
        workers: int = 8,
        recheck: float | str = 1.0,
        pace: Pace | None = None,
        faults: FaultKinds | None = None,
        name: str | None = None,
        folders: Sequence[str] = (),
    ) -> None:
        if claims not in CLAIMS:
            raise UsageError(f"claims can't be by {shown(claims, 80)}", remedy='"session" or "message"')
        if micros(recheck) <= 0:
            raise UsageError(f"recheck can't be {shown(recheck, 80)}", remedy="more than 0 s")
        if handler is None:
            raise no_handler(queue)
        self._regions, self._region = regions, region
        self._claims, self._recheck_s = claims, seconds(micros(recheck))
        box = regions.box(region)
        check_queue(box.definitions().queue(queue), regions.journal.rules(regions.name, queue))
        super().__init__(
            box, queue, handler, workers=workers, batch=batch, pace=pace, mode=Mode.LEASED, lease=lease, faults=faults,
            name=name, folders=folders,
        )  # fmt: skip

    @contextmanager
    def _turns_of(self, box: MessageBox, keeper: LeaseKeeper) -> Iterator[Callable[[TransactionalTurns], Turns]]:
        limits, regions = self._limits, self._regions
        journal = regions.journal
        claims = ClaimKeeper(journal, self._queue, limits.lease.heartbeat_s)
        holes = Holes(box, journal, regions.name, self._queue, self._region, self._recheck_s)
        intake = Intake(
            box, journal, regions.name, self._queue, self._region, self._claims, limits.lease.time, self._recheck_s, keeper,
            claims, holes,
        )  # fmt: skip
        with journal.more(_CONNECTIONS * limits.workers + _MORE_CONNECTIONS):
            claims.start()
            try:
                yield lambda turns: RegionalTurns(turns, intake, regions)
            finally:
                intake.end()
                claims.end()


def check_queue(queue: BoxQueue, rules: QueueRules) -> None:
    """Refuse a queue of a box that is defined differently in the journal, or that decides by itself."""
    declared, where = queue.declared, f"queue {queue.declared.name!r}"
    policy = declared.policy
    if not isinstance(policy, Standard):
        raise UsageError(
            f"the queue's policy is {policy.name} in the box, and sessions have numbers",
            where=where,
            remedy="define it by regions.define(…), in both boxes",
        )
    for what, ours, theirs in (
        ("start", policy.start, rules.start),
        ("increment", policy.increment, rules.increment),
        ("hole_timeout", policy.hole_timeout, None),
        ("on_restart", policy.on_restart, "report"),
        ("opens", declared.group.opens, None),
        ("closes", declared.group.closes, None),
        ("gate", declared.gate, None),
        ("by_type", declared.group.by_type, None),
    ):
        if ours != theirs:
            raise UsageError(
                f"{what} is {shown(ours, 80)} in the box, and in two regions it has to be {shown(theirs, 80)}: the journal decides",
                where=where,
                remedy="define the queue by regions.define(…), which is the same in both boxes and in the journal",
            )
