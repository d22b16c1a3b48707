"""The judge of a process: a thread that does for receivers in SQL what they can't do, and tells the box that it is there."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from uuid import uuid4

import psycopg

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Access, Transaction
from seriatim.box.connection.chore import ChoreTaken, alone
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.postgres.translate import is_forbidden, translated
from seriatim.box.tick import judge
from seriatim.box.workers.heartbeat import Process, forget
from seriatim.errors import SeriatimError, Unavailable
from seriatim.pipeline.text.event_log import LOG

#: How often it tells that it is there, and looks again at queues that were asked for lately; how long these are, seconds.
_BEAT_S, _LATELY_S = 5.0, 600.0
#: How often it does so behind a pooler, where it hears nobody; and its pause after a failure, seconds.
_PAUSE_S = 1.0
#: The judges of this process, by the box and the role; a forked process has none of its parent.
_SHARED: dict[tuple[int, str, str, str | None], _Thread] = {}
_LOCK = threading.Lock()


@contextmanager
def judging(box: MessageBox, process: Process) -> Iterator[None]:
    """Judge while the block runs, on a connection of its own; not by a role that may not route. The blocks of one process share a judge."""
    place = (os.getpid(), box.dsn, box.schema, box.access.role)
    with _LOCK:
        shared = _SHARED.get(place)
        if shared is None or not shared.is_alive():  # a role may get its right later
            shared = _SHARED[place] = _Thread(box.more(0), process)
        shared.blocks += 1
    try:
        yield
    finally:
        with _LOCK:
            shared.blocks -= 1
            is_over = shared.blocks == 0
            if is_over and _SHARED.get(place) is shared:
                del _SHARED[place]
        if is_over:
            shared.end()


class _Thread(threading.Thread):
    def __init__(self, box: MessageBox, process: Process) -> None:
        super().__init__(name="seriatim-judge", daemon=True)
        #: How many blocks of this process share it.
        self.blocks = 0
        self._box = box
        #: It may outlive the worker that began it.
        self._process = replace(process, process_id=uuid4())
        self._ends = threading.Event()
        self._heard, self._told = os.pipe()  # closing the one makes the other readable
        self.start()

    def end(self) -> None:
        self._ends.set()
        os.close(self._told)
        self.join(2 * _BEAT_S)

    def run(self) -> None:
        try:
            self._judge()
        finally:
            os.close(self._heard)
            self._box.close()

    def _judge(self) -> None:
        told, ends = "", self._ends
        while not ends.is_set():
            try:
                with self._box.more(1) as own, own.access.connect() as connection:
                    judging_here = _Judge(own.access, connection, self._process, ends, self._heard)
                    if leaves_one := judging_here.leaves_one():
                        judging_here.run()
                if not leaves_one:
                    ends.wait(_BEAT_S)
            except Unavailable:  # the threads that need the database report it
                ends.wait(_PAUSE_S)
            except SeriatimError as error:
                if is_forbidden(error):
                    LOG.info("judging_not_allowed", _error=error)
                    return
                if str(error) != told and not ends.is_set():
                    LOG.warning("judging_interrupted", error=error)
                told = str(error)
                ends.wait(_PAUSE_S)
            except Exception as error:  # noqa: BLE001 -- whatever it is, the next look may do
                LOG.exception("judging_interrupted", error=error)
                ends.wait(_PAUSE_S)


class _Judge:
    def __init__(
        self, access: Access, connection: psycopg.Connection, process: Process, ends: threading.Event, heard: int
    ) -> None:
        self._connection = connection
        self._process = process
        self._ends = ends
        #: A file that becomes readable when the process ends.
        self._heard = heard
        self._is_deaf = isinstance(connection, OwnConnection) and connection.is_pooled
        #: When each queue was asked for last; on the monotonic clock.
        self._asked: dict[int, float] = {}

        @contextmanager
        def connect() -> Iterator[psycopg.Connection]:
            try:
                yield connection
                connection.commit()
            except BaseException:
                if not connection.closed:
                    connection.rollback()
                raise

        self._access = replace(access, connect=connect)

    def leaves_one(self) -> bool:
        """Whether others of this process have a connection while this one is held: a role may have fewer than the process would use."""
        if self._is_deaf:
            return True
        with self._access.spare() as another:
            return another is not None

    def run(self) -> None:
        """Judge the queues that receivers ask for, until the process ends."""
        channel, due = f"seriatim_judges_{self._access.schema}", 0.0
        with translated(self._access.place):
            if not self._is_deaf:
                self._connection.execute(f'LISTEN "{channel}"'.encode())
                self._connection.commit()
            try:
                while not self._ends.is_set():
                    called = self._called(due - time.monotonic())
                    if (now := time.monotonic()) >= due:
                        self._asked = {queue: at for queue, at in self._asked.items() if now - at < _LATELY_S}
                        called.update(self._beat(), self._asked)
                        due = now + (_PAUSE_S if self._is_deaf else _BEAT_S)
                    self._asked |= dict.fromkeys(called - self._asked.keys(), now)
                    for queue_id in sorted(called):
                        with suppress(ChoreTaken):
                            judge(alone(self._access, f"judge {queue_id}"), queue_id)
            finally:
                with suppress(psycopg.Error, SeriatimError):
                    self._leave(channel)

    def _called(self, rest_s: float) -> set[int]:
        """The queues that receivers ask for, after a number of seconds at most."""
        if self._is_deaf:
            self._wait(rest_s)
            return set()
        if not (calls := list(self._connection.notifies(timeout=0))):
            self._wait(rest_s, self._connection.fileno())
            calls = list(self._connection.notifies(timeout=0))
        now, called = time.monotonic(), {int(call.payload) for call in calls}
        self._asked |= dict.fromkeys(called, now)
        return called

    def _wait(self, seconds: float, *files: int) -> None:
        polling = select.poll()
        for file in (self._heard, *files):
            polling.register(file, select.POLLIN | select.POLLHUP)
        polling.poll(max(seconds, 0.0) * 1000)

    def _beat(self) -> list[int]:
        """Tell the box that this process judges; return the queues that were asked for while nobody listened."""
        process = self._process
        with self._access.transaction() as transaction:
            return list(
                transaction.value(
                    "judge", of_process=process.process_id, its_name=process.name, its_host=process.host, its_pid=process.pid,
                    its_backend=None if self._is_deaf else self._connection.info.backend_pid,
                )
            )  # fmt: skip

    def _leave(self, channel: str) -> None:
        self._connection.rollback()
        if self._ends.is_set():
            forget(Transaction(self._access, self._connection), self._process.process_id)
        if not self._is_deaf:
            self._connection.execute(f'UNLISTEN "{channel}"'.encode())
        self._connection.commit()
