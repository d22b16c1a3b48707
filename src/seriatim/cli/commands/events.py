"""``seriatim events``: list the events of groups."""

from __future__ import annotations

from typing import Any

import click

from seriatim.cli.commands.pipeline_groups import not_with_dsn, which_pipeline
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.errors import UsageError
from seriatim.kernel.values.outcome import EventKind
from seriatim.operations import events as operations
from seriatim.operations.tables import events as declared
from seriatim.operations.tables import pipelines as declared_of_pipelines

__all__ = ["EVENTS", "KIND_COUNTS", "events"]

EVENTS = Table.of(declared.EVENTS)
KIND_COUNTS = Table.of(declared.KIND_COUNTS)
_OF_PIPELINE = Table.of(declared_of_pipelines.EVENTS)


@click.command("events")
@click.option("--queue", default=None, help="Only events in this queue.")
@click.option("--group", default=None, metavar="KEY", help="Only events of the group with this key.")
@click.option(
    "--key",
    default=None,
    metavar="PATTERN",
    help="Only events of groups with a key that matches; * stands for any text.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([one.word for one in EventKind]),
    help="Only events of this kind; may be repeated.",
)
@click.option(
    "--since",
    default=None,
    metavar="TIME",
    help="Only events from this time on: a time such as '2026-03-01 14:30', or how long ago, such as 2h.",
)
@click.option("--until", default=None, metavar="TIME", help="Only events before this time, likewise.")
@click.option("--by", type=click.Choice(["kind"]), default=None, help="Count them by their kind, in place of a list.")
@click.option(
    "--before",
    type=click.IntRange(1),
    default=None,
    metavar="ID",
    help="Go on with a list: events older than this one.",
)
@click.option(
    "--after",
    type=click.IntRange(0),
    default=None,
    metavar="POSITION",
    help="Read as an exporter does: the events behind this position, oldest first; 0 begins.",
)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="List at most this many."
)
@which_pipeline
@which_box
@json_option("Print a JSON list.", EVENTS, KIND_COUNTS, _OF_PIPELINE)
def events(
    *, queue: str | None, kinds: tuple[str, ...], by: str | None, before: int | None, after: int | None, limit: int,
    pipeline: str | None, dsn: str | None, schema: str, json_: bool, **given: Any,
) -> None:  # fmt: skip
    """List the events of groups, newest first: holes that were overdue or skipped, suspensions, closings.

    The kinds are explained by `seriatim docs events`. With --after, list them oldest first, so that none is missed.
    """
    if by is not None and before is not None:
        raise UsageError("--by counts all, and --before goes on with a list", remedy="leave one of them out")
    if after is not None and (by or before or any(given.values())):
        raise UsageError("--after can only be combined with --queue, --kind and --limit", remedy="leave the others out")
    if pipeline is not None:
        not_with_dsn(dsn)
        paged = {"before": before, "after": after}
        _of_pipeline(pipeline, by, limit, paged, json_=json_, queue=queue, kinds=kinds or None, **given)
        return

    with opened(dsn, schema) as box:
        if queue is not None:
            box.definitions().queue(queue)
        chosen: dict[str, Any] = {"kinds": kinds or None, "limit": limit}
        if after is not None:
            EVENTS.print(box.events(after, queue=queue, **chosen), json_=json_, limit=limit)
        elif by is not None:
            counts = operations.events_by_kind(box, queue, **chosen, **given)
            KIND_COUNTS.print(counts, json_=json_, limit=limit)
        else:
            EVENTS.print(operations.events(box, queue, before=before, **chosen, **given), json_=json_, limit=limit)


def _of_pipeline(
    pipeline: str, by: str | None, limit: int, paged: dict[str, Any], *, json_: bool, **given: Any
) -> None:
    from seriatim.operations.pipelines import events as operations  # noqa: PLC0415 -- Spark is slow to import

    if by is not None:
        KIND_COUNTS.print(operations.events_by_kind(pipeline, **given)[:limit], json_=json_, limit=limit)
        return
    _OF_PIPELINE.print(operations.events(pipeline, limit=limit, **paged, **given), json_=json_, limit=limit)
