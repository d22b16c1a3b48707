"""The keeper: renews the leases of a worker, all of them together, and finds expired leases of others.

If a lease is lost, the session of its handler is told, and its next use raises. The same happens if a lease could not
be renewed in time: a second thread checks that, because a heartbeat may hang for longer than a lease lasts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from seriatim.box.box import MessageBox
from seriatim.box.faults.lease import HeldLease, renew
from seriatim.box.faults.lost_turns import reap
from seriatim.box.measures import MEASURES, Measure
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.errors import SeriatimError
from seriatim.pipeline.text.event_log import LOG

#: The interval of looks for expired leases; with a shorter heartbeat that, seconds.
_LOOK_S = 1.0


class LeaseKeeper(threading.Thread):
    def __init__(self, box: MessageBox, queue: str, period_us: int, heartbeat_s: float) -> None:
        super().__init__(name="seriatim-keeper", daemon=True)
        #: The time after which a lease ends if it isn't renewed, microseconds.
        self.period_us = period_us
        self._box = box
        self._queue = queue
        self._heartbeat_s = heartbeat_s
        self._lock = threading.Lock()
        self._leases: dict[int, HeldLease] = {}
        #: When the database last confirmed a lease; on this side's monotonic clock.
        self._seen: dict[int, float] = {}
        self._ended = threading.Event()

    @contextmanager
    def keeping(self, lease: HeldLease) -> Iterator[None]:
        with self._lock:
            self._leases[lease.token] = lease
            self._seen[lease.token] = time.monotonic()
        try:
            yield
        finally:
            with self._lock:
                del self._leases[lease.token], self._seen[lease.token]

    def lose(self, token: int) -> None:
        with self._lock:
            lease = self._leases.get(token)
        if lease is not None:
            lease.lost.set()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        threading.Thread(target=self._watch, name=f"{self.name}-watch", daemon=True).start()
        due = time.monotonic() + self._heartbeat_s
        while not self._ended.wait(min(_LOOK_S, self._heartbeat_s, max(due - time.monotonic(), 0.0))):
            try:
                if time.monotonic() >= due:
                    due = time.monotonic() + self._heartbeat_s
                    self._renew()
                with self._box.access.transaction() as transaction:
                    queue = transaction.definitions().queue(self._queue)
                    reap(transaction, queue, SeparateTransaction(transaction, is_free=True))
            except SeriatimError as error:
                if self._ended.is_set():
                    return  # the worker ended meanwhile, and its box may be closed
                LOG.warning("leases_not_renewed", queue=self._queue, error=error)
            except Exception as error:  # noqa: BLE001 -- whatever it is, the next heartbeat may do
                LOG.exception("leases_not_renewed", queue=self._queue, error=error)

    def _watch(self) -> None:
        """Treat leases as lost when their time is over without an answer, whatever the heartbeat does; the database decides in the end."""
        longest_s = self.period_us / 1e6
        while not self._ended.wait(min(_LOOK_S, self._heartbeat_s)):
            now = time.monotonic()
            with self._lock:
                over = [lease for token, lease in self._leases.items() if now - self._seen[token] > longest_s]
            for lease in over:
                if not lease.lost.is_set():
                    self._tell(lease)

    def _renew(self) -> None:
        with self._lock:
            leases = dict(self._leases)
        if not leases:
            return
        asked_at = time.monotonic()
        with self._box.access.transaction() as transaction:
            queue = next(iter(leases.values())).queue
            kept = renew(transaction, queue, leases, self.period_us)
        for token, lease in leases.items():
            with self._lock:
                if token in self._seen and token in kept:
                    self._seen[token] = asked_at
                    continue
                is_lost = token in self._leases and not lease.lost.is_set()
            if is_lost and not lease.is_ending:
                self._tell(lease)

    def _tell(self, lease: HeldLease) -> None:
        lease.lost.set()
        queue = lease.queue.declared.name
        MEASURES.count(Measure.LEASES_LOST, queue)
        LOG.error("lease_lost", queue=queue, group=lease.delivery.group, lease=lease.token, _error=lease.error())
