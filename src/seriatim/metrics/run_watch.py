"""The reports of a pipeline's run: its batches, the dispositions of messages, and waiting destinations."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from seriatim.box.measures import Measure, Measures, Snapshot
from seriatim.metrics.watched import LOOKED_WITHIN_S

if TYPE_CHECKING:  # it imports Spark
    from seriatim.runtime.pipelines.progress import Progress
    from seriatim.spark.control.lease_state import LeaseState
    from seriatim.spark.deliver.outgoing import Waiting

_DISPOSITIONS = ("arrived", "released", "late", "duplicate", "invalid", "rejected", "dead", "void", "copy")


class RunWatch:
    """Takes in the reports of a run; a scrape reads it."""

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._measures = Measures()
        self._lock = threading.Lock()
        self._values: dict[str, list[tuple[Sequence[str], float]]] = {}
        self._looked = 0.0

    def looked(self) -> None:
        self._looked = time.monotonic()

    def report(self, progress: Progress) -> None:
        self._measures.observe(Measure.BATCH, self._pipeline, [progress.seconds])
        for account in progress.accounts:
            for disposition in _DISPOSITIONS:
                self._measures.count(Measure.ROWS, account.destination, disposition, getattr(account, disposition))
        with self._lock:
            self._values["held"] = [([account.destination], account.held) for account in progress.accounts]
            self._values["holes"] = [((), progress.holes)]
            self._values["behind"] = [] if progress.behind is None else [((), progress.behind)]
            self._values["last_batch"] = [((), time.time())]
        names = [account.destination for account in progress.accounts]
        self.ports(progress.waiting, names)

    def ports(self, waiting: Sequence[Waiting], names: Sequence[str] = ()) -> None:
        rows = dict.fromkeys(names, 0) | {port.destination: port.rows for port in waiting}
        failing = {port.destination for port in waiting if port.reason and not port.stands_by}
        with self._lock:
            known = {name for (name,), _ in self._values.get("waiting", [])} | set(rows)
            self._values["waiting"] = [([name], rows.get(name, 0)) for name in sorted(known)]
            self._values["failing"] = [([name], float(name in failing)) for name in sorted(known)]

    def lease(self, state: LeaseState) -> None:
        with self._lock:
            self._values["delivers"] = [([self._pipeline, state.region], float(state.state == "active"))]

    def values(self) -> Mapping[str, Sequence[tuple[Sequence[str], float]]]:
        with self._lock:
            return dict(self._values)

    def snapshot(self) -> Snapshot:
        return self._measures.snapshot()

    def late(self) -> list[str]:
        """Return why the run isn't ready, in words; empty if it is."""
        if not self._looked:
            return ["the query hasn't begun yet"]
        since_s = time.monotonic() - self._looked
        return [f"the query hasn't run for {since_s:.0f} s"] if since_s > LOOKED_WITHIN_S else []
