"""The worker: threads that take the groups of a queue, each one group at a time, and call the user's handler in order."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from seriatim.box.box import MessageBox
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.lease import check_leasable
from seriatim.box.workers.heartbeat import Report, WorkerOrders
from seriatim.box.workers.steps import check_role
from seriatim.errors import UsageError, shown
from seriatim.kernel.fields import fields_apart
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.kernel.operators.fault import ErrorClasses
from seriatim.pipeline.declared.error_class import FaultKinds, load_error_class
from seriatim.pipeline.declared.work_limits import MOST_WORKERS, Lease, Limits, Mode, Pace
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.chores import Chores
from seriatim.runtime.workers.handlers import GivenHandler, Handlers, no_handler
from seriatim.runtime.workers.heartbeat import Heartbeat, Reporting
from seriatim.runtime.workers.idleness import Idleness
from seriatim.runtime.workers.lease_keeper import LeaseKeeper
from seriatim.runtime.workers.leased_turn import LeasedTurns
from seriatim.runtime.workers.obeyed import Obeyed
from seriatim.runtime.workers.scoreboard import Scoreboard, Slot
from seriatim.runtime.workers.tuning import Tuning
from seriatim.runtime.workers.turn import TransactionalTurns
from seriatim.runtime.workers.turn_size import TurnSize
from seriatim.runtime.workers.worker_thread import Turns, WorkerThread
from seriatim.runtime.workers.worker_threads import SPARE_THREADS, WorkerThreads

__all__ = ["SPARE_THREADS", "Limits", "Mode", "Worker"]

#: Connections beside those of its threads: for replacements of stuck threads, the keeper of leases, chores, and the heartbeat.
_MORE_CONNECTIONS = SPARE_THREADS + 3
_LOOK_S = 0.1
#: A turn that is to end when the worker stops has this long beyond its limit.
_GRACE_S = 5.0


def error_classes(faults: FaultKinds, folders: Sequence[str]) -> ErrorClasses:
    if not isinstance(faults, FaultKinds):
        raise UsageError(
            f"faults can't be {shown(faults)}", remedy="such as FaultKinds(transient=[httpx.TransportError])"
        )
    places = [Path(folder) for folder in folders] or [Path.cwd()]
    loaded = [
        tuple(load_error_class(error, places) if isinstance(error, str) else error for error in named)
        for named in (faults.transient, faults.business)
    ]
    classes = ErrorClasses(*loaded)
    if classes.contradictions:
        raise UsageError(
            f"{classes.contradictions[0].__name__} can't be both transient and business",
            remedy="leave it out of one of them",
        )
    return classes


class Worker:
    """Works on a queue: locks a ready group, calls the handler with its messages in order, and commits.

    The handler's writes through ``tx.connection``, its published messages, and the end of its message commit together.

    Args:
        box: the message box; while the worker runs, the box has more connections, for the worker's threads.
        queue: the queue's name.
        handler: a function of a message and the session, also an ``async def``; its name, ``module:function``; a mapping from message types
            to handlers (``"*"``: all other types); None: the handlers of the queue's starting subscriptions.
        workers: the number of threads; each works on one group at a time.
        batch: call the handler with a `Delivery` of all messages of a turn, in place of one message. A `UnitOfWork` is
            always handed out as a `Delivery`.
        pace: how much is worked on at a time, and how fast: a `Pace`.
        faults: the kinds of faults by their classes of exceptions: a `FaultKinds`.
        name: the worker's name in faults; default: the machine and the process.
        folders: folders to import handlers from, besides Python's own path; default: the current directory.
        run_as: the database role of the handler, for its statements through `tx`; None: the worker's role.
        mode: ``"transactional"``, or ``"leased"`` for long handlers: a lease claims the group, and no transaction is open
            until the handler uses one.
        lease: a `Lease`, or its seconds (or ``"30s"``), after which another worker takes over the group of a lost worker.

    Raises:
        UsageError: a handler that isn't callable, a missing queue, or an invalid value.
        EnvironmentProblem: `run_as` is a role that the worker's role can't take.
    """

    _takes_coroutines = True
    #: Whether it asks the journal of two regions what it may handle.
    _by_regions = False

    @fields_apart(Limits)
    def __init__(
        self,
        box: MessageBox,
        queue: str,
        handler: GivenHandler | str | Mapping[str, GivenHandler | str] | None = None,
        *,
        workers: int = 8,
        batch: bool = False,
        pace: Pace | None = None,
        mode: str = Mode.TRANSACTIONAL,
        lease: Lease | float | str = 30.0,
        faults: FaultKinds | None = None,
        name: str | None = None,
        folders: Sequence[str] = (),
        run_as: str | None = None,
    ) -> None:
        self._limits = Limits(workers, batch, pace, mode, lease)
        if not isinstance(box, MessageBox):
            raise UsageError(f"box can't be {shown(box, 80)}", remedy="sq.MessageBox.open(…)", argument="box")
        definitions = box.definitions()
        definitions.queue(queue).check_received_here(by_regions=self._by_regions)
        declared = definitions.queue(queue).declared
        if self._limits.is_leased:
            check_leasable(definitions.queue(queue), is_led=queue in definitions.starting)
        if handler is None and queue not in definitions.starting:
            raise no_handler(queue)
        self._handlers = Handlers(handler, folders, takes_coroutines=self._takes_coroutines)
        whole = isinstance(declared.policy, UnitOfWork)
        if (whole or batch) and self._handlers.by_type:
            raise UsageError(
                "a queue whose messages are handed out together needs one handler for all types",
                where=f"queue {queue!r}",
                remedy="give one handler",
            )
        self._classes = error_classes(FaultKinds() if faults is None else faults, folders)
        if run_as is not None:
            check_role(box, run_as)
        self._run_as = run_as
        self._box = box
        self._queue = queue
        self._whole = whole
        self._turn_size = TurnSize(declared, batch=batch)
        self._suspects: set[str | None] = set()
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._ending = threading.Event()
        self._stop = Stop()
        self._at_work = threading.Lock()

    def run(self, *, until_idle: bool = False, loop: asyncio.AbstractEventLoop | None = None) -> int:
        """Work until `stop` is called, or SIGTERM or SIGINT arrives (in the main thread); then finish the current turns.

        It can be called again after it has returned.

        Args:
            until_idle: return when nothing can be handed out. Messages that wait for a retry or a delay, for a number that is
                missing, for an operator, or for another worker, aren't waited for.
            loop: the event loop of ``async def`` handlers, running in another thread; None: one that lives as long as the process.

        Returns:
            the number of messages that the handler got in this call.

        Raises:
            UsageError, DeploymentError: the queue is gone, a name can't be imported, `loop` was closed, or the worker runs already.
            BoxDisabled: the box isn't on the server that it remembers.
            Unavailable: all handlers are stuck.
        """
        return self._run_on(loop, Idleness() if until_idle else None, None)

    def run_with(self, idleness: Idleness | None, reporting: Reporting | None = None) -> int:
        """As `run`, until all threads of one or more workers are idle; for a process that has several workers.

        `reporting`: how it tells what it does, in a process of a supervisor; None: it has a heartbeat of its own.
        """
        return self._run_on(None, idleness, reporting)

    def _run_on(
        self, loop: asyncio.AbstractEventLoop | None, idleness: Idleness | None, reporting: Reporting | None
    ) -> int:
        if not self._at_work.acquire(blocking=False):
            raise UsageError("the worker runs already", remedy="create another worker, or raise its `workers`")
        try:
            self._handlers.begin(loop)
            return 0 if self._stop.requested else self._run_once(idleness, reporting)
        finally:
            # Threads that are stuck keep theirs.
            self._stop, self._ending = Stop(), threading.Event()
            self._at_work.release()

    def stop(self) -> None:
        """Let `run` return after the current turns; from any thread. If `run` isn't active, its next call returns at once."""
        if not self._stop.requested:
            self._stop.request()

    def cancel(self) -> None:
        """Stop, and cancel the ``async def`` handlers at work; from any thread.

        Their work is rolled back; their messages are handed out again, and no attempt is counted.
        """
        self.stop()
        self._handlers.stop()

    def _run_once(self, idleness: Idleness | None, reporting: Reporting | None) -> int:
        limits = self._limits
        self._box.access.check_enabled()
        with ExitStack() as around:
            box = around.enter_context(self._box.more(limits.workers + _MORE_CONNECTIONS, limits.idle_limit_s))
            if reporting is None:
                reporting = Reporting(Scoreboard.make(MOST_WORKERS + SPARE_THREADS), Heartbeat(box, self._name))
                around.callback(reporting.scoreboard.close)
            around.enter_context(self._stop.listening())
            return self._run(box, reporting, around, idleness)

    def _run(self, box: MessageBox, reporting: Reporting, around: ExitStack, idleness: Idleness | None) -> int:
        limits = self._limits
        tuning = Tuning(
            self._queue,
            limits.mode,
            Obeyed(limits.workers, limits.workers, limits.run_length, limits.pace.rate),
            is_reader=reporting.heartbeat.process.is_reader,
        )
        keeper = LeaseKeeper(box, self._queue, round(limits.lease.time * 1e6), limits.lease.heartbeat_s)
        if limits.is_leased:
            keeper.start()
        numbers, connected, has_begun = itertools.count(1), limits.workers, False

        turns_of = around.enter_context(self._turns_of(box, keeper))

        def made(slot: Slot) -> WorkerThread:
            turns = self._turns(box, next(numbers), tuning)
            return WorkerThread(turns_of(turns), turns, slot, tuning.rate_limit, self._ending, idleness)

        threads = WorkerThreads(self._queue, reporting.scoreboard, made)
        chores = Chores(box)
        with reporting.heartbeat.of(_Member(tuning, threads)):
            try:
                while not self._ending.is_set() and not self._stop.requested:
                    wanted = tuning.now.threads
                    if wanted > connected:  # the connections stay for the rest of the run
                        around.enter_context(self._box.more(wanted - connected))
                        connected = wanted
                    threads.fit(wanted)
                    if not has_begun and idleness is not None:  # all threads are known: from now on they may be idle
                        idleness.begins(self.stop)
                    has_begun = True
                    FAILURES.look()
                    chores.look()
                    self._stop.wait(_LOOK_S)
            finally:
                self._ending.set()
                chores.end()
                threads.wait(time.monotonic() + limits.turn_limit_s + _GRACE_S, lambda: self._stop.insisted)
                keeper.end()
                FAILURES.look(ends=True)
        if threads.error is not None:
            raise threads.error
        return threads.handled

    @contextmanager
    def _turns_of(self, box: MessageBox, keeper: LeaseKeeper) -> Iterator[Callable[[TransactionalTurns], Turns]]:
        """How threads do turns, inside the block."""
        yield lambda turns: LeasedTurns(turns, keeper) if self._limits.is_leased else turns

    def _turns(self, box: MessageBox, number: int, tuning: Tuning) -> TransactionalTurns:
        limits, stop, ending = self._limits, self._stop, self._ending
        return TransactionalTurns(
            box, self._queue, self._handlers, f"{self._name}/{number}", tuning, limits.batch, self._whole,
            self._classes, limits.turn_limit_s,
            lambda: stop.requested or ending.is_set(), self._turn_size, self._suspects,
            self._run_as,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Member:
    tuning: Tuning
    threads: WorkerThreads

    @property
    def queue(self) -> str:
        return self.tuning.queue

    def report(self) -> Report:
        return self.tuning.report(self.threads.count, self.threads.works)

    def obey(self, answer: WorkerOrders) -> bool:
        return self.tuning.obey(answer)
