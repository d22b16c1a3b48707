"""Telling metrics and health beside what a command does, if `--metrics` asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from seriatim.box.box import MessageBox
from seriatim.runtime.processes.receiving import Receiving
from seriatim.runtime.processes.serve import Serve
from seriatim.runtime.processes.supervisor import Supervisor

if TYPE_CHECKING:
    from seriatim.runtime.pipelines.progress import News, Progress, Report, Tell


@contextmanager
def telling_work(
    address: str | None, box: MessageBox, queues: Sequence[str] | None, works: Supervisor | Serve | Receiving
) -> Iterator[None]:
    """Within the block metrics and health of workers are told at an address; None: nothing is told."""
    if address is None:
        yield
        return
    from seriatim.metrics.processes import of_work  # noqa: PLC0415 -- of the extra
    from seriatim.metrics.watched import Watched  # noqa: PLC0415

    looked = None if queues is not None else lambda: getattr(works, "looked", 0.0)
    beside = getattr(works, "late", tuple)
    with of_work(address, box, Watched(queues, works.measures, lambda: works.works, looked, beside)) as server:
        if server is not None:
            click.echo(f"metrics are at {server.address}/metrics", err=True)
        yield


@contextmanager
def telling_run(
    address: str | None, pipeline: str, report: Report | None, tell: Tell | None
) -> Iterator[tuple[Report | None, Tell | None, Callable[[], None] | None]]:
    """Within the block metrics and health of a run are told at an address; None: nothing is told. The block gets what the run has to report
    to: besides the metrics, `report` and `tell`.
    """
    if address is None:
        yield report, tell, None
        return
    from seriatim.metrics.processes import of_run  # noqa: PLC0415 -- of the extra
    from seriatim.runtime.pipelines.progress import LeaseState, Ports  # noqa: PLC0415 -- imports Spark, which is slow

    with of_run(address, pipeline) as told:
        if told is None:
            yield report, tell, None
            return
        server, watch = told
        click.echo(f"metrics are at {server.address}/metrics", err=True)

        def reported(progress: Progress) -> None:
            watch.report(progress)
            if report is not None:
                report(progress)

        def heard(news: News) -> None:
            match news:
                case Ports():
                    watch.ports(news.waiting)
                case LeaseState():
                    watch.lease(news)
            if tell is not None:
                tell(news)

        yield reported, heard, watch.looked
