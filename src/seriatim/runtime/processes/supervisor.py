"""The supervisor: starts worker processes, replaces those that die, and records the message at which they died.

The messages in hand of a process are on its scoreboard, which outlives it. An attempt that killed the process is
counted under the lock of its group, if possible before another worker gets the message: the first to wait for a lock
gets it first.
"""

from __future__ import annotations

import logging
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

from seriatim.box.box import MessageBox
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.box.faults.lease import give_back
from seriatim.box.session import Session
from seriatim.errors import EnvironmentProblem, SeriatimError, Unavailable, UsageError, shown
from seriatim.kernel.fault import FaultKind
from seriatim.runtime.processes.worker_process import REFUSED, Orders
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.scoreboard import Scoreboard, Work
from seriatim.runtime.workers.worker import Limits

__all__ = ["Supervisor"]

_LOG = logging.getLogger("seriatim.worker")
_MOST_PROCESSES = 256
_LOOK_S = 0.1
#: A process that has lived for so long may be replaced at once; others less and less soon.
_SETTLED_S, _SHORT_NAP_S, _LONG_NAP_S = 10.0, 0.2, 10.0
#: A turn that is past its limit by so much is one of a process that is frozen: its own watch would have ended it.
_FROZEN_S = 5.0
_PATIENCE_S = 30.0


@dataclass(slots=True)
class _WorkerProcess:
    """A process, and its state."""

    number: int
    process: subprocess.Popen[bytes]
    scoreboard: Scoreboard
    began: float
    failures: int
    #: Whether no other was started before those that were started with it.
    is_first: bool
    #: Whether it was told to end, because fewer are wanted.
    is_leaving: bool = False


class Supervisor:
    """Works on queues with several processes.

    Args:
        box: the message box.
        queues: their names.
        handler: the name of a function, ``module:function``; names by message types; None: the handlers that starting
            subscriptions name.
        processes: the number of processes.
        limits: the limits of each process; the rate applies to all of them together.
        folders: the folders in which modules are looked for, besides Python's own path; default: the current directory.
        run_as: the role of the database that the handler has; None: the processes' role.
        port: the port that is called instead of a handler, as text (see `port_of`).

    Raises:
        UsageError: a queue doesn't exist, or a number is out of range.
    """

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
    ) -> None:
        if isinstance(processes, bool) or not isinstance(processes, int) or not 1 <= processes <= _MOST_PROCESSES:
            raise UsageError(
                f"processes can't be {shown(processes)}", remedy=f"a whole number from 1 to {_MOST_PROCESSES}"
            )
        if not queues or len(set(queues)) != len(queues):
            raise UsageError("a queue is missing, or named twice")
        definitions = box.definitions()
        for queue in queues:
            definitions.queue(queue)
        limits = limits or Limits()
        if limits.rate is not None:
            limits = replace(limits, rate=limits.rate / processes)
        self._box = box
        self._limits = limits
        self._orders = Orders(
            box.dsn, box.schema, list(queues), dict(handler) if isinstance(handler, Mapping) else handler,
            asdict(limits), "", list(folders) or [os.getcwd()], run_as=run_as, port=port,  # noqa: PTH109 -- as text
        )  # fmt: skip
        self._processes = processes
        #: How many there are, those included that have been told to end.
        self.alive = 0
        self._has_begun = False
        self._stop = Stop()
        self._ended: Queue[_WorkerProcess] = Queue()
        self._noting: list[threading.Thread] = []

    def run(self) -> None:
        """Work until `stop` is called, or SIGTERM or SIGINT comes: then turns are finished; a second signal ends it at once.

        Raises:
            UsageError, DeploymentError: no process could start; or a queue was dropped.
        """
        workers: dict[int, _WorkerProcess] = {}
        with self._stop.listening():
            try:
                while not self._stop.requested:
                    self._fit(workers)
                    self._look(workers)
            finally:
                self._end(workers)
                self.alive = 0

    def stop(self) -> None:
        """End `run` when the turns in hand are done; from any thread."""
        if not self._stop.requested:
            self._stop.request()

    def insist(self) -> None:
        """End `run` at once, whatever messages are in hand; from any thread."""
        self.stop()
        self._stop.request()

    def resize(self, processes: int) -> None:
        """Change the number of processes, which may be 0: processes start, or end after their turns; from any thread."""
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
        scoreboard = Scoreboard.make(self._orders.slots)
        name = f"{socket.gethostname()}:{os.getpid()}.{number}"
        orders = replace(self._orders, name=name, scoreboard=scoreboard.file)
        # What is typed at the terminal goes to all; the supervisor says when to end. A process that has just begun
        # can't ignore it yet, so it begins with the signal blocked, as this thread has it here.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "seriatim.runtime.processes.worker_process"],
                stdin=subprocess.PIPE,
                pass_fds=[scoreboard.file],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        worker = _WorkerProcess(number, process, scoreboard, time.monotonic(), failures, is_first)
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
            for one in workers.values():
                if any(self._is_frozen(work) for work in _works(one)):
                    _LOG.error("process %d is frozen, and is killed", one.process.pid)
                    one.process.kill()
            return
        _close(worker)
        code = worker.process.returncode
        at_work = self._note(worker)
        if self._stop.requested:
            return
        if worker.is_leaving:
            del workers[worker.number]
            return
        has_worked = any(slot.has_begun for slot in worker.scoreboard.slots)
        for kind, refused in REFUSED.items():
            # A server that is away while a process is replaced comes back; at the beginning it may be the wrong one.
            if code == refused and not at_work and (kind is UsageError or (worker.is_first and not has_worked)):
                what = f"a worker process couldn't {'go on' if has_worked else 'begin'}: see above"
                raise (UsageError if kind is UsageError else EnvironmentProblem)(what)
        _LOG.error("process %d %s, and is replaced", worker.process.pid, _ending(code))
        lived = time.monotonic() - worker.began
        failures = 0 if lived > _SETTLED_S else worker.failures + 1
        if failures > 1:
            self._stop.wait(min(_SHORT_NAP_S * 2 ** (failures - 2), _LONG_NAP_S))
        if not self._stop.requested:
            workers[worker.number] = self._start(worker.number, failures)

    def _is_frozen(self, work: Work) -> bool:
        return work.since > self._limits.turn_limit_s + _FROZEN_S

    # ---- what a process died of

    def _note(self, worker: _WorkerProcess) -> bool:
        """Record the attempts that a process didn't survive; each may have to wait for its group.

        Returns:
            whether there were any.
        """
        error = f"process {worker.process.pid} {_ending(worker.process.returncode)} while the handler was at work"
        what = Fault(FaultKind.POISON, "WorkerDied", error, f"{socket.gethostname()}:{os.getpid()}.{worker.number}")
        works = [work for work in _works(worker) if work.entry_id is not None]
        worker.scoreboard.close()
        self._noting = [one for one in self._noting if one.is_alive()]
        for work in works:
            frozen = work.since > self._limits.turn_limit_s
            said = replace(what, kind=FaultKind.TIMEOUT, error_class="TurnLimit") if frozen else what
            thread = threading.Thread(target=self._note_one, args=[work, said], daemon=True)
            thread.start()
            self._noting.append(thread)
        return bool(works)

    def _note_one(self, work: Work, what: Fault) -> None:
        lost = LostTurn(work.queue, work.group, work.entry_id or 0, work.token)
        self._patiently(
            lambda session: note_lost(session.transaction, lost, what, _PATIENCE_S), "an attempt couldn't be counted"
        )

    def _patiently(self, does: Callable[[Session], object], failed: str) -> None:
        """Do work in a session, and retry it while the server is unreachable; or log that it failed."""
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self._box.session() as session:
                    does(session)
            except Unavailable as error:
                if time.monotonic() > until:
                    _LOG.error("%s: %s", failed, error)
                    return
                self._stop.wait(_LOOK_S)
            except SeriatimError as error:
                _LOG.error("%s: %s", failed, error)
                return
            else:
                return

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
        for worker in workers.values():
            _close(worker)
        for thread in self._noting:
            thread.join(_FROZEN_S)

    def _give_back(self, worker: _WorkerProcess) -> None:
        """Free the messages in hand of a process that was killed to end it, without counting an attempt: no handler is to blame.

        Without a lease they are free anyway, when the connection ends.
        """
        for work in _works(worker):
            if work.token is not None:
                thread = threading.Thread(target=self._give_back_one, args=[work, work.token], daemon=True)
                thread.start()
                self._noting.append(thread)

    def _give_back_one(self, work: Work, token: int) -> None:
        self._patiently(
            lambda session: give_back(session.transaction, work.queue, token),
            f"the lease {token} couldn't be given back, and runs out",
        )


def _close(worker: _WorkerProcess) -> None:
    if worker.process.stdin is not None:
        with suppress(BrokenPipeError):
            worker.process.stdin.close()


def _works(worker: _WorkerProcess) -> list[Work]:
    return [work for slot in worker.scoreboard.slots if (work := slot.read()) is not None]


def _ending(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"


def _until(condition: Callable[[], bool], moment: float) -> None:
    while not condition() and time.monotonic() < moment:
        time.sleep(_LOOK_S / 2)
