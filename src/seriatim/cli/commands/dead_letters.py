"""``seriatim dead-letters``: list, requeue and delete dead letters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.commands.group import REFUSED
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import ERRORS, list_command, options_of
from seriatim.cli.options.which import on_box
from seriatim.cli.options.why import confirmed, no_if_refused, said, says_why
from seriatim.cli.shown.plain import in_line
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Column, Table, json_option
from seriatim.errors import NotFound, UsageError
from seriatim.operations import dead_letters as operations
from seriatim.operations.bulk import Refused
from seriatim.operations.tables import dead_letters as declared
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.operations.dead_letters import DeadLetter, Requeued

__all__ = ["DEAD_LETTERS", "dead_letters"]

_ALL = 100_000


DEAD_LETTERS = Table.of(declared.DEAD_LETTERS)
_REQUEUED = Table.of(declared.REQUEUED)
_DONE: Table[dict[str, object]] = Table(
    "The result for dead letters",
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column(
        "requeued", None, rows=(_REQUEUED, REFUSED), optional=True, meaning="each dead letter, or a group that refused"
    ),
    Column("deleted", None, kind="int", optional=True, meaning="how many were deleted"),
    Column("dead_letters", None, rows=DEAD_LETTERS, optional=True, meaning="of a dry run: the dead letters"),
)


_choosing = options_of(operations.dead_letters, without=("limit",))


def _many(command: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.argument("numbers", metavar="[ID…]", nargs=-1, type=int),
        click.option("--all", "all_", is_flag=True, help="All dead letters that match the options."),
        _choosing,
        click.option("--dry-run", is_flag=True, help="Change nothing; list the dead letters."),
        click.option("--yes", is_flag=True, help="With --all: don't ask for confirmation."),
        says_why,
        json_option("Print JSON.", _DONE),
        on_box,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group("dead-letters", cls=Commands)
def dead_letters() -> None:
    """List dead letters, requeue them, or delete them."""


dead_letters.add_command(
    list_command("list", operations.dead_letters, DEAD_LETTERS, by=("error", operations.dead_letters_by_error, ERRORS))
)


@dead_letters.command("requeue")
@_many
def _requeue(
    box: MessageBox, numbers: tuple[int, ...], *, all_: bool, dry_run: bool, yes: bool, actor: str | None, reason: str | None,
    json_: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Requeue dead letters: in their old place unless a later message of the group was delivered, else at the end."""
    found = _picked(box, numbers, chosen, all_=all_)
    if dry_run or not (found or json_):
        _would(found, "requeue", json_=json_)
        return
    if all_ and found:
        confirmed(f"requeue {counted(len(found), 'dead letter')}?", yes=yes)
    requeued = operations.requeue_each(box, found, **said(actor, reason)) if found else ()
    done = list(shown_progress(requeued, len(found), "requeue", quiet=json_))
    if json_:
        _DONE.print_object({"dry_run": False, "requeued": done})
    for one in () if json_ else done:
        click.echo(_line(one))
    no_if_refused(done)


@dead_letters.command("delete")
@_many
def _delete(
    box: MessageBox, numbers: tuple[int, ...], *, all_: bool, dry_run: bool, yes: bool, actor: str | None, reason: str | None,
    json_: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Delete dead letters. The next clean-up deletes their messages, unless another queue refers to them."""
    found = _picked(box, numbers, chosen, all_=all_)
    if dry_run or not (found or json_):
        _would(found, "delete", json_=json_)
        return
    if found:
        confirmed(f"delete {counted(len(found), 'dead letter')} for good?", yes=yes)
    done = operations.delete(box, [one.entry_id for one in found], **said(actor, reason)) if found else 0
    if json_:
        _DONE.print_object({"dry_run": False, "deleted": done})
    else:
        click.echo(f"deleted {counted(done, 'dead letter')}")


def _picked(box: MessageBox, numbers: tuple[int, ...], chosen: dict[str, Any], *, all_: bool) -> list[DeadLetter]:
    if all_ is bool(numbers):
        raise UsageError(
            "name either dead letters or --all", remedy="give their numbers, or --all with options that choose them"
        )
    if all_:
        return operations.dead_letters(box, limit=_ALL, **chosen)
    if any(chosen.values()):
        raise UsageError("filters need --all", remedy="leave out either the filters or the numbers")
    picked = operations.dead_letters(box, entry_ids=numbers, limit=_ALL, **chosen)
    if missing := set(numbers) - {one.entry_id for one in picked}:
        raise NotFound(f"there is no dead letter {min(missing)}", remedy="see seriatim dead-letters list")
    return picked


def _would(found: list[DeadLetter], what: str, *, json_: bool) -> None:
    if json_:
        _DONE.print_object({"dry_run": True, "dead_letters": found})
        return
    DEAD_LETTERS.print(found, limit=_ALL)
    if found:
        click.echo(f"would {what} {counted(len(found), 'dead letter')}")


def _line(one: Requeued | Refused) -> str:

    if isinstance(one, Refused):
        return in_line(f"{one.queue}, group {one.group}: refused, {one.why}")
    letter = one.letter
    warning = f"; {one.warning}" if one.warning else ""
    where = "at the end" if one.warning else "in its place"
    return in_line(f"{letter.queue}, group {letter.group}: {letter.message_id} is back {where}{warning}")
