"""Serving: readers for all queues with an activation, as the load and the definitions require."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import Protocol
from uuid import uuid4

from seriatim.box.box import MessageBox
from seriatim.box.measures import Snapshot
from seriatim.box.publishing.schedules import publish_due
from seriatim.box.workers.heartbeat import Process
from seriatim.box.workers.judge import judging
from seriatim.box.workers.reader_slots import Slots
from seriatim.errors import EnvironmentProblem, SeriatimError, Unavailable, UsageError
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Limits
from seriatim.pipeline.text.told_once import ToldOnce
from seriatim.regions.regions import Regions
from seriatim.runtime.ports.receive_port import ReceivePort
from seriatim.runtime.processes.reader_pool import ReaderPool
from seriatim.runtime.processes.receiving import Receiving
from seriatim.runtime.processes.transmitter import TransmitterThread
from seriatim.runtime.regional.tending import TendingThread
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.chores import Chores
from seriatim.runtime.workers.scoreboard import Work

_LOOK_S = 0.5
_WAIT_S = 0.1
#: While it ends; see `Slots`.
_KEEP_S = 1.0

#: The longest time until a defined, resumed or hastened schedule is seen, seconds.
_LONGEST_S = 5.0
_SHORTEST_S = 0.2
#: The pause of a role that isn't the owner: it may become the owner, seconds.
_REFUSED_S = 60.0
_END_S = 5.0


class ScheduleClock:
    """The schedules of a box as one process serves them; other processes may do so, too."""

    def __init__(self, box: MessageBox) -> None:
        self._access = box.access
        self._due = time.monotonic()
        self._thread: threading.Thread | None = None
        self._told = ToldOnce("schedules_not_published")

    def look(self) -> None:
        """Publish what is due, in a thread, if it is time and no thread does so."""
        at_work = self._thread is not None and self._thread.is_alive()
        if time.monotonic() >= self._due and not at_work:
            self._due = time.monotonic() + _LONGEST_S
            self._thread = threading.Thread(target=self._step, name="seriatim-schedules", daemon=True)
            self._thread.start()

    def end(self) -> None:
        if self._thread is not None:
            self._thread.join(_END_S)

    def _step(self) -> None:
        try:
            done = publish_due(self._access)
        except EnvironmentProblem as error:
            self._told.tell(f"no schedules: {error}", logging.INFO)
            self._due = time.monotonic() + _REFUSED_S
        except SeriatimError as error:
            self._told.tell(f"schedules publish nothing: {error}")
        else:
            self._told.forget()
            rest_s = _LONGEST_S if done.next_s is None else min(max(done.next_s, _SHORTEST_S), _LONGEST_S)
            self._due = time.monotonic() + rest_s


class Door(Protocol):
    """A part that listens for others: boxes, or callers over HTTP."""

    def start(self) -> None:
        """Begin to listen, in a thread."""

    def close(self) -> None:
        """Stop."""


class _Part(Protocol):
    """Work beside the readers, in a thread of its own."""

    def look(self) -> None:
        """Begin it, or begin it again."""

    def end(self) -> None:
        """End it."""


class Serve:
    """Starts and stops readers, publishes the messages of schedules, transmits over links, tends regions and receives through ports."""

    def __init__(
        self,
        box: MessageBox,
        queues: Sequence[str] = (),
        *,
        limits: Limits | None = None,
        folders: Sequence[str] = (),
        faults: FaultKinds | None = None,
        log_level: str = "INFO",
        log_format: str = "text",
        doors: Sequence[Door] = (),
        regions: Regions | None = None,
        ports: Sequence[ReceivePort] = (),
        reads: bool = True,
    ) -> None:
        definitions = box.definitions()
        for queue in queues:
            if definitions.queue(queue).declared.activation is None:
                raise UsageError(
                    "the queue has no activation",
                    where=f"queue {queue!r}",
                    remedy="define one: activation=Activation(…)",
                )
        self._box = box
        #: The only queues; empty: all that have an activation, including later ones.
        self._queues = frozenset(queues)
        #: The limits are those of each reader; its activation overrides `workers` and `batch`.
        self._pool_of = partial(
            ReaderPool, box, limits=limits or Limits(), faults=faults or FaultKinds(), folders=folders, log_level=log_level,
            log_format=log_format,
        )  # fmt: skip
        #: They are started and closed here.
        self._doors = doors
        #: Whether there are readers, schedules and links; False: only doors, and a judge.
        self._reads = reads
        self._tending = None if regions is None else TendingThread(regions)
        #: The ports through which messages come in beside the work of readers.
        self.ports = tuple(ports)
        self._receiving = Receiving(self.ports) if self.ports else None
        self._measured = Snapshot()
        #: The time of the last look at the queues to serve, on the monotonic clock.
        self.looked = 0.0
        self._pools: dict[int, ReaderPool] = {}
        self._stop = Stop()
        self._told = ToldOnce("serving_interrupted")

    def run(self) -> None:
        """Serve until `stop` is called, or SIGTERM or SIGINT comes: then turns are finished; a second signal ends it at once."""
        self._box.access.check_enabled()
        process = Process(uuid4(), f"{socket.gethostname()}:{os.getpid()}", socket.gethostname(), os.getpid())
        parts: list[_Part] = [] if self._tending is None else [self._tending]
        if self._reads:
            parts += [Chores(self._box), ScheduleClock(self._box), TransmitterThread(self._box)]
        with (
            self._stop.listening(),
            judging(self._box, process),
            Slots(self._box) if self._reads else nullcontext() as slots,
        ):
            try:
                for door in self._doors:
                    door.start()
                if self._receiving is not None:
                    self._receiving.begin()
                while not self._stop.requested:
                    self._look(slots)
                    for part in parts:
                        part.look()
                    self._stop.wait(_LOOK_S)
            finally:
                if self._receiving is not None:
                    self._receiving.end()
                self._end(slots)
                for part in parts:
                    part.end()
                for door in self._doors:
                    door.close()

    def stop(self) -> None:
        """End `run` after the turns under way. Thread-safe."""
        if not self._stop.requested:
            self._stop.request()

    def measures(self) -> Snapshot:
        """Return the measures of its readers, including ended ones. Thread-safe."""
        snapshot = Snapshot()
        snapshot.add(self._measured)
        for pool in list(self._pools.values()):
            snapshot.add(pool.measures())
        return snapshot

    @property
    def works(self) -> list[Work]:
        """Return the messages that its readers are working on. Thread-safe."""
        return [work for pool in list(self._pools.values()) for work in pool.works]

    def late(self) -> list[str]:
        """Return the parts beside its readers that stand still, in words. Thread-safe."""
        return [text for one in (self._tending, self._receiving) if one is not None for text in one.late()]

    def _look(self, slots: Slots | None) -> None:
        """Update each queue's pool of readers; without slots there are none."""
        if slots is None:
            self.looked = time.monotonic()
            return
        try:
            numbered = {slot.queue_id: slot for slot in slots.look() if not self._queues or slot.queue in self._queues}
            for queue_id, slot in numbered.items():
                if queue_id not in self._pools:
                    self._pools[queue_id] = self._pool_of(slot.queue)
                self._pools[queue_id].look(slot, slots)
            for queue_id in self._pools.keys() - numbered.keys():
                self._let_go(queue_id, slots)
        except (Unavailable, EnvironmentProblem) as error:  # readers go on, or wait for better times like this
            self._told.tell(error)
        else:
            self._told.forget()
            self.looked = time.monotonic()

    def _let_go(self, queue_id: int, slots: Slots) -> None:
        """End the readers of a queue that was dropped, or has no activation any more."""
        self._pools[queue_id].end()
        if self._pools[queue_id].wait(0, at_once=False):
            self._measured.add(self._pools[queue_id].measures())
            del self._pools[queue_id]
            slots.leave(queue_id, 0)

    def _end(self, slots: Slots | None) -> None:
        """Ask all readers to end, and wait, keeping their slots; a supervisor ends readers that don't."""
        for pool in self._pools.values():
            pool.end()
        left = list(self._pools.values())
        due = time.monotonic()
        while left:
            if slots is not None and time.monotonic() >= due:
                due = time.monotonic() + _KEEP_S
                with suppress(SeriatimError):
                    slots.look()  # without a look the slots would be lost
            left = [pool for pool in left if not pool.wait(_WAIT_S / len(left), at_once=self._stop.insisted)]
