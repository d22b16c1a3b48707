"""Metrics and health for commands: a worker's supervisor, `seriatim serve`, and a pipeline's run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from seriatim.box.box import MessageBox
from seriatim.metrics.box_reading import BoxReading
from seriatim.metrics.collector import Collector
from seriatim.metrics.health import readiness
from seriatim.metrics.run_watch import RunWatch
from seriatim.metrics.server import MetricsServer, serving_metrics
from seriatim.metrics.watched import Watched
from seriatim.operations.looking import open_to_look


@contextmanager
def of_work(address: str | None, box: MessageBox, watched: Watched) -> Iterator[MetricsServer | None]:
    """Serve the metrics of a box, and of the process that works on it, at an address while the block runs; None: at none."""
    # A connection of its own, which only reads: workers never wait for a scrape.
    reading = BoxReading(partial(open_to_look, box.dsn, schema=box.schema, reads_only=True))
    try:
        with serving_metrics(
            address, lambda: Collector(box=reading, watched=watched), lambda: readiness(box=reading, watched=watched)
        ) as server:
            yield server
    finally:
        reading.close()


@contextmanager
def of_run(address: str | None, pipeline: str) -> Iterator[tuple[MetricsServer, RunWatch] | None]:
    """Serve the metrics of a run at an address while the block runs; the block's run reports to the watch. None: at none."""
    watch = RunWatch(pipeline)
    with serving_metrics(address, lambda: Collector(run=watch), lambda: readiness(run=watch)) as server:
        yield None if server is None else (server, watch)
