"""The heartbeat of a process: every few seconds it reports its workers to the box, and they obey the settings of their queues.

It has a thread of its own, because the database may be away, and a connection as long as a statement takes.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID, uuid4

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views.clocks import ahead_s, apart
from seriatim.box.workers.heartbeat import Process, Report, WorkerOrders, beat, forget
from seriatim.box.workers.judge import judging
from seriatim.errors import SeriatimError, Unavailable
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.told_once import ToldOnce
from seriatim.runtime.workers.scoreboard import Scoreboard

_PERIOD_S = 5.0
#: The pause after a change, so that the new values are reported soon, seconds.
_SOON_S = 0.5
#: The pause after a failure, seconds.
_AGAIN_S = 1.0
#: How long a beginning worker waits for the settings of its queue, seconds.
_FIRST_S = 2.0
_PATIENCE_S = 2.0
#: How often this machine's clock is compared with the database's.
_CLOCK_EVERY_S = 600.0


class Member(Protocol):
    @property
    def queue(self) -> str:
        """The name of its queue."""

    def report(self) -> Report:
        """Return its report."""

    def obey(self, answer: WorkerOrders) -> bool:
        """Obey the settings of its queue; return whether that changes anything."""


class Heartbeat:
    def __init__(self, box: MessageBox, name: str, process_id: UUID | None = None, *, is_reader: bool = False) -> None:
        self._box = box
        self.process = Process(process_id or uuid4(), name, socket.gethostname(), os.getpid(), is_reader)
        self._members: dict[Member, threading.Event] = {}
        self._lock = threading.Lock()
        self._wakes = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = ToldOnce("no_heartbeat")
        self._clock_seen = -_CLOCK_EVERY_S

    @contextmanager
    def of(self, member: Member) -> Iterator[None]:
        """Report the worker while the block runs. The first beat is when the worker obeys its settings, or soon after."""
        answered = threading.Event()
        with self._lock:
            self._members[member] = answered
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="seriatim-heartbeat", daemon=True)
                self._thread.start()
        self._wakes.set()
        answered.wait(_FIRST_S)
        try:
            yield
        finally:
            with self._lock:
                del self._members[member]
                ending, self._thread = (None, self._thread) if self._members else (self._thread, None)
            if ending is not None:
                self._wakes.set()
                ending.join(_PATIENCE_S)

    def _run(self) -> None:
        rest_s = 0.0
        with judging(self._box, self.process):
            while True:
                self._wakes.wait(rest_s)
                self._wakes.clear()
                if self._thread is not threading.current_thread():
                    break
                rest_s = self._beat()
        with suppress(Exception):  # another process sees that it is dead, and removes it
            if self._thread is None:
                with self._box.access.transaction() as transaction:
                    forget(transaction, self.process.process_id)

    def _beat(self) -> float:
        with self._lock:
            members = dict(self._members)
        answers: dict[str, WorkerOrders] = {}
        rest_s = _PERIOD_S * random.uniform(0.8, 1.0)  # noqa: S311 -- nobody gains by guessing it
        try:
            with self._box.access.transaction() as transaction:
                answers = beat(transaction, self.process, [member.report() for member in members])
                self._look_at_clock(transaction)
            self._told.forget()
        except Unavailable:  # the threads that need the database report it
            rest_s = min(rest_s, _AGAIN_S)
        except SeriatimError as error:  # the role may not, as a rule
            self._told.tell(str(error))
        except Exception:  # noqa: BLE001 -- whatever it is, the workers go on
            LOG.exception("heartbeat_failed")
        changed = [member.obey(answers[member.queue]) for member in members if member.queue in answers]
        for answered in members.values():
            answered.set()
        return _SOON_S if any(changed) else rest_s

    def _look_at_clock(self, transaction: Transaction) -> None:
        """Log, from time to time, that this machine's clock is apart from the database's."""
        now = time.monotonic()
        if now - self._clock_seen < _CLOCK_EVERY_S:
            return
        self._clock_seen = now
        if (seconds := apart(ahead_s(transaction))) is not None:
            LOG.warning("clocks_apart", _seconds=seconds)


@dataclass(frozen=True, slots=True)
class Reporting:
    """How a process reports its work: to its supervisor by a scoreboard, and to the box by a heartbeat."""

    scoreboard: Scoreboard
    heartbeat: Heartbeat
