"""The worker: threads that take the groups of a queue, each one group at a time, and call the user's handler in order."""

from __future__ import annotations

import itertools
import logging
import math
import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seriatim.box.box import MessageBox
from seriatim.box.faults.lease import check_leasable
from seriatim.box.workers.steps import check_role
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.kernel.policy import UnitOfWork
from seriatim.kernel.time import micros, seconds
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.chores import Chores
from seriatim.runtime.workers.handlers import Handler, Handlers
from seriatim.runtime.workers.lease_keeper import LeaseKeeper
from seriatim.runtime.workers.leased_turn import LeasedTurns
from seriatim.runtime.workers.rate_limit import RateLimit
from seriatim.runtime.workers.scoreboard import Scoreboard, Slot
from seriatim.runtime.workers.turn import TransactionalTurns
from seriatim.runtime.workers.turn_size import TurnSize
from seriatim.runtime.workers.worker_thread import WorkerThread

__all__ = ["SPARE_THREADS", "Limits", "Mode", "Worker"]

_LOG = logging.getLogger("seriatim.worker")
_MOST_WORKERS, _MOST_RUN = 1_000, 100_000
#: So many handlers may be stuck, and be replaced.
SPARE_THREADS = 32
_LOOK_S = 0.1
#: A turn that is to end when the worker stops has this long beyond its limit.
_GRACE_S = 5.0
_TURN_LIMIT_S = 60.0
_SHORTEST_LEASE_S = 0.5
#: The least number of heartbeats in a lease.
_BEATS = 3


class Mode(StrEnum):
    """The way in which a worker holds a group: by an open transaction, or by a committed claim."""

    TRANSACTIONAL = "transactional"
    LEASED = "leased"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a worker; see `Worker`.

    Raises:
        UsageError: a value is invalid.
    """

    workers: int = 8
    run_length: int = 50
    rate: float | None = None
    turn_limit: float | str | None = None
    batch: bool = False
    mode: str = Mode.TRANSACTIONAL
    lease: float | str = 30.0
    heartbeat: float | str | None = None

    def __post_init__(self) -> None:
        _check_whole("workers", self.workers, _MOST_WORKERS)
        _check_whole("run_length", self.run_length, _MOST_RUN)
        rate = self.rate
        if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1e9):
            raise UsageError(f"rate can't be {shown(rate)}", remedy="messages a second, more than 0, or None")
        if self.turn_limit is not None and not 0.1 <= seconds(micros(self.turn_limit)) <= 86_400:
            raise UsageError(f"turn_limit can't be {shown(self.turn_limit)}", remedy="from 0.1 s to a day")
        if not isinstance(self.batch, bool):
            raise UsageError(f"batch can't be {shown(self.batch)}", remedy="True or False")
        if self.mode not in list(Mode):
            raise UsageError(f"mode can't be {shown(self.mode)}", remedy=" or ".join(repr(one.value) for one in Mode))
        if not _SHORTEST_LEASE_S <= self.lease_s <= 86_400:
            raise UsageError(f"lease can't be {shown(self.lease)}", remedy=f"from {_SHORTEST_LEASE_S} s to a day")
        if not 0 < _BEATS * self.heartbeat_s <= self.lease_s:
            raise UsageError(
                f"a lease of {self.lease_s:g} s is too short for a heartbeat of {self.heartbeat_s:g} s",
                remedy=f"a lease needs at least {_BEATS} heartbeats, so that one late heartbeat does no harm",
            )

    @property
    def is_leased(self) -> bool:
        """Whether no transaction is open while handlers work."""
        return self.mode == Mode.LEASED

    @property
    def turn_limit_s(self) -> float:
        """The longest time of a turn, or of a handler in a lease; seconds, perhaps infinite."""
        if self.turn_limit is None:
            return math.inf if self.is_leased else _TURN_LIMIT_S
        return seconds(micros(self.turn_limit))

    @property
    def idle_limit_s(self) -> float:
        """The longest time for which a transaction may idle, in seconds."""
        return _TURN_LIMIT_S if self.turn_limit is None else self.turn_limit_s

    @property
    def lease_s(self) -> float:
        """The time after which a lease ends if it isn't renewed, in seconds."""
        return seconds(micros(self.lease))

    @property
    def heartbeat_s(self) -> float:
        """The time between two renewals of a lease, in seconds."""
        return self.lease_s / 5 if self.heartbeat is None else seconds(micros(self.heartbeat))


class Worker:
    """Works on a queue: locks a ready group, calls the handler with its messages in order, and commits.

    The handler's writes through ``tx.connection``, its published messages, and the end of its message commit together.

    Args:
        box: the message box; while the worker runs, the box has more connections, for the worker's threads.
        queue: the queue's name.
        handler: a function of a message and the session; its name, ``module:function``; a mapping from message types to
            handlers (``"*"``: all other types); None: the handlers of the queue's starting subscriptions.
        workers: the number of threads; each works on one group at a time.
        batch: call the handler with a `Delivery` of all messages of a run, in place of one message. A `UnitOfWork` is
            always handed out as a `Delivery`.
        run_length: the largest number of messages of a group in one transaction. In a queue without groups, unless
            `batch` is set, a thread takes only about 20 ms of work, and at least one message, so that other threads get
            the rest.
        rate: the largest number of messages a second; None: no limit.
        turn_limit: seconds (or ``"60s"``) after which a transaction is ended, and another worker takes the group. Under
            leases: the limit of a handler. None: 60 s; under leases no limit.
        transient: classes of exceptions after which a retry may succeed, besides `Transient`, `Unavailable`, and errors of
            connections and time-outs.
        name: the worker's name in faults; default: the machine and the process.
        folders: folders to import handlers from, besides Python's own path; default: the current directory.
        slots: memory in which threads note the group in hand, for a supervisor.
        run_as: the database role of the handler, for its statements through `tx`; None: the worker's role.
        mode: ``"transactional"``, or ``"leased"`` for long handlers: a lease claims the group, and no transaction is open
            until the handler uses one.
        lease: seconds (or ``"30s"``) after which another worker takes over the group of a lost worker.
        heartbeat: seconds between renewals of a lease, at most a third of `lease`; None: a fifth of it.

    Raises:
        UsageError: a handler that isn't callable, a missing queue, or an invalid value.
        EnvironmentProblem: `run_as` is a role that the worker's role can't take.
    """

    def __init__(
        self,
        box: MessageBox,
        queue: str,
        handler: Handler | str | Mapping[str, Handler | str] | None = None,
        *,
        workers: int = 8,
        batch: bool = False,
        run_length: int = 50,
        rate: float | None = None,
        turn_limit: float | str | None = None,
        transient: Sequence[type[BaseException]] = (),
        name: str | None = None,
        folders: Sequence[str] = (),
        slots: Sequence[Slot] | None = None,
        run_as: str | None = None,
        mode: str = Mode.TRANSACTIONAL,
        lease: float | str = 30.0,
        heartbeat: float | str | None = None,
    ) -> None:
        self._limits = Limits(workers, run_length, rate, turn_limit, batch, mode, lease, heartbeat)
        definitions = box.definitions()
        declared = definitions.queue(queue).declared
        if self._limits.is_leased:
            check_leasable(definitions.queue(queue), is_led=queue in definitions.starting)
        if handler is None and queue not in definitions.starting:
            raise UsageError("there is no handler", where=f"queue {queue!r}", remedy="name one, as module:function")
        self._handlers = Handlers(handler, folders)
        whole = isinstance(declared.policy, UnitOfWork)
        if (whole or batch) and self._handlers.by_type:
            raise UsageError(
                "a queue whose messages are handed out together needs one handler for all types", where=f"queue {queue!r}",
                remedy="give one handler",
            )  # fmt: skip
        for one in transient:
            if not (isinstance(one, type) and issubclass(one, BaseException)):
                raise UsageError(
                    f"{one!r} is not a class of exceptions", remedy="such as transient=[httpx.TransportError]"
                )
        if run_as is not None:
            check_role(box, run_as)
        self._run_as = run_as
        self._box = box
        self._queue = queue
        self._whole = whole
        self._turn_size = TurnSize(declared, batch=batch)
        self._transient = tuple(transient)
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._slots = slots
        self._ending = threading.Event()
        self._stop = Stop()
        self._at_work = threading.Lock()

    def run(self) -> int:
        """Work until `stop` is called, or SIGTERM or SIGINT arrives (in the main thread); then finish the current turns.

        It can be called again after it has returned.

        Returns:
            the number of messages that the handler got in this call.

        Raises:
            UsageError, DeploymentError: the queue is gone, a name can't be imported, or the worker runs already.
            Unavailable: all handlers are stuck.
        """
        if not self._at_work.acquire(blocking=False):
            raise UsageError("the worker runs already", remedy="create another worker, or raise its `workers`")
        try:
            return 0 if self._stop.requested else self._run_once()
        finally:
            # Threads that are stuck keep theirs.
            self._stop, self._ending = Stop(), threading.Event()
            self._at_work.release()

    def stop(self) -> None:
        """Let `run` return after the current turns; from any thread. If `run` isn't active, its next call returns at once."""
        if not self._stop.requested:
            self._stop.request()

    def _run_once(self) -> int:
        limits = self._limits
        connections = limits.workers + SPARE_THREADS + 2
        scoreboard = None if self._slots else Scoreboard.make(limits.workers + SPARE_THREADS)
        slots = self._slots if scoreboard is None else scoreboard.slots
        try:
            with (
                self._box.more(connections, limits.idle_limit_s) as box,
                self._stop.listening(),
            ):
                return self._run(box, slots or ())
        finally:
            if scoreboard is not None:
                scoreboard.close()

    def _run(self, box: MessageBox, slots: Sequence[Slot]) -> int:
        limits = self._limits
        rate_limit = RateLimit(limits.rate, limits.run_length)
        keeper = LeaseKeeper(box, self._queue, round(limits.lease_s * 1e6), limits.heartbeat_s)
        if limits.is_leased:
            keeper.start()
        free, numbers = iter(slots), itertools.count(1)

        def started() -> WorkerThread | None:
            slot = next(free, None)
            if slot is None:
                return None
            turns = self._turns(box, next(numbers))
            thread = WorkerThread(
                LeasedTurns(turns, keeper) if limits.is_leased else turns, slot, rate_limit, self._ending
            )
            thread.start()
            return thread

        threads = [thread for _ in range(limits.workers) if (thread := started()) is not None]
        chores = Chores(box)
        try:
            while not self._ending.is_set() and not self._stop.requested:
                self._stop.wait(_LOOK_S)
                for thread in threads:
                    if _is_stuck(thread) and (another := started()) is not None:
                        threads.append(another)
                        break
                if all(thread.given_up for thread in threads):
                    raise Unavailable(
                        "all handlers are stuck", where=f"queue {self._queue!r}", remedy="restart the worker"
                    )
                chores.look()
        finally:
            self._ending.set()
            chores.end()
            self._wait(threads)
            keeper.end()
        for thread in threads:
            if thread.error is not None:
                raise thread.error
        return sum(thread.handled for thread in threads)

    def _turns(self, box: MessageBox, number: int) -> TransactionalTurns:
        limits, stop, ending = self._limits, self._stop, self._ending
        return TransactionalTurns(
            box, self._queue, self._handlers, f"{self._name}/{number}", limits.run_length, limits.batch, self._whole,
            self._transient, limits.turn_limit_s,
            lambda: stop.requested or ending.is_set(), self._turn_size, self._run_as,
        )  # fmt: skip

    def _wait(self, threads: list[WorkerThread]) -> None:
        """Wait until all turns have ended; at their limit, handlers that don't return are abandoned."""
        until = time.monotonic() + self._limits.turn_limit_s + _GRACE_S
        left = [thread for thread in threads if not thread.given_up]
        while left and time.monotonic() < until and not self._stop.insisted:
            left[0].join(_LOOK_S)
            for thread in left:
                _is_stuck(thread)
            left = [thread for thread in left if thread.is_alive() and not thread.given_up]


def _is_stuck(thread: WorkerThread) -> bool:
    """Whether the thread has to be replaced; its turn is ended, unless the server is unreachable, which ends it as well."""
    try:
        return thread.look()
    except Unavailable as error:
        _LOG.warning("%s: %s", thread.name, error)
        return thread.given_up


def _check_whole(what: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{what} can't be {shown(value)}", remedy=f"a whole number from 1 to {most:,}")
