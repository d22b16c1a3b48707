"""Serving: readers for all queues with an activation, as the load and the definitions require."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress

from seriatim.box.box import MessageBox
from seriatim.box.workers.reader_places import Slots
from seriatim.errors import EnvironmentProblem, SeriatimError, Unavailable, UsageError
from seriatim.runtime.processes.reader_pool import ReaderPool
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.chores import Chores
from seriatim.runtime.workers.worker import Limits

__all__ = ["Serve"]

_LOG = logging.getLogger("seriatim.serve")
_LOOK_S = 0.5
_WAIT_S = 0.1
#: While it ends; see `Slots`.
_KEEP_S = 1.0


class Serve:
    """Starts and stops readers, until it is stopped itself.

    Args:
        box: the message box.
        queues: only these; empty: all queues that have an activation, also queues that are defined later.
        limits: the limits of each reader; the activation replaces `workers` and `batch`.
        folders: the folders in which modules are looked for, besides Python's own path; default: the current directory.

    Raises:
        UsageError: a queue doesn't exist, or has no activation.
    """

    def __init__(
        self,
        box: MessageBox,
        queues: Sequence[str] = (),
        *,
        limits: Limits | None = None,
        folders: Sequence[str] = (),
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
        self._queues = frozenset(queues)
        self._limits = limits or Limits()
        self._folders = folders
        self._pools: dict[int, ReaderPool] = {}
        self._stop = Stop()
        self._told = ""

    def run(self) -> None:
        """Serve until `stop` is called, or SIGTERM or SIGINT comes: then turns are finished; a second signal ends it at once."""
        chores = Chores(self._box)
        with self._stop.listening(), Slots(self._box) as slots:
            try:
                while not self._stop.requested:
                    self._look(slots)
                    chores.look()
                    self._stop.wait(_LOOK_S)
            finally:
                self._end(slots)
                chores.end()

    def stop(self) -> None:
        """End `run` when the turns in hand are done; from any thread."""
        if not self._stop.requested:
            self._stop.request()

    def _look(self, slots: Slots) -> None:
        """Update each queue's pool of readers."""
        try:
            found = {one.queue_id: one for one in slots.look() if not self._queues or one.queue in self._queues}
            for queue_id, one in found.items():
                if queue_id not in self._pools:
                    self._pools[queue_id] = ReaderPool(self._box, one.queue, self._limits, self._folders)
                self._pools[queue_id].look(one, slots)
            for queue_id in self._pools.keys() - found.keys():
                self._let_go(queue_id, slots)
        except (Unavailable, EnvironmentProblem) as error:  # readers go on, or wait for better times like this
            if str(error) != self._told:
                _LOG.warning("%s", error)
            self._told = str(error)
        else:
            self._told = ""

    def _let_go(self, queue_id: int, slots: Slots) -> None:
        """End the readers of a queue that was dropped, or has no activation any more."""
        self._pools[queue_id].end()
        if self._pools[queue_id].wait(0, at_once=False):
            del self._pools[queue_id]
            slots.leave(queue_id, 0)

    def _end(self, slots: Slots) -> None:
        """Ask all readers to end, and wait, keeping their places; a supervisor ends readers that don't."""
        for pool in self._pools.values():
            pool.end()
        left = list(self._pools.values())
        due = time.monotonic()
        while left:
            if time.monotonic() >= due:
                due = time.monotonic() + _KEEP_S
                with suppress(SeriatimError):
                    slots.look()  # who asks nothing loses them
            left = [pool for pool in left if not pool.wait(_WAIT_S / len(left), at_once=self._stop.insisted)]
