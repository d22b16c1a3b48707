"""``seriatim log``: list the operator logs of a message box and of pipelines."""

from __future__ import annotations

from typing import Any

import click

from seriatim.cli.commands.pipeline_groups import not_with_dsn, which_pipeline
from seriatim.cli.options.listing import options_of
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import json_option, print_rows
from seriatim.errors import MissingExtra
from seriatim.operations.box_here import is_here
from seriatim.operations.log_entries import LogEntry, entries_of_box
from seriatim.operations.operator_log import LogFilter
from seriatim.operations.tables.pipelines import LOGGED


@click.command("log")
@options_of(entries_of_box)
@which_pipeline
@which_box
@json_option("Print a JSON list.", LOGGED)
def log(*, pipeline: str | None, dsn: str | None, schema: str, json_: bool, **given: Any) -> None:
    """List what operators did, newest first: actor, action, reason and result.

    Lists the message box and all pipelines with a checkpoint in this folder; with --dsn the box alone, with --pipeline that pipeline
    alone. A command that a pipeline has not obeyed yet is queued.
    """
    if pipeline is not None:
        not_with_dsn(dsn)
        from seriatim.operations.pipelines.log import operator_log  # noqa: PLC0415 -- Spark is slow to import

        found = operator_log(pipeline, **given)
    else:
        found = _here(given, dsn, schema)
    print_rows(LOGGED, found, json_=json_, limit=given["limit"])


def _here(given: dict[str, Any], dsn: str | None, schema: str) -> list[LogEntry]:
    found: list[LogEntry] = []
    if dsn is None:
        try:
            from seriatim.operations.pipelines.log import operator_logs_here  # noqa: PLC0415 -- Spark is slow to import

            found = operator_logs_here(LogFilter(**given))
        except MissingExtra:
            found = []  # then no pipeline runs here
    if found and not is_here(dsn):
        return found
    with opened(dsn, schema) as box:
        found += entries_of_box(box, **given)
    return sorted(found, key=lambda one: one.at, reverse=True)[: given["limit"]]
