"""The readers in one serving process, started and ended to reach the wanted number."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.box.definitions.activations import Activated
from seriatim.box.measures import Snapshot
from seriatim.box.workers.reader_slots import Slots
from seriatim.errors import BoxMigrated, SeriatimError
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Limits, Mode
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.processes.reader_count import Readers, after_look
from seriatim.runtime.processes.supervisor import Supervisor
from seriatim.runtime.workers.scoreboard import Work

#: The pause after readers that couldn't begin: at first, and at most; it doubles from time to time.
_SHORT_REST_S, _LONG_REST_S = 1.0, 60.0
#: Readers that were at work for this long had begun, seconds.
_SETTLED_S = 10.0


class ReaderPool:
    def __init__(self, box: MessageBox, queue: str, *, limits: Limits, faults: FaultKinds, **supervised: Any) -> None:
        self._queue = queue
        self._supervisor = partial(Supervisor, box, [queue], is_reader=True, **supervised)
        self._limits = replace(limits, workers=1)
        #: Classes of errors, besides those of the activation.
        self._faults = faults
        #: The measures of readers that have ended.
        self._measured = Snapshot()
        self._measuring = threading.Lock()
        self._readers = Readers()
        #: The activation, without its numbers of readers, with which the present readers were started.
        self._orders: Activation | None = None
        self._work: _Work | None = None
        #: How often in a row readers have failed at their beginning, and until when none is started because of that.
        self._failures = 0
        self._rest_until = 0.0
        #: The number of readers that was logged last.
        self._told = -1

    def look(self, seen: Activated, slots: Slots) -> None:
        """Start or end readers to reach the wanted number, unless other machines run them."""
        now, seen_at = time.monotonic(), seen.activation
        self._collect(now)
        orders = replace(seen_at, minimum=0, maximum=1, enabled=True)
        if orders != self._orders:
            self._orders, self._failures, self._rest_until = orders, 0, 0.0
            self._dismiss()
        if seen.is_on:
            self._readers = after_look(self._readers, seen.ready, seen.minimum, seen.maximum, now)
        else:
            self._readers = Readers()
        may = now >= self._rest_until and (self._work is None or not self._work.is_dismissed)
        here = slots.fill(seen.queue_id, self._readers.wanted if may else 0)
        if here and self._work is None:
            self._work = self._hired(orders, here, now)
        alive = 0
        if self._work is not None:
            self._work.supervisor.resize(here)
            alive = self._work.supervisor.alive
            if here == alive == 0:
                self._dismiss()
        slots.leave(seen.queue_id, max(here, alive))
        if here != self._told and (here or self._told > 0):
            LOG.info("readers", queue=self._queue, readers=here, _counted=counted(here, "reader"))
        self._told = here

    @property
    def queue(self) -> str:
        return self._queue

    def measures(self) -> Snapshot:
        """Return the measures of its readers, including ended ones. Thread-safe."""
        snapshot = Snapshot()
        with self._measuring:
            snapshot.add(self._measured)
            if self._work is not None:
                snapshot.add(self._work.supervisor.measures())
        return snapshot

    @property
    def works(self) -> list[Work]:
        """Return the messages that its readers are working on. Thread-safe."""
        work = self._work
        return [] if work is None else work.supervisor.works

    def end(self) -> None:
        self._dismiss()

    def wait(self, seconds: float, *, at_once: bool) -> bool:
        if self._work is None:
            return True
        if at_once:
            self._work.supervisor.insist()
        self._work.thread.join(seconds)
        return not self._work.thread.is_alive()

    def _hired(self, orders: Activation, here: int, now: float) -> _Work | None:
        own = self._limits
        try:
            limits = replace(
                own, batch=orders.batch, mode=orders.mode, lease=orders.lease,
                pace=replace(
                    orders.pace,
                    run_length=own.run_length if orders.pace.run_length is None else orders.pace.run_length,
                    turn_limit=own.pace.turn_limit if orders.pace.turn_limit is None and orders.mode != Mode.LEASED else
                    orders.pace.turn_limit,
                ),
            )  # fmt: skip
            supervisor = self._supervisor(
                handler=orders.handler, processes=here, run_as=orders.run_as, limits=limits, port=orders.port,
                faults=FaultKinds(
                    (*orders.faults.transient, *self._faults.transient), (*orders.faults.business, *self._faults.business)
                ),
            )  # fmt: skip
        except SeriatimError as error:
            self._rest(error, now)
            return None
        return _Work(supervisor, now)

    def _dismiss(self) -> None:
        if self._work is not None and not self._work.is_dismissed:
            self._work.is_dismissed = True
            self._work.supervisor.stop()

    def _collect(self, now: float) -> None:
        """Check whether the supervisor has ended, and why."""
        work = self._work
        if work is None or work.thread.is_alive():
            return
        with self._measuring:
            self._measured.add(work.supervisor.measures())
            self._work = None
        if now - work.began > _SETTLED_S:
            self._failures = 0
        if work.error is not None:
            self._rest(work.error, now)

    def _rest(self, error: BaseException, now: float) -> None:
        if isinstance(error, BoxMigrated):  # all readers that begin here would meet it
            raise error
        self._failures += 1
        rest_s = min(_SHORT_REST_S * 2 ** (self._failures - 1), _LONG_REST_S)
        self._rest_until = now + rest_s
        LOG.error("readers_fail", queue=self._queue, error=error, seconds=rest_s)


class _Work:
    def __init__(self, supervisor: Supervisor, began: float) -> None:
        self.supervisor = supervisor
        self.began = began
        self.is_dismissed = False
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.supervisor.run()
        except Exception as error:  # noqa: BLE001 -- it is told, and others begin
            self.error = error
