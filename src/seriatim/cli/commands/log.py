"""``seriatim log``: list the operator logs of a message box and of pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click

from seriatim.cli.commands.pipeline_groups import which_pipeline
from seriatim.cli.options.choose import in_time
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.errors import MissingExtra, UsageError
from seriatim.operations.box_here import is_here
from seriatim.operations.log_entries import entries_of_box
from seriatim.operations.tables import pipelines as declared

if TYPE_CHECKING:
    from seriatim.operations.log_entries import LogEntry
    from seriatim.operations.log_filter import LogChoice

__all__ = ["LOGGED", "log"]

LOGGED = Table.of(declared.LOGGED)


@click.command("log")
@click.option("--queue", default=None, help="Only actions on this queue or destination, or on its groups.")
@click.option("--group", default=None, metavar="KEY", help="Only actions on groups with this key.")
@click.option("--actor", default=None, help="Only what this actor did.")
@click.option("--action", default=None, help="Only this action, such as skip_message.")
@in_time("actions")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="List at most this many."
)
@which_pipeline
@which_box
@json_option("Print a JSON list.", LOGGED)
def log(
    *,
    queue: str | None,
    limit: int,
    pipeline: str | None,
    dsn: str | None,
    schema: str,
    json_: bool,
    **chosen: Unpack[LogChoice],
) -> None:
    """List what operators did, newest first: actor, action, reason and result.

    Lists the message box and all pipelines with a checkpoint in this folder; with --dsn the box alone, with --pipeline that pipeline
    alone. A command that a pipeline has not obeyed yet is queued.
    """
    if pipeline is not None and dsn is not None:
        raise UsageError("--pipeline and --dsn can't be combined", remedy="leave one of them out")
    if pipeline is not None:
        from seriatim.operations.pipelines.log import operator_log  # noqa: PLC0415 -- Spark is slow to import

        found = operator_log(pipeline, queue, limit=limit, **chosen)
    else:
        found = _here(queue, chosen, limit, dsn, schema)
    LOGGED.print(found, json_=json_, limit=limit)


def _here(queue: str | None, chosen: LogChoice, limit: int, dsn: str | None, schema: str) -> list[LogEntry]:

    found: list[LogEntry] = []
    if dsn is None:
        try:
            from seriatim.operations.pipelines.log import operator_logs_here  # noqa: PLC0415 -- Spark is slow to import

            found = operator_logs_here(queue, limit=limit, **chosen)
        except MissingExtra:
            found = []  # then no pipeline runs here
    if found and not is_here(dsn):
        return found

    with opened(dsn, schema) as box:
        found += entries_of_box(box, queue, limit=limit, **chosen)
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]
