"""``seriatim dead-letters``: list, requeue and delete dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.commands.acting import REFUSED
from seriatim.cli.options.choose import ERRORS, by_error, narrowing, of_class
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.many import Many, many
from seriatim.cli.options.together import together
from seriatim.cli.options.which import in_box, opened, which_box
from seriatim.cli.options.why import Why, confirmed, no_if_refused, says_why
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Column, Table, json_option
from seriatim.errors import NotFound, UsageError
from seriatim.operations import dead_letters as operations
from seriatim.operations.bulk import Refused
from seriatim.operations.tables import dead_letters as declared
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox
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


_choosing = together(
    click.option("--queue", default=None, help="Only dead letters of this queue."),
    click.option(
        "--key",
        default=None,
        metavar="PATTERN",
        help="Only of groups with a key that matches; * stands for any text.",
    ),
    click.option(
        "--older-than", default=None, metavar="PERIOD", help="Only dead letters set aside longer ago, such as 7d."
    ),
    click.option(
        "--error", default=None, metavar="TEXT", help="Only dead letters with this text in their reason or error."
    ),
    of_class("dead letters whose handler failed last with an error of this class"),
    narrowing("dead letters set aside", "dead letters"),
)
#: The options of a command on many dead letters.
_acts = together(many("dead letters", _choosing, type=int), says_why, in_box, json_option("Print JSON.", _DONE))


@click.group("dead-letters", cls=Commands)
def dead_letters() -> None:
    """List dead letters, requeue them, or delete them."""


@dead_letters.command("list")
@_choosing
@by_error
@click.option("--limit", type=click.IntRange(1, _ALL), default=100, show_default=True, help="List at most this many.")
@which_box
@json_option("Print JSON.", DEAD_LETTERS, ERRORS)
def _list(*, by: str | None, limit: int, dsn: str | None, schema: str, json_: bool, **chosen: Any) -> None:
    """List dead letters, ordered by number."""
    with opened(dsn, schema) as box:
        if by is not None:
            if chosen["queue"] is not None:
                box.definitions().queue(chosen["queue"])
            counts = operations.dead_letters_by_error(box, limit=limit, **chosen)
            ERRORS.print(counts, json_=json_, limit=limit)
            return
        found = _found(box, chosen, limit)
    DEAD_LETTERS.print(found, json_=json_, limit=limit)


@dead_letters.command("requeue")
@_acts
def requeue(chosen: Many, *, why: Why, box: MessageBox, json_: bool) -> None:
    """Requeue dead letters: in their old place unless a later message of the group was delivered, else at the end."""
    found = _picked(box, chosen)
    if chosen.is_only_shown(found, json_=json_):
        _would(found, "requeue", json_=json_)
        return
    if chosen.all_ and found:
        confirmed(f"requeue {counted(len(found), 'dead letter')}?", yes=chosen.yes)
    requeued = operations.requeue_each(box, found, **why()) if found else ()
    done = list(shown_progress(requeued, len(found), "requeue", quiet=json_))
    _DONE.tell({"dry_run": False, "requeued": done}, *map(_line, done), json_=json_)
    no_if_refused(done)


@dead_letters.command("delete")
@_acts
def delete(chosen: Many, *, why: Why, box: MessageBox, json_: bool) -> None:
    """Delete dead letters. The next clean-up deletes their messages, unless another queue refers to them."""
    found = _picked(box, chosen)
    if chosen.is_only_shown(found, json_=json_):
        _would(found, "delete", json_=json_)
        return
    if found:
        confirmed(f"delete {counted(len(found), 'dead letter')} for good?", yes=chosen.yes)
    done = operations.delete(box, [one.entry_id for one in found], **why()) if found else 0
    _DONE.tell({"dry_run": False, "deleted": done}, f"deleted {counted(done, 'dead letter')}", json_=json_)


def _found(box: MessageBox, chosen: dict[str, Any], limit: int) -> list[DeadLetter]:

    if chosen["queue"] is not None:
        box.definitions().queue(chosen["queue"])
    return operations.dead_letters(box, limit=limit, **chosen)


def _picked(box: MessageBox, chosen: Many) -> list[DeadLetter]:
    if chosen.all_:
        return _found(box, chosen.filters, _ALL)
    if any(chosen.filters.values()):
        raise UsageError("filters need --all", remedy="leave out either the filters or the numbers")
    picked = _found(box, {**chosen.filters, "entry_ids": chosen.names}, _ALL)
    if missing := set(chosen.names) - {one.entry_id for one in picked}:
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
        return f"{one.queue}, group {one.group}: refused, {one.why}"
    letter = one.letter
    warning = f"; {one.warning}" if one.warning else ""
    where = "at the end" if one.warning else "in its place"
    return f"{letter.queue}, group {letter.group}: {letter.message_id} is back {where}{warning}"
