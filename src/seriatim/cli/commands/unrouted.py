"""``seriatim unrouted``: list the messages of a pipeline or a message box that matched no destination."""

from __future__ import annotations

import json
from pathlib import Path

import click

from seriatim.cli.commands.messages import RESUBMITTED
from seriatim.cli.commands.set_aside import WRITTEN, printed_rows
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.options.why import Why, may_say_why
from seriatim.cli.shown.table import json_option, note_limit, print_row
from seriatim.errors import UsageError
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.text.plain import in_line
from seriatim.runtime.pipelines.set_aside import SetAsideFilter

_SHOWN = WRITTEN.only("type", "location", "message")


@click.command()
@click.argument("file_", metavar="[FILE]", required=False, type=click.Path(path_type=Path))
@which_box
@json_option("Print one JSON object per message; those of a pipeline have the body.", WRITTEN, MESSAGES, RESUBMITTED)
@option("--limit", "List at most this many.", type=click.IntRange(1))
@flag("--resubmit", "For a message box: route all unrouted messages again.")
@may_say_why
def unrouted(
    file_: Path | None, *, dsn: str | None, schema: str, json_: bool, limit: int | None, resubmit: bool, why: Why
) -> None:
    """List messages that matched no destination.

    With FILE, reads the unrouted folder of the pipeline in it: messages for which no `where` was true, oldest first.
    Without FILE, reads the message box: messages that matched no subscription, or that don't fit their message type.
    """
    if file_ is None:
        if not resubmit and (why.given_actor or why.reason):
            raise UsageError("--actor and --reason are for --resubmit", remedy="leave them out, or add --resubmit")
        _of_box(dsn, schema, json_=json_, limit=limit, by=why() if resubmit else None)
        return
    if resubmit or dsn is not None:
        raise UsageError(
            f"{'--resubmit' if resubmit else '--dsn'} works on a message box only", remedy="leave FILE out"
        )

    pipeline = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.checkpoint import Checkpoint  # noqa: PLC0415 - imports Spark, which is slow

    folder = pipeline.unrouted or Checkpoint(pipeline.checkpoint).unrouted
    found = printed_rows(_SHOWN, folder, SetAsideFilter(), json_=json_, limit=limit).total()
    if not json_:
        click.echo(f"{found:,} unrouted" if found else f"nothing is unrouted in {folder}")


def _of_box(dsn: str | None, schema: str, *, json_: bool, limit: int | None, by: dict[str, str] | None) -> None:
    if by is not None and limit is not None:
        raise UsageError("--resubmit resubmits all messages", remedy="leave --limit out")
    with opened(dsn, schema) as box:
        if by is not None:
            done = messages.resubmit(box, **by)
            print_row(RESUBMITTED, done, f"{done.routed:,} routed, {done.left:,} left", json_=json_)
            return
        found = messages.messages(box, status="unrouted", limit=limit)
    for one in found:
        place = f"{one.location} {one.type}  {one.message_id}"
        reason = f": {one.reason}" if one.reason else ""
        click.echo(
            json.dumps(MESSAGES.object_of(one), ensure_ascii=False, default=str)
            if json_
            else in_line(f"{place}{reason}")
        )
    if not json_ and not note_limit(found, limit):
        click.echo(f"{len(found):,} unrouted" if found else "nothing is unrouted")
