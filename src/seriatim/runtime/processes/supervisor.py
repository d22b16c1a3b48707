"""The supervisor: starts worker processes, replaces those that die, and records the message at which they died.

The messages in hand of a process are on its scoreboard, which outlives it. An attempt that killed the process is
counted under the lock of its group, if possible before another worker gets the message: the first to wait for a lock
gets it first.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from queue import Empty, Queue
from typing import TypeVar
from uuid import UUID, uuid4

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.box.faults.lease import give_back
from seriatim.box.measures import MEASURES, Measure, Snapshot
from seriatim.box.workers.heartbeat import forget
from seriatim.errors import BoxMigrated, EnvironmentProblem, SeriatimError, Unavailable, UsageError, is_whole, shown
from seriatim.kernel.fields import to_stored
from seriatim.kernel.operators.fault import FaultKind
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Limits
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.processes.worker_process import REFUSED, Orders
from seriatim.runtime.regional.place import RegionalPlace
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.measures_page import MeasuresPage
from seriatim.runtime.workers.scoreboard import Scoreboard, Work

_Result = TypeVar("_Result")

_MOST_PROCESSES = 256
_LOOK_S = 0.1
#: A process that has lived this long may be replaced at once; others after growing pauses.
_SETTLED_S, _SHORT_NAP_S, _LONG_NAP_S = 10.0, 0.2, 10.0
#: A turn that is this much past its limit belongs to a frozen process: its own watch would have ended it.
_FROZEN_S = 5.0
#: A process whose pulse stands still for this long without messages is frozen: it beats twice a second.
_STILL_S = 10.0
#: If the supervisor itself has not looked for this long, the whole machine may have stood still.
_AWAY_S = 2.0
_PATIENCE_S = 30.0


@dataclass(slots=True)
class _WorkerProcess:
    number: int
    process: subprocess.Popen[bytes]
    scoreboard: Scoreboard
    page: MeasuresPage
    began: float
    failures: int
    #: Whether no other process was started before its group.
    is_first: bool
    #: Its id in the box.
    process_id: UUID
    #: Its pulse, and since when that stands still.
    pulse: int = 0
    still_since: float = 0.0
    #: Whether it was told to end, because fewer are wanted.
    is_leaving: bool = False
    #: Whether its measures are among those of ended processes.
    is_measured: bool = False


class Supervisor:
    """Works on queues with several processes."""

    def __init__(
        self,
        box: MessageBox,
        queues: Sequence[str],
        handler: str | Mapping[str, str] | None = None,
        *,
        processes: int = 1,
        limits: Limits | None = None,
        folders: Sequence[str] = (),
        run_as: str | None = None,
        port: str | None = None,
        is_reader: bool = False,
        faults: FaultKinds | None = None,
        log_level: str = "INFO",
        log_format: str = "text",
        until_idle: bool = False,
        regional: RegionalPlace | None = None,
    ) -> None:
        if not is_whole(processes, 1, _MOST_PROCESSES):
            raise UsageError(
                f"processes can't be {shown(processes)}", remedy=f"a whole number from 1 to {_MOST_PROCESSES}"
            )
        if not queues:
            raise UsageError("no queue is named")
        if twice := [queue for queue in queues if queues.count(queue) > 1]:
            raise UsageError(f"queue {twice[0]!r} is named twice", remedy="name each queue once")
        box.access.check_enabled()
        definitions = box.definitions()
        for queue in queues:
            definitions.queue(queue).check_received_here(by_regions=regional is not None)
        limits = limits or Limits()
        faults = faults or FaultKinds()
        if limits.pace.rate is not None and not is_reader:
            limits = replace(limits, pace=replace(limits.pace, rate=limits.pace.rate / processes))
        self._box = box
        #: The limits of each process; the rate is shared by all.
        self._limits = limits
        self._orders = Orders(
            box.dsn, box.schema, list(queues), dict(handler) if isinstance(handler, Mapping) else handler,
            to_stored(limits), "", list(folders) or [os.getcwd()], run_as=run_as, port=port,  # noqa: PTH109 -- as text
            is_reader=is_reader,
            **to_stored(faults), log_level=log_level, log_format=log_format, until_idle=until_idle,
            regional=None if regional is None else asdict(regional),
        )  # fmt: skip
        self._processes = processes
        #: How many processes there are, including those that were told to end.
        self.alive = 0
        self._has_begun = False
        self._looked = time.monotonic()
        self._stop = Stop()
        self._ended: Queue[_WorkerProcess] = Queue()
        self._noting: list[threading.Thread] = []
        #: The processes without further work, if they are to end at that.
        self._idle: set[int] = set()
        self._workers: dict[int, _WorkerProcess] = {}
        #: The measures of ended processes; with a lock, because other threads read them meanwhile.
        self._ended_measures, self._measuring = Snapshot(), threading.Lock()
        #: How many messages the handlers of processes that have ended got.
        self.counted = 0

    def run(self) -> None:
        """Work until `stop` is called, or SIGTERM or SIGINT comes: then turns are finished; a second signal ends it at once. With
        `until_idle` it also ends when all processes have.
        """
        workers = self._workers = {}
        with self._stop.listening():
            try:
                while not self._stop.requested:
                    self._fit(workers)
                    self._look(workers)
            finally:
                self._end(workers)
                self.alive = 0

    def stop(self) -> None:
        """End `run` after the turns under way. Thread-safe."""
        if not self._stop.requested:
            self._stop.request()

    def insist(self) -> None:
        """End `run` at once, whatever messages are in hand. Thread-safe."""
        self.stop()
        self._stop.request()

    def measures(self) -> Snapshot:
        """Return the measures of its processes, including ended ones. Thread-safe."""
        found = Snapshot()
        with self._measuring:
            found.add(self._ended_measures)
            for one in list(self._workers.values()):
                if not one.is_measured:
                    found.add(one.page.read())
        return found

    @property
    def works(self) -> list[Work]:
        """Return the messages that its processes are working on. Thread-safe."""
        return [work for one in list(self._workers.values()) if one.process.poll() is None for work in _works(one)]

    def resize(self, processes: int) -> None:
        """Change the number of processes, which may be 0: processes start, or end after their turns. Thread-safe."""
        self._processes = processes

    def _fit(self, workers: dict[int, _WorkerProcess]) -> None:
        """Start missing processes, and ask surplus processes to end."""
        wanted = self._processes
        for number in range(1, wanted + 1):
            if number not in workers:
                workers[number] = self._start(number, 0, is_first=not self._has_begun)
        self._has_begun = True
        for worker in workers.values():
            if worker.number > wanted and not worker.is_leaving:
                worker.is_leaving = True
                worker.process.send_signal(signal.SIGTERM)
        self.alive = len(workers)

    def _start(self, number: int, failures: int, *, is_first: bool = False) -> _WorkerProcess:
        scoreboard, page = Scoreboard.make(self._orders.slots), MeasuresPage.make()
        name = f"{socket.gethostname()}:{os.getpid()}.{number}"
        process_id = uuid4()
        orders = replace(
            self._orders, name=name, scoreboard=scoreboard.file, measures=page.file, process_id=str(process_id)
        )
        # The terminal's signals go to all processes; the supervisor decides when to end. A new process can't ignore them yet, so it
        # begins with the signal blocked, as in this thread.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "seriatim.runtime.processes.worker_process"],
                stdin=subprocess.PIPE,
                pass_fds=[scoreboard.file, page.file],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            scoreboard.close()  # it stays readable
        worker = _WorkerProcess(number, process, scoreboard, page, time.monotonic(), failures, is_first, process_id)
        try:
            assert process.stdin is not None  # noqa: S101 -- it was asked for
            process.stdin.write(orders.as_json().encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:  # it has ended already, which is seen below
            pass
        threading.Thread(target=self._await, args=[worker], daemon=True).start()
        return worker

    def _await(self, worker: _WorkerProcess) -> None:
        worker.process.wait()
        self._ended.put(worker)

    def _look(self, workers: dict[int, _WorkerProcess]) -> None:
        """Wait a moment for a process to end, and handle its end; end frozen processes."""
        try:
            worker = self._ended.get(timeout=_LOOK_S)
        except Empty:
            FAILURES.look()
            for one in workers.values():
                if (why := self._frozen(one)) is not None:
                    LOG.error("process_frozen", pid=one.process.pid, error=why)
                    one.process.kill()
            self._looked = time.monotonic()
            return
        _close(worker)
        self._keep_measures(worker)
        code = worker.process.returncode
        at_work = self._note(worker)
        if self._stop.requested:
            return
        if self._leaves(worker, code, workers):
            return
        has_worked = any(slot.has_begun for slot in worker.scoreboard.slots)
        for kind, refused in REFUSED.items():
            # A server that is away while a process is replaced comes back; at the beginning it may be the wrong one.
            ends = kind is UsageError or (worker.is_first and not has_worked)
            if code == refused and (kind is BoxMigrated or (ends and not at_work)):
                what = f"a worker process couldn't {'go on' if has_worked else 'begin'}: see above"
                raise (kind if kind in (UsageError, BoxMigrated) else EnvironmentProblem)(what)
        MEASURES.count(Measure.REPLACED, "")
        LOG.error("process_replaced", pid=worker.process.pid, code=code, _ended=_ending(code))
        lived = time.monotonic() - worker.began
        failures = 0 if lived > _SETTLED_S else worker.failures + 1
        if failures > 1:
            self._stop.wait(min(_SHORT_NAP_S * 2 ** (failures - 2), _LONG_NAP_S))
        if not self._stop.requested:
            self.counted += _counted(worker)
            workers[worker.number] = self._start(worker.number, failures)

    def _frozen(self, worker: _WorkerProcess) -> str | None:
        """Why a process has to be killed; None: it hasn't."""
        if worker.process.poll() is not None:
            return None  # an ended process stands still, even if it stays in the list, since no work is left
        limits, works, now = self._limits, _works(worker), time.monotonic()
        for work in works:
            if work.since > limits.turn_limit_s + _FROZEN_S:
                return f"its turn of queue {work.queue!r}, group {work.group!r} has gone on for {work.since:.0f} s"
        pulse = worker.scoreboard.pulse
        if not pulse or pulse != worker.pulse or now - self._looked > _AWAY_S:
            worker.pulse, worker.still_since = pulse, now
            return None
        still_s = now - worker.still_since
        if not works and still_s > _STILL_S:
            return f"it has nothing in hand, and has stood still for {still_s:.0f} s"
        if limits.is_leased and still_s > limits.lease.time + _FROZEN_S:
            return f"it has stood still for {still_s:.0f} s, so its leases have run out"
        return None

    def _leaves(self, worker: _WorkerProcess, code: int, workers: dict[int, _WorkerProcess]) -> bool:
        """Return whether a process has ended because it was told to, so that it isn't replaced."""
        if self._orders.until_idle and code == 0:
            self._idle.add(worker.number)
            if self._idle >= set(range(1, self._processes + 1)):
                self.stop()
            return True
        if worker.is_leaving:
            self.counted += _counted(worker)
            del workers[worker.number]
        return worker.is_leaving

    # ---- the cause of a process's death

    def _note(self, worker: _WorkerProcess) -> bool:
        """Record the attempts that a process didn't survive; each may have to wait for its group."""
        error = f"process {worker.process.pid} {_ending(worker.process.returncode)} while the handler was at work"
        what = Fault(FaultKind.POISON, "WorkerDied", error, f"{socket.gethostname()}:{os.getpid()}.{worker.number}")
        works = [work for work in _works(worker) if work.entry_id is not None]
        self._noting = [one for one in self._noting if one.is_alive()]
        if worker.process.returncode != 0:  # otherwise it has reported its end itself
            self._meanwhile(self._forget, worker.process_id)
        for work in works:
            frozen = work.since > self._limits.turn_limit_s
            said = replace(what, kind=FaultKind.TIMEOUT, error_class="TurnLimit") if frozen else what
            self._meanwhile(self._note_one, work, said)
        return bool(works)

    def _keep_measures(self, worker: _WorkerProcess) -> None:
        with self._measuring:
            if not worker.is_measured:
                self._ended_measures.add(worker.page.read())
                worker.page.close()
                worker.is_measured = True

    def _meanwhile(self, does: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=does, args=arguments, daemon=True)
        thread.start()
        self._noting.append(thread)

    def _forget(self, process_id: UUID) -> None:
        """Remove a dead process from the box's processes."""
        self._patiently(lambda transaction: forget(transaction, process_id), "a dead process couldn't be taken out")

    def _note_one(self, work: Work, what: Fault) -> None:
        lost = LostTurn(work.queue, work.group, work.entry_id or 0, work.token)
        result = self._patiently(
            lambda transaction: note_lost(transaction, lost, what, _PATIENCE_S), "an attempt couldn't be counted"
        )
        if result is not None:
            FAILURES.tell(lost.queue, lost.group, what, result)

    def _patiently(self, does: Callable[[Transaction], _Result], failed: str) -> _Result | None:
        """Do work in a transaction, and retry it while the server is unreachable; or log that it failed."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self._box.access.transaction() as transaction:
                    done = does(transaction)
            except Unavailable as error:
                if time.monotonic() > until:
                    LOG.error("end_not_recorded", error=error, _failed=failed)
                    return None
                self._stop.wait(_LOOK_S)
            except SeriatimError as error:
                LOG.error("end_not_recorded", error=error, _failed=failed)
                return None
            else:
                return done

    # ---- the end

    def _end(self, workers: Mapping[int, _WorkerProcess]) -> None:
        """Ask all processes to end, wait as long as a turn may take, and then kill them."""
        for worker in workers.values():
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGTERM)
        until = time.monotonic() + self._limits.turn_limit_s + 2 * _FROZEN_S
        _until(
            lambda: all(worker.process.poll() is not None for worker in workers.values()) or self._stop.insisted, until
        )
        killed = [worker for worker in workers.values() if worker.process.poll() is None]
        for worker in killed:
            worker.process.kill()
        for worker in killed:
            worker.process.wait()
            self._give_back(worker)
            self._meanwhile(self._forget, worker.process_id)
        for worker in workers.values():
            _close(worker)
            self._keep_measures(worker)
            self.counted += _counted(worker)
        for thread in self._noting:
            thread.join(_FROZEN_S)
        FAILURES.look(ends=True)

    def _give_back(self, worker: _WorkerProcess) -> None:
        """Free the messages of a process that was killed to end it, without counting an attempt: no handler has failed. Without a lease
        they are free anyway, when the connection ends.
        """
        for work in _works(worker):
            if work.token is not None:
                self._meanwhile(self._give_back_one, work, work.token)

    def _give_back_one(self, work: Work, token: int) -> None:
        self._patiently(
            lambda transaction: give_back(transaction, work.queue, token),
            f"the lease {token} couldn't be given back, and runs out",
        )


def _close(worker: _WorkerProcess) -> None:
    if worker.process.stdin is not None:
        with suppress(BrokenPipeError):
            worker.process.stdin.close()


def _counted(worker: _WorkerProcess) -> int:
    return sum(slot.counted for slot in worker.scoreboard.slots)


def _works(worker: _WorkerProcess) -> list[Work]:
    return [work for slot in worker.scoreboard.slots if (work := slot.read()) is not None]


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"


def _until(condition: Callable[[], bool], moment: float) -> None:
    while not condition() and time.monotonic() < moment:
        time.sleep(_LOOK_S / 2)
