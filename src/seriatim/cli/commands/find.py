"""``seriatim find``: find an order by a message id, a group's key or any property."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.views.find import SearchResult
from seriatim.cli.options.listing import options_of
from seriatim.cli.options.which import looks_at_box
from seriatim.cli.options.why import exit_if
from seriatim.cli.shown.table import Table, lines_of, print_object, tell
from seriatim.operations import find as operations
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.found import FOUND, FOUND_MESSAGES, SIMILAR
from seriatim.operations.tables.groups import GROUPS
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local


@click.command()
@click.argument("text")
@options_of(operations.find)
@looks_at_box(FOUND)
def find(box: MessageBox, text: str, *, json_: bool, **given: Any) -> None:
    """Find TEXT: a message id, a group's key, or the value of any property.

    Looks in all queues, among done messages as far as queues keep them, among those set aside, dead and unrouted, and in the
    faults of handlers. Exits with 1 if nothing is found.
    """
    found = operations.find(box, text, **given)
    if json_:
        print_object(FOUND, found)
    else:
        _tell(found, given["limit"])
    exit_if(not found.is_anything and not found.similar)


def _tell(found: SearchResult, limit: int) -> None:
    parts: tuple[tuple[Sequence[Any], Table[Any], str], ...] = (
        (found.groups, GROUPS, "group"),
        (found.messages, FOUND_MESSAGES, "message"),
        (found.faults, FAULTS, "fault"),
    )
    for rows, table, what in parts:
        if rows:
            click.echo(counted(len(rows), what))
            for line in lines_of(table, rows):
                click.echo(f"  {line}")
    if len(found.messages) >= limit:
        click.echo(
            f"stopped at {counted(limit, 'message')}, there may be more: --limit N finds more, --since fewer", err=True
        )
    tell(*(f"more: {command('group', 'show', of=group.group, queue=group.queue)}" for group in found.groups[:1]))
    tell(*(f"more: {command('trace', of=message.message_id)}" for message in found.messages[:1]))
    if not found.messages:
        _tell_gone(found)
    if found.similar is not None:
        click.echo(f"similar: {counted(len(found.similar), 'group or message', 'groups and messages')}")
        for line in lines_of(SIMILAR, found.similar):
            click.echo(f"  {line}")
    _tell_kept(found)


def _tell_gone(found: SearchResult) -> None:
    for at in found.published:
        moment = local(at)
        click.echo(f"a message with this id was published at {moment}, and no queue has it: it is done, or was deleted")
    if not found.published:
        click.echo("no message has it as its id, its group or a property")


def _tell_kept(found: SearchResult) -> None:
    """Say which done messages can't be among those found, also where others are found."""
    nothing = [name for name, keep in found.keeps.items() if keep == "nothing"]
    faults = [name for name, keep in found.keeps.items() if keep == "faults"]
    if nothing:
        tell(f"can't be found: messages done in {_listed(nothing)}, which keep nothing of them (keep)")
    if faults:
        tell(f"can't be found: messages done without a failure in {_listed(faults)} (keep: faults)")


def _listed(names: list[str]) -> str:
    more = f" and {counted(len(names) - 5, 'more queue')}" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
