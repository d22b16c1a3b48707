"""The events in which a query of Spark reports its batches: each is read once, in order.

Spark keeps the last few, and an idle query makes some every second. So a thread reads them: the run itself may be held up where it
reports, by a terminal that is stopped or a slow reader. New events follow the last event that was read; the clock by which Spark
names events may be put back.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seriatim.spark.deliver.stage import StreamingQuery

Event = Mapping[str, Any]

_LOOK_S = 0.1


def has_run(event: Event) -> bool:
    """Return whether an event reports a batch; otherwise it reports a look for new messages, with the number of the next batch."""
    return "addBatch" in event["durationMs"]


class ProgressEvents:
    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._lock = threading.Lock()
        self._last: object = None
        self._new: list[Event] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="progress events", daemon=True)

    def start(self) -> None:
        """Read them in a thread, until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self) -> list[Event]:
        """Return the events since the last call. Of several looks for new messages in a row only the last one is kept."""
        self.look()
        with self._lock:
            new, self._new = self._new, []
        return new

    def look(self) -> None:
        with self._lock:
            last = self._query.lastProgress
            if last is None or _key(last) == self._last:
                return
            recent = self._query.recentProgress
            known = max((place for place, event in enumerate(recent) if _key(event) == self._last), default=-1)
            for event in recent[known + 1 :]:
                # They may be many, if the run is held up for long.
                if self._new and not has_run(event) and not has_run(self._new[-1]):
                    self._new.pop()
                self._new.append(event)
            self._last = _key(recent[-1])

    def _read(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                self.look()
            except Exception:  # noqa: BLE001 -- py4j raises whatever the JVM did; the run sees it, too
                return


def _key(event: Event) -> object:
    return event["runId"], event["batchId"], event["timestamp"], has_run(event)
