"""``seriatim events``: list the events of groups."""

from __future__ import annotations

from typing import Any

import click

from seriatim.cli.commands.pipeline_groups import not_with_dsn, which_pipeline
from seriatim.cli.options.listing import counting, options_of
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import json_option, print_rows
from seriatim.errors import UsageError
from seriatim.operations import events as operations
from seriatim.operations.events import EventFilter
from seriatim.operations.tables.events import EVENTS, KIND_COUNTS
from seriatim.operations.tables.pipelines import EVENTS as PIPELINE_EVENTS


@click.command("events")
@options_of(EventFilter)
@counting("kind", operations.events_by_kind)
@which_pipeline
@which_box
@json_option("Print a JSON list.", EVENTS, KIND_COUNTS, PIPELINE_EVENTS)
def events(
    *, by: str | None, before: int | None, after: int | None, pipeline: str | None, dsn: str | None, schema: str,
    json_: bool, **given: Any,
) -> None:  # fmt: skip
    """List the events of groups, newest first: holes that are open, were overdue or skipped, suspensions, closings.

    The kinds are explained by `seriatim docs events`. With --after, list them oldest first, so that none is missed.
    """
    if by is not None and before is not None:
        raise UsageError("--by counts all, and --before goes on with a list", remedy="leave one of them out")
    if after is not None and (by or before or any(given[name] for name in ("group", "key", "since", "until"))):
        raise UsageError("--after can only be combined with --queue, --kind and --limit", remedy="leave the others out")
    limit = given["limit"]
    if pipeline is not None:
        not_with_dsn(dsn)
        from seriatim.operations.pipelines import events as of_pipelines  # noqa: PLC0415 -- Spark is slow to import

        if by is not None:
            print_rows(KIND_COUNTS, of_pipelines.events_by_kind(pipeline, **given), json_=json_, limit=limit)
            return
        found = of_pipelines.events(pipeline, before=before, after=after, **given)
        print_rows(PIPELINE_EVENTS, found, json_=json_, limit=limit)
        return
    with opened(dsn, schema) as box:
        if after is not None:
            rows = operations.events_after(box, after, queue=given["queue"], kinds=given["kinds"] or None, limit=limit)
            print_rows(EVENTS, rows, json_=json_, limit=limit)
        elif by is not None:
            print_rows(KIND_COUNTS, operations.events_by_kind(box, **given), json_=json_, limit=limit)
        else:
            print_rows(EVENTS, operations.events_and_holes(box, before=before, **given), json_=json_, limit=limit)
