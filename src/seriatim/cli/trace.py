"""``seriatim trace``: the way of a message, or of a group's messages, step by step."""

from __future__ import annotations

from dataclasses import asdict

import click

from seriatim.cli.which import as_json, in_columns, in_id_space, opened, which_box
from seriatim.errors import UsageError

__all__ = ["trace"]


@click.command("trace")
@click.argument("message_id", metavar="[MESSAGE]", required=False)
@click.option("--group", default=None, metavar="KEY", help="The messages of the group with this key, instead of one.")
@click.option("--queue", default=None, help="With --group: of which queue; needed where several have such a group.")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="So many of its messages."
)
@in_id_space
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def trace(
    message_id: str | None, *, group: str | None, queue: str | None, limit: int, id_space: str | None,
    dsn: str | None, schema: str, json_: bool,
) -> None:  # fmt: skip
    """Tell the way of the message with the id MESSAGE, or of the messages of a group, with the time of each step.

    It is put together from what the box keeps; what nobody keeps is said so.
    """
    from seriatim.operations import groups, trace as operations  # noqa: I001, PLC0415 -- the driver, when it is needed

    if (message_id is None) is (group is None):
        raise UsageError("which way?", remedy="name a MESSAGE, or a group with --group")
    with opened(dsn, schema) as box:
        if group is None:
            steps = operations.trace_message(box, str(message_id), id_space=id_space)
        else:
            steps = operations.trace_group(box, queue or groups.only_group(box, group), group, limit=limit)
    if json_:
        click.echo(as_json([asdict(one) for one in steps]))
        return
    rows = [(one.at, one.kind, *(() if group is None else (one.message_id,)), one.text) for one in steps]
    in_columns(("at", "step", *(() if group is None else ("message",)), ""), rows)
