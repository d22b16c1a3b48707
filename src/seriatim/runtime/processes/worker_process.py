"""A worker process of a supervisor: reads its task from standard input, and works until it is stopped.

Standard input stays open as long as the supervisor lives: when it is closed this process ends, at once.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.errors import DeploymentError, SeriatimError, UsageError
from seriatim.runtime.workers.port_text import port_of
from seriatim.runtime.workers.scoreboard import Scoreboard
from seriatim.runtime.workers.worker import SPARE_THREADS, Limits, Worker

__all__ = ["REFUSED", "Orders", "main"]

#: How it ends where another one would end in the same way: a handler, a queue or the box isn't as it has to be.
REFUSED: Mapping[type[SeriatimError], int] = {UsageError: 2, DeploymentError: 3}


@dataclass(frozen=True, slots=True)
class Orders:
    """The task of a process.

    Args:
        dsn: the PostgreSQL.
        schema: the schema of the box.
        queues: the names of the queues.
        handler: the handler's name; names by message types; None: the handlers that starting subscriptions name.
        limits: the fields of `Limits`; the rate is this process's share.
        name: the worker's name, for faults.
        folders: the folders in which modules are looked for.
        scoreboard: the file of its scoreboard.
        run_as: the role of the database that the handler has; None: the process's role.
        port: the port that is called instead of the handler, as text.
    """

    dsn: str
    schema: str
    queues: list[str]
    handler: str | dict[str, str] | None
    limits: dict[str, Any]
    name: str
    folders: list[str] = field(default_factory=list)
    scoreboard: int = -1
    run_as: str | None = None
    port: str | None = None

    def as_json(self) -> str:
        """The task as one line of JSON."""
        return json.dumps(asdict(self))

    @property
    def slots(self) -> int:
        """The largest number of threads."""
        return len(self.queues) * (Limits(**self.limits).workers + SPARE_THREADS)


def work(orders: Orders) -> None:
    """Work on all queues, each with its own threads.

    Raises:
        SeriatimError: the errors of `Worker` and its `run`, for any queue.
    """
    slots = Scoreboard.of(orders.scoreboard)
    share = len(slots.slots) // len(orders.queues)
    failed: list[BaseException] = []
    handler = orders.handler if orders.port is None else port_of(orders.port)
    with MessageBox.open(orders.dsn, schema=orders.schema, connections=2) as box:
        workers = [
            Worker(
                box, queue, handler, name=orders.name, folders=orders.folders, run_as=orders.run_as,
                slots=slots.slots[at * share : (at + 1) * share], **orders.limits,
            )
            for at, queue in enumerate(orders.queues)
        ]  # fmt: skip

        def stop() -> None:
            for one in workers:
                one.stop()

        def run(worker: Worker) -> None:
            try:
                worker.run()
            except BaseException as error:  # noqa: BLE001 -- it is raised below
                failed.append(error)
            stop()

        signal.signal(signal.SIGTERM, lambda *_: stop())
        threads = [threading.Thread(target=run, args=[worker]) for worker in workers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def main() -> int:
    """Work, and return the reason for the end as exit code."""
    # What is typed at the supervisor's terminal comes here as well; the supervisor says when to end. It has the signal
    # blocked in a new process, until here.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    orders = Orders(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_follow, daemon=True).start()
    try:
        work(orders)
    except SeriatimError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return next((code for kind, code in REFUSED.items() if isinstance(error, kind)), 1)
    return 0


def _follow() -> None:
    """Wait for the end of the supervisor, and then end this process: nobody would count an attempt that kills it."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    # A thread whose handler never returns shall not keep the process.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
