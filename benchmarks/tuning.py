"""Start values for workers: what processes, threads and the length of runs give for handlers of three kinds."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Claim
from benchmarks.race import Race, Seat, handled
from benchmarks.seriatim_box import SeriatimBox
from seriatim import MessageBox, Pace, Session, Worker
from seriatim.box.server.embedded import EmbeddedServer

__all__ = ["tuning"]

_PAUSE_S = 0.005
_COMPUTED = 120_000
_GROUPS, _SECONDS = 200, 3.0
#: Generous: more than any of the kinds handles in a second, so that groups don't run out.
_MOST_A_SECOND = {"writes": 8_000, "waits": 4_000, "computes": 1_000}


@dataclass(frozen=True, slots=True)
class _Handler(SeriatimBox):
    """A worker of so many threads a process, with a handler that writes a row, waits, or computes."""

    name: str = "seriatim worker"
    kind: str = "writes"
    threads: int = 1

    def prepare(self, dsn: str) -> None:
        """A box, and the table that handlers write to."""
        SeriatimBox.prepare(self, dsn)
        with psycopg.connect(dsn) as connection:
            connection.execute("CREATE TABLE handled (customer text, size integer)")

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """One worker; its threads count together."""
        counting = threading.Lock()

        def handle(message: Any, tx: Session) -> None:
            match self.kind:
                case "writes":
                    row = [message.context["customer"], len(message.body)]
                    tx.connection.execute("INSERT INTO public.handled VALUES (%s, %s)", row)
                case "waits":
                    time.sleep(_PAUSE_S)
                case _:
                    sum(range(_COMPUTED))
                    math.factorial(600)
            with counting:
                seat.done(1)

        with MessageBox.open(dsn, connections=self.threads + 2) as box:
            worker = Worker(box, "orders", handle, workers=self.threads, pace=Pace(run_length=limit))
            seat.begin()
            thread = threading.Thread(target=worker.run)
            thread.start()
            seat.wait()
            worker.stop()
            thread.join()


def tuning(root: Path, peers: bool) -> Iterator[Claim]:
    """All of it, about three minutes."""
    with closing(EmbeddedServer(root / "postgres")) as server:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        yield from _compared(server.dsn, "writes", [(2, 2, run) for run in (1, 5, 10, 50, 200)])
        yield from _compared(server.dsn, "waits", [(1, 10, run) for run in (1, 10, 50)])
        yield from _compared(
            server.dsn, "writes", [(1, 1, 10), (1, 2, 10), (1, 4, 10), (2, 1, 10), (2, 2, 10), (2, 4, 10), (2, 8, 10)]
        )
        yield from _compared(server.dsn, "waits", [(1, 1, 10), (1, 10, 10), (1, 20, 10), (1, 40, 10), (2, 20, 10)])
        yield from _compared(server.dsn, "computes", [(1, 1, 10), (1, 2, 10), (1, 4, 10), (2, 1, 10), (2, 2, 10)])


def _compared(server: str, kind: str, ways: Sequence[tuple[int, int, int]]) -> Iterator[Claim]:
    """Messages a second for each way, by those of the first one."""
    table = Table("processes", "threads", "run length", "messages/s", "÷ first", title=f"a handler that {kind}")
    first = 0.0
    for processes, threads, run in ways:
        waiting = math.ceil(_MOST_A_SECOND[kind] * _SECONDS / _GROUPS)
        race = Race(_GROUPS, waiting, limit=run, workers=processes, seconds=_SECONDS)
        rate = handled(_Handler(kind=kind, threads=threads), server, race)
        first = first or rate
        table.add_row(f"{processes}", f"{threads}", f"{run}", f"{rate:,.0f}", f"{rate / first:.2f}")
        yield Claim(f"{kind}: {processes} processes of {threads}, runs of {run} ÷ the first", rate / first)
    Console().print(table)
