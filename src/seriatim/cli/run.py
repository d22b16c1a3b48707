"""``seriatim run``: run a pipeline until it is stopped."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seriatim.cli.show import Display, accounts_table, routing_line, waiting_line
from seriatim.errors import UsageError

if TYPE_CHECKING:
    from seriatim.runtime.pipelines.progress import News, Progress, RunSummary

__all__ = ["run"]

# Seconds between two reports of a long batch in JSON.
_RUNNING_S = 10.0
# The exit code of a DeploymentError: a port is not as it has to be.
_UNDELIVERED = 3


@click.command()
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Process the input that is there now, then exit.")
@click.option("--finish", is_flag=True, help="As --once; then let time run out for all messages that still wait.")
@click.option("--strict", is_flag=True, help="Exit with 1 if any message was invalid.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Set a property of Spark; may be repeated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per batch, and one at the end.")
@click.option("--quiet", is_flag=True, help="Print only the summary at the end.")
@click.option("--verbose", is_flag=True, help="Print Spark's own messages, and errors in full.")
@click.pass_context
def run(
    context: click.Context,
    file_: Path,
    *,
    once: bool,
    finish: bool,
    strict: bool,
    conf: tuple[str, ...],
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run the pipeline in FILE until it is stopped; go on where the last run ended.

    Ctrl-C (or SIGTERM) stops it after the current batch; a second one stops it at once. Nothing is lost either way.

    If a port fails, only the messages for its destination wait. With --once or --finish, exits with 3 if messages
    still wait for a port at the end; the next run delivers them.
    """
    from seriatim.pipeline.files import pipeline_file  # noqa: PLC0415 -- what reads YAML and filters, when it is needed

    pipeline = pipeline_file.load(file_)
    settings = dict(_setting(one) for one in conf)
    from seriatim.runtime.pipelines.run import run as run_pipeline  # noqa: PLC0415 - Spark is slow to import

    display = Display(pipeline.name, quiet=quiet) if not as_json else None
    showing: AbstractContextManager[object] = display if display is not None else nullcontext()
    report = _print_progress if as_json and not quiet else display.show if display is not None else None
    tell = _PrintNews() if as_json and not quiet else display.tell if display is not None else None
    try:
        with showing:
            summary = run_pipeline(
                pipeline, once=once, finish=finish, progress=report, tell=tell, conf=settings, verbose=verbose
            )
    except Exception as error:
        if verbose and error.__cause__ is not None:
            click.echo(str(error.__cause__), err=True)
        raise
    if as_json:
        click.echo(json.dumps({"event": "end", **asdict(summary)}))
    else:
        _tell(summary, pipeline.set_aside or pipeline.checkpoint / "set-aside", file_)
    if summary.undelivered and summary.ending != "stopped":
        context.exit(_UNDELIVERED)
    if strict and summary.invalid:
        context.exit(1)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise UsageError(f"{text!r} is not a Spark setting", where="--conf", remedy="such as spark.driver.memory=4g")
    return key, value


def _print_progress(progress: Progress) -> None:
    click.echo(json.dumps({"event": "batch", **asdict(progress)}))
    sys.stdout.flush()


class _PrintNews:
    """Prints events between batches; of a long batch not every second."""

    def __init__(self) -> None:
        self._told: tuple[int, float] = (-1, 0.0)

    def __call__(self, news: News) -> None:
        from seriatim.runtime.pipelines.progress import Again, Running  # noqa: PLC0415 - imports Spark, which is slow

        if not isinstance(news, Running):
            event = "again" if isinstance(news, Again) else "ports"
            click.echo(json.dumps({"event": event, **asdict(news)}))
        else:
            batch, seconds = self._told
            if news.seconds < (seconds if news.batch == batch else 0.0) + _RUNNING_S:
                return
            self._told = news.batch, news.seconds
            click.echo(json.dumps({"event": "running", **asdict(news)}))
        sys.stdout.flush()


def _tell(summary: RunSummary, set_aside: Path, file_: Path) -> None:
    endings: dict[str, str] = {
        "stopped": "stopped; the next start goes on here",
        "once": "took in all that was there",
        "finished": "took in all that was there, and time ran out",
    }
    click.echo(f"{summary.pipeline}: {endings[summary.ending]}, {summary.batches} batches in {summary.seconds:.1f} s")
    accounts_table(summary.accounts)
    routing = routing_line(summary.routing)
    if routing:
        click.echo(routing)
    if summary.routing.invalid or any(account.set_aside for account in summary.accounts):
        click.echo(f"Messages that were not released are in {set_aside}: seriatim set-aside {file_}")
    if summary.routing.unrouted:
        click.echo(f"Messages that matched no destination are kept: seriatim unrouted {file_}")
    for one in summary.waiting:
        click.echo(waiting_line(one), err=True)
    if summary.holes:
        click.echo(f"{summary.holes:,} holes are open: messages wait behind numbers that are missing")
