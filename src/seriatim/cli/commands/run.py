"""``seriatim run``: run a pipeline until it is stopped."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.options.option import flag, repeated
from seriatim.cli.options.own_name import own_name
from seriatim.cli.options.worker_options import log_format as log_format_option
from seriatim.cli.options.worker_options import metrics as metrics_option
from seriatim.cli.shown import show
from seriatim.cli.shown.table import Column, Table, as_json_line, json_only, json_option, lines_of, print_object
from seriatim.cli.shown.telling import telling_run
from seriatim.errors import UsageError
from seriatim.operations.tables import pipelines as declared
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.text.counted import counted
from seriatim.runtime.pipelines.supervise import follow_supervisor, supervise
from seriatim.runtime.processes.log import log_to_stderr

if TYPE_CHECKING:
    from seriatim.runtime.pipelines import progress as reports
    from seriatim.runtime.pipelines.unread_files import UnreadFiles
    from seriatim.spark.calls.register import Call
    from seriatim.spark.front.chosen import Way

_SPREAD: Table[reports.Spread] = Table(
    "How a batch was spread",
    *json_only(
        tasks="how many tasks had messages of it",
        least="the least messages of a task",
        most="the most messages of a task",
    ),
    row="seriatim.runtime.pipelines.progress:Spread",
)
_CALL: Table[Call] = Table("A call of the user's code", row="seriatim.spark.calls.register:Call")


def _event(word: str) -> Column[Any]:
    return Column("event", None, kind="str", value=lambda _: word, meaning=f"`{word}`")


_BATCH: Table[reports.Progress] = Table(
    "A batch",
    _event("batch"),
    Column("accounts", None, rows=show.ACCOUNTS),
    Column("routing", None, rows=show.ROUTING),
    Column("waiting", None, rows=show.WAITING),
    Column("spread", None, rows=_SPREAD),
    row="seriatim.runtime.pipelines.progress:Progress",
)
_RUNNING: Table[reports.Running] = Table(
    "A batch that takes long",
    _event("running"),
    Column("call", None, rows=_CALL),
    row="seriatim.runtime.pipelines.progress:Running",
)
_PORTS: Table[reports.Ports] = Table(
    "Ports that fail or work again",
    _event("ports"),
    Column("waiting", None, rows=show.WAITING, meaning="the destinations whose ports fail"),
    row="seriatim.runtime.pipelines.progress:Ports",
)
_LEASE: Table[reports.LeaseState] = declared.LEASE.extended("A lease that is taken or lost", first=[_event("lease")])
_AGAIN: Table[reports.Again] = Table(
    "A query that is begun again", _event("again"), row="seriatim.runtime.pipelines.progress:Again"
)
SUMMARY: Table[reports.RunSummary] = Table(
    "A run that has ended",
    *json_only(ending="why it ended: `stopped`, `once`, `finished` or `drained`"),
    Column("accounts", None, rows=show.ACCOUNTS),
    Column("routing", None, rows=show.ROUTING),
    Column("waiting", None, rows=show.WAITING),
    Column("longest", None, rows=show.HELD_GROUPS),
    Column("reasons", None, rows=show.REASONS),
    Column("skipped", None, rows=show.SKIPPED),
    Column("suspected", None, rows=show.SUSPECTED),
    Column("unread", None, rows=show.UNREAD),
    row="seriatim.runtime.pipelines.progress:RunSummary",
)
_END = SUMMARY.extended(
    "The end of a run",
    Column("exit_code", None, kind="int", meaning="the code with which the command exits"),
    first=[_event("end")],
)

_WAY: Table[Way] = Table(
    "The way of messages",
    *json_only(reason="why they don't in one stage, or null"),
    row="seriatim.spark.front.chosen:Way",
)

# Seconds between two reports of a long batch in JSON.
_RUNNING_S = 10.0
# How many reasons to set aside people see.
_MOST_REASONS = 10
# With --strict: the run did its work, and the answer is no.
_NOT_WHOLE = 1
# The exit code of a DeploymentError: a port is not as it has to be.
_UNDELIVERED = 3


@click.command()
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@flag("--once", "Process the input that is there now, then exit.")
@flag("--finish", "As --once; then let time run out for all messages that still wait.")
@flag(
    "--strict",
    "Exit with 1 if a message was set aside or unrouted, or waits, a hole was skipped, or an input file isn't read.",
)
@repeated(
    "--abandon",
    "Set aside as dead what is held, or waits for a port, of a destination that isn't in FILE any more.",
    metavar="DESTINATION",
)
@repeated("--conf", "Set a property of Spark.", metavar="KEY=VALUE")
@flag(
    "--explain",
    "Run nothing; say whether messages are read, stamped and routed in one stage, which is faster, or why not.",
)
@json_option(
    "Print one JSON object per batch, and one at the end.", _BATCH, _RUNNING, _PORTS, _AGAIN, _LEASE, _END, _WAY
)
@flag("--quiet", "Print only the summary at the end.")
@log_format_option
@metrics_option
@flag("--verbose", "Print Spark's own messages, and errors in full.")
@flag(
    "--supervise",
    "supervised",
    "Run in a process of its own, and start it again when it dies or fails. Not with --once or --finish.",
)
@click.pass_context
def run(
    context: click.Context,
    file_: Path,
    *,
    once: bool,
    finish: bool,
    strict: bool,
    abandon: tuple[str, ...],
    conf: tuple[str, ...],
    explain: bool,
    json_: bool,
    quiet: bool,
    log_format: str,
    metrics: str | None,
    verbose: bool,
    supervised: bool,
) -> None:
    """Run the pipeline in FILE until it is stopped; go on where the last run ended.

    Ctrl-C (or SIGTERM) stops it after the current batch; a second one stops it at once. Nothing is lost either way.

    If a port fails, only the messages for its destination wait. With --once or --finish, exits with 3 if messages
    still wait for a port at the end; the next run delivers them.

    \b
    Exit codes:
      0  done; or stopped by a signal
      1  with --strict: a message was set aside or unrouted, or waits, a hole was skipped, or an input file isn't read
      2  the pipeline file or an option is wrong
      3  messages wait for a port; or the query, the machine or the checkpoint failed
      4  a bug in seriatim
      5  PostgreSQL was away; try again
    """  # noqa: D301 -- click's mark of lines that stay as they are
    pipeline = pipeline_file.load(file_)
    settings = dict(_setting(one) for one in conf)
    if explain:
        _explain(pipeline, json_=json_)
        return
    if supervised:
        if once or finish:
            raise UsageError(
                "--supervise goes on until it is stopped", remedy="leave out --once and --finish, or --supervise"
            )
        context.exit(_supervised(context, pipeline, file_, log_format))
    from seriatim.runtime.pipelines.run import run as run_pipeline  # noqa: PLC0415 - Spark is slow to import

    # What a run does is told by its output; Spark's libraries tell much below that.
    log_to_stderr("WARNING", log_format)
    follow_supervisor()

    display = show.Display(pipeline.name, quiet=quiet) if not json_ else None
    showing: AbstractContextManager[object] = display if display is not None else nullcontext()
    report: reports.Report | None = (
        _print_progress if json_ and not quiet else display.show if display is not None else None
    )
    tell: reports.Tell | None = _PrintNews() if json_ and not quiet else display.tell if display is not None else None
    try:
        with showing, telling_run(metrics, pipeline.name, report, tell) as (report, tell, looked):
            summary = run_pipeline(
                pipeline, once=once, finish=finish, abandon=abandon, progress=report, tell=tell, looked=looked, conf=settings,
                verbose=verbose,
            )  # fmt: skip
    except Exception as error:
        if verbose and error.__cause__ is not None:
            click.echo(str(error.__cause__), err=True)
        raise
    code = _exit_code(summary, strict=strict)
    if json_:
        click.echo(as_json_line(_END.object_of(summary, exit_code=code)))
    else:
        _tell(summary, pipeline.set_aside or pipeline.checkpoint / "set-aside", file_)
    context.exit(code)


def _explain(pipeline: Pipeline, *, json_: bool) -> None:
    from seriatim.spark.front.chosen import way_of  # noqa: PLC0415 - Spark is slow to import

    way = way_of(pipeline)
    if json_:
        print_object(_WAY, way)
        return
    click.echo(
        f"{way.pipeline}: messages are read, stamped and routed in {'one stage' if way.one_stage else 'stages of their own'}"
    )
    if way.reason is not None:
        click.echo(f"  because {way.reason}")


def _supervised(context: click.Context, pipeline: Pipeline, file_: Path, log_format: str) -> int:
    """Run the driver in a process of its own, with the same options."""
    from seriatim.runtime.pipelines.checkpoint import Checkpoint  # noqa: PLC0415 -- what reads Spark's files, when it is needed

    log_to_stderr("INFO", log_format)
    options: list[str] = []
    for one in context.command.params:
        given = context.params[str(one.name)]
        if isinstance(one, click.Option) and given and one.name != "supervised":
            values = given if one.multiple else [given]
            options += [one.opts[0]] if one.is_flag else [word for value in values for word in (one.opts[0], value)]
    command = [sys.executable, "-m", "seriatim", "run", *options, "--", str(file_)]
    return supervise(pipeline.name, Checkpoint(pipeline.checkpoint.absolute()), command, os.environ)


def _exit_code(summary: reports.RunSummary, *, strict: bool) -> int:
    if summary.undelivered and summary.ending != "stopped":
        return _UNDELIVERED
    return _NOT_WHOLE if strict and not summary.is_whole else 0


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.startswith("spark."):
        raise UsageError(f"{text!r} is not a Spark setting", where="--conf", remedy="such as spark.driver.memory=4g")
    return key, value


def _print_progress(progress: reports.Progress) -> None:
    click.echo(json.dumps(_BATCH.object_of(progress)))
    sys.stdout.flush()


class _PrintNews:
    """Prints events between batches; for a long batch not every second."""

    def __init__(self) -> None:
        self._told: tuple[int, float] = (-1, 0.0)

    def __call__(self, news: reports.News) -> None:
        from seriatim.runtime.pipelines import progress as reports  # noqa: PLC0415 - imports Spark, which is slow

        if not isinstance(news, reports.Running):
            match news:
                case reports.Again():
                    told = _AGAIN.object_of(news)
                case reports.LeaseState():
                    told = _LEASE.object_of(news)
                case _:
                    told = _PORTS.object_of(news)
            click.echo(json.dumps(told))
        else:
            batch, seconds = self._told
            if news.seconds < (seconds if news.batch == batch else 0.0) + _RUNNING_S:
                return
            self._told = news.batch, news.seconds
            click.echo(json.dumps(_RUNNING.object_of(news)))
        sys.stdout.flush()


def _tell(summary: reports.RunSummary, set_aside: Path, file_: Path) -> None:
    endings: dict[str, str] = {
        "stopped": "stopped; the next start goes on here",
        "once": "took in all that was there",
        "finished": "took in all that was there, and time ran out",
        "drained": "took in all that was there when it began, and ended",
    }
    click.echo(
        f"{summary.pipeline}: {endings[summary.ending]}, {counted(summary.batches, 'batch')} in {summary.seconds:.1f} s"
    )
    show.accounts_table(summary.accounts)
    routing = show.routing_line(summary.routing)
    if routing:
        click.echo(routing)
    if summary.set_aside:
        click.echo(f"\nSet aside, in {set_aside} (all of them: {own_name()} set-aside {_word(file_)}):")
        _indented(show.REASONS, summary.reasons[:_MOST_REASONS])
        _more(len(summary.reasons), _MOST_REASONS, "reason")
    if summary.routing.unrouted:
        click.echo(f"\nMessages that matched no destination are kept: {own_name()} unrouted {_word(file_)}")
    for one in summary.waiting:
        click.echo(show.waiting_line(one), err=True)
    skipped = summary.skipped
    if skipped.holes:
        holes = counted(skipped.holes, "hole was", "holes were")
        click.echo(f"\n{holes} skipped, of {counted(skipped.numbers, 'missing number')}:")
        _indented(show.SKIPPED_HOLES, skipped.first)
        _more(skipped.holes, len(skipped.first), "hole")
    _tell_unread(summary.unread)
    suspected = summary.suspected
    if suspected.groups:
        producers = counted(suspected.groups, "producer seems", "producers seem")
        click.echo(f"\n{producers} to have begun anew; the last number that tells so:")
        _indented(show.SUSPECTED_RESTARTS, suspected.first)
        _more(suspected.groups, len(suspected.first), "group")
    if summary.held_groups:
        many = counted(summary.held_groups, "group holds", "groups hold")
        click.echo(f"\n{many} {counted(summary.held, 'message')}, the longest waiting first:")
        _indented(show.HELD_GROUPS, summary.longest)
        _more(summary.held_groups, len(summary.longest), "group")
        click.echo(f"  all of them: {own_name()} groups --pipeline {_word(file_)}")


def _tell_unread(unread: UnreadFiles) -> None:
    if unread:
        files = counted(unread.changed + unread.hidden, "input file isn't read", "input files aren't read")
        click.echo(f"\n{files}, or not as {'it is' if unread.changed + unread.hidden == 1 else 'they are'} now:")
        for one in unread.first:
            click.echo(f"  {one}")
        _more(unread.changed + unread.hidden, len(unread.first), "file")


def _indented(table: Table[Any], rows: Sequence[Any]) -> None:
    for line in lines_of(table, rows) if rows else ():
        click.echo(f"  {line}")


def _more(number: int, shown: int, noun: str) -> None:
    if number > shown:
        click.echo(f"  and {counted(number - shown, f'more {noun}')}")


def _word(path: Path) -> str:
    return shlex.quote(str(path))
