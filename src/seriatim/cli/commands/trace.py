"""``seriatim trace``: trace a message, or the messages of a group, step by step."""

from __future__ import annotations

import click

from seriatim.cli.options.option import option
from seriatim.cli.options.which import in_id_space, opened, which_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.errors import UsageError
from seriatim.operations import groups
from seriatim.operations import trace as operations
from seriatim.operations.trace import Step

STEPS: Table[Step] = Table(
    "A step of a trace",
    Column("at"),
    Column("kind", "step"),
    Column("text", ""),
    Column("message_id", "message", after="step"),
    Column("link", after="at", optional=True),
    row=Step,
    nothing=None,
)


@click.command("trace")
@click.argument("message_id", metavar="[MESSAGE]", required=False)
@option("--group", "Trace the messages of the group with this key.", metavar="KEY")
@option("--queue", "With --group: its queue; required if several queues have a group with this key.")
@option("--limit", "With --group: trace at most this many messages.", type=click.IntRange(1, 10_000), default=100)
@in_id_space
@which_box
@json_option("Print a JSON list.", STEPS)
def trace(
    message_id: str | None, *, group: str | None, queue: str | None, limit: int, id_space: str | None,
    dsn: str | None, schema: str, json_: bool,
) -> None:  # fmt: skip
    """Trace a message, or all messages of a group, step by step with timestamps.

    MESSAGE is a message id. The messages from which it results, and that result from it, are traced, too. The trace is read from the tables
    of the box; steps that the box doesn't keep are marked.
    """
    if (message_id is None) is (group is None):
        raise UsageError("give either a MESSAGE or --group", remedy="name one of them")
    with opened(dsn, schema) as box:
        if group is None:
            steps = operations.trace_message(box, str(message_id), id_space=id_space)
        else:
            steps = operations.trace_group(box, queue or groups.only_group(box, group), group, limit=limit)
    is_one = len({step.message_id for step in steps} - {None}) == 1
    shown = STEPS.without("message") if group is None and is_one else STEPS
    print_rows(shown, steps, json_=json_)
