"""A worker process of a supervisor: reads its task from standard input, and works until it is stopped.

Standard input stays open as long as the supervisor lives: when it is closed, this process ends at once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any
from uuid import UUID

from seriatim.box.measures import MEASURES
from seriatim.errors import BoxMigrated, DeploymentError, SeriatimError, UsageError
from seriatim.extras import is_chosen
from seriatim.kernel.fields import from_stored, rows
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import MOST_WORKERS, Limits
from seriatim.regions.regions import Regions
from seriatim.runtime.processes.log import log_to_stderr
from seriatim.runtime.processes.patient_opening import open_patiently
from seriatim.runtime.regional.place import RegionalPlace, box_patiently, workers_patiently
from seriatim.runtime.stop_signal import Stop
from seriatim.runtime.workers.heartbeat import Heartbeat, Reporting
from seriatim.runtime.workers.idleness import Idleness
from seriatim.runtime.workers.measures_page import MeasuresPage
from seriatim.runtime.workers.port_text import port_of
from seriatim.runtime.workers.scoreboard import Scoreboard
from seriatim.runtime.workers.worker import SPARE_THREADS, Worker

#: The exit codes of errors that another process would repeat: a handler, a queue or the box isn't right.
REFUSED: Mapping[type[SeriatimError], int] = {UsageError: 2, BoxMigrated: 4, DeploymentError: 3}

_BEAT_S = 0.5


@dataclass(frozen=True, slots=True)
class Orders:
    dsn: str
    schema: str
    queues: list[str]
    #: The handler's name; names by message types; None: the handlers that starting subscriptions name.
    handler: str | dict[str, str] | None
    #: `Limits` as they are stored; the rate is this process's share.
    limits: dict[str, Any]
    name: str
    folders: list[str] = field(default_factory=list)
    scoreboard: int = -1
    measures: int = -1
    #: The role of the database that the handler has; None: its own.
    run_as: str | None = None
    #: As text, the port that is called instead of the handler.
    port: str | None = None
    #: Its id among all processes of the box, a UUID.
    process_id: str = ""
    #: Whether it is a reader of an activation: it shares the rate with all of them.
    is_reader: bool = False
    #: Names of classes of exceptions after which a retry may succeed.
    transient: list[str] = field(default_factory=list)
    business: list[str] = field(default_factory=list)
    log_level: str = "INFO"
    log_format: str = "text"
    #: Whether it ends when nothing can be handed out of any of the queues.
    until_idle: bool = False
    #: The fields of `RegionalPlace`, for queues of two regions; None: queues of one box.
    regional: dict[str, Any] | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def slots(self) -> int:
        """The most threads: also as many as an operator may set."""
        return len(self.queues) * (MOST_WORKERS + SPARE_THREADS)


def work(orders: Orders) -> None:
    scoreboard, page = Scoreboard.of(orders.scoreboard), MeasuresPage.of(orders.measures)
    threading.Thread(target=_beat, args=[scoreboard, page], name="seriatim-pulse", daemon=True).start()
    failed: list[BaseException] = []
    handler = orders.handler if orders.port is None else port_of(orders.port)
    early = Stop()
    with ExitStack() as around:
        with early.listening():
            workers, reporting = _workers(orders, handler, scoreboard, early, around)
        if not workers or early.requested:  # while something was opened
            return
        idleness = Idleness(len(workers)) if orders.until_idle else None

        def stop() -> None:
            for worker in workers:
                worker.stop()

        def run(worker: Worker) -> None:
            try:
                worker.run_with(idleness, reporting)
            except BaseException as error:  # noqa: BLE001 -- it is raised below
                failed.append(error)
            stop()

        signal.signal(signal.SIGTERM, lambda *_: stop())
        threads = [threading.Thread(target=run, args=[worker]) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    page.write(MEASURES.snapshot())
    if failed:
        raise failed[0]


def _workers(
    orders: Orders, handler: Any, scoreboard: Scoreboard, stop: Stop, around: ExitStack
) -> tuple[Sequence[Worker], Reporting | None]:
    """Return a worker for each queue; none if it was stopped before all was ready."""
    place = None if orders.regional is None else RegionalPlace(**orders.regional)
    if place is None:
        opened = open_patiently(orders.dsn, orders.schema, stop, connections=2)
        box = None if opened is None else around.enter_context(opened)
    else:
        regions = around.enter_context(Regions.from_file(place.file))
        box = box_patiently(regions, place.region, stop)
    if box is None or stop.requested:
        return [], None
    heartbeat = Heartbeat(box, orders.name, UUID(orders.process_id), is_reader=orders.is_reader)
    reporting = Reporting(scoreboard, heartbeat)
    shared: dict[str, Any] = {
        "name": orders.name, "folders": orders.folders, "faults": FaultKinds(orders.transient, orders.business),
    }  # fmt: skip
    limits = from_stored(Limits, orders.limits)
    if place is not None:
        return workers_patiently(regions, place, orders.queues, handler, stop, limits=limits, **shared), reporting
    own = {one.name: getattr(limits, one.name) for one in rows(Limits)}
    return [Worker(box, queue, handler, run_as=orders.run_as, **own, **shared) for queue in orders.queues], reporting


def main() -> int:
    """Work, and return the reason for the end as exit code."""
    # The terminal's signals arrive here as well; the supervisor decides when to end. A new process has the signal blocked until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    orders = Orders(**json.loads(sys.stdin.readline()))
    log_to_stderr(orders.log_level, orders.log_format)
    threading.Thread(target=_follow, daemon=True).start()
    if is_chosen("otel"):
        import_module("seriatim.tracing").install()
    try:
        work(orders)
    except SeriatimError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return next((code for kind, code in REFUSED.items() if isinstance(error, kind)), 1)
    return 0


def _beat(scoreboard: Scoreboard, page: MeasuresPage) -> None:
    """Report to the supervisor that this process isn't frozen, and its measures."""
    while True:
        scoreboard.beat()
        page.write(MEASURES.snapshot())
        time.sleep(_BEAT_S)


def _follow() -> None:
    """Wait for the end of the supervisor, and then end this process: otherwise an attempt that kills it wouldn't be counted."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    # A thread whose handler never returns mustn't keep the process alive.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
