"""``seriatim messages``: where messages are, and what they say."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from seriatim.cli.commands import Commands
from seriatim.cli.plain import in_line, in_lines
from seriatim.cli.which import as_json, listed, opened, which_box

__all__ = ["messages"]

_STATUSES = (
    *("arrived", "held", "queued", "in_hand"),
    *("late", "duplicate", "invalid", "rejected", "dead"),
    *("done", "unrouted"),
)
#: Of a body, so much is shown to people.
_SHOWN = 2_000


@click.group("messages", cls=Commands)
def messages() -> None:
    """Look at the messages of a message box; nothing is locked, and nothing taken."""


@messages.command("list")
@which_box
@click.option("--queue", help="Only of this queue.")
@click.option("--group", help="Only of groups with this key.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only in this status.")
@click.option("--type", "type_", help="Only of this type.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most this many.")
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def _list(
    *,
    dsn: str | None,
    schema: str,
    queue: str | None,
    group: str | None,
    status: str | None,
    type_: str | None,
    limit: int,
    json_: bool,
) -> None:
    """List where messages are, oldest first: a line for each queue that has one.

    Of what is done, only what its queue keeps is there.
    """
    with opened(dsn, schema) as box:
        found = box.messages(queue=queue, group=group, status=status, message_type=type_, limit=limit)
    if json_:
        click.echo(as_json([asdict(one) for one in found]))
        return
    titles = ("message", "type", "ticket", "queue", "group", "status", "sequence", "parts", "reason")
    rows = [
        (
            *(one.message_id, one.type, _ticket(one.location, one.epoch, one.number), one.queue, one.group),
            *("waits" if one.waits else one.status, one.sequence, one.parts or None, one.reason),
        )
        for one in found
    ]
    listed(titles, rows, limit)


@messages.command("show")
@click.argument("message_id", metavar="ID")
@which_box
@click.option("--json", "json_", is_flag=True, help="Print one JSON object, with the whole body and all parts.")
def _show(message_id: str, *, dsn: str | None, schema: str, json_: bool) -> None:
    """Show the message ID: its properties, its body, its parts, and where it is.

    Bytes that are no text are hexadecimal digits in JSON.
    """
    with opened(dsn, schema) as box:
        message, places = box.message(message_id)
    if json_:
        told = asdict(message) | {"ticket": message.ticket._asdict(), "context": dict(message.context)}
        click.echo(as_json(told | {"places": [asdict(one) for one in places]}))
        return
    ticket = _ticket(*message.ticket)
    click.echo(in_line(f"{message.message_id}: {message.type}, {ticket}, {message.received_at.isoformat()}"))
    for name, value in message.context.items():
        click.echo(in_line(f"  {name}: {json.dumps(value, ensure_ascii=False, default=str)}"))
    for one in places:
        where = "unrouted" if one.queue is None else f"{one.queue}, group {one.group}: {one.status}"
        click.echo(in_line(f"{where}{f' ({one.reason})' if one.reason else ''}"))
    if not places:
        click.echo("no queue has it any more")
    shown = message.body[:_SHOWN].decode(errors="backslashreplace")
    more = f"… of {len(message.body):,} bytes" if len(message.body) > _SHOWN else ""
    click.echo(f"{in_lines(shown)}{more}")
    for part in message.parts:
        click.echo(in_line(f"part {part.name}: {part.content_type or 'no content type'}, {len(part.body):,} bytes"))


def _ticket(location: str, epoch: int, number: int) -> str:
    return f"{location}/{epoch}/{number}"
