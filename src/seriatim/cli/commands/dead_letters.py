"""``seriatim dead-letters``: list, requeue and delete dead letters."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command, options_of
from seriatim.cli.options.many import Many, many
from seriatim.cli.options.option import together
from seriatim.cli.options.which import on_box
from seriatim.cli.options.why import Why, confirmed, no_if_refused, says_why
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Column, Table, json_option, print_object, print_row, print_rows
from seriatim.errors import NotFound, UsageError
from seriatim.operations import dead_letters as operations
from seriatim.operations.bulk import Refused
from seriatim.operations.dead_letters import DeadLetter, Requeued
from seriatim.operations.tables.acted import REFUSED
from seriatim.operations.tables.dead_letters import DEAD_LETTERS, REQUEUED
from seriatim.operations.tables.errors import ERRORS
from seriatim.pipeline.text.counted import counted

_DONE: Table[dict[str, object]] = Table(
    "The result for dead letters",
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column(
        "requeued", None, rows=(REQUEUED, REFUSED), optional=True, meaning="each dead letter, or a group that refused"
    ),
    Column("deleted", None, kind="int", optional=True, meaning="how many were deleted"),
    Column("dead_letters", None, rows=DEAD_LETTERS, optional=True, meaning="of a dry run: the dead letters"),
)

_choosing = options_of(operations.dead_letters, without=("limit",))
#: The options of a command on many dead letters.
_acts = together(many("dead letters", _choosing, type=int), says_why, on_box, json_option("Print JSON.", _DONE))

dead_letters = Commands("dead-letters")
dead_letters.add_command(
    list_command("list", operations.dead_letters, DEAD_LETTERS, by=("error", operations.dead_letters_by_error, ERRORS))
)


@dead_letters.command("requeue")
@_acts
def requeue(box: MessageBox, chosen: Many, *, why: Why, json_: bool) -> None:
    """Requeue dead letters: in their old place unless a later message of the group was delivered, else at the end."""
    found = _picked(box, chosen)
    if chosen.is_only_shown(found, json_=json_):
        _would(found, "requeue", json_=json_)
        return
    if chosen.all_ and found:
        confirmed(f"requeue {counted(len(found), 'dead letter')}?", yes=chosen.yes)
    requeued = operations.requeue_each(box, found, **why()) if found else ()
    done = list(shown_progress(requeued, len(found), "requeue", quiet=json_))
    print_row(_DONE, {"dry_run": False, "requeued": done}, *map(_line, done), json_=json_)
    no_if_refused(done)


@dead_letters.command("delete")
@_acts
def delete(box: MessageBox, chosen: Many, *, why: Why, json_: bool) -> None:
    """Delete dead letters. The next clean-up deletes their messages, unless another queue refers to them."""
    found = _picked(box, chosen)
    if chosen.is_only_shown(found, json_=json_):
        _would(found, "delete", json_=json_)
        return
    if found:
        confirmed(f"delete {counted(len(found), 'dead letter')} for good?", yes=chosen.yes)
    # Those that another operator has put back since they were listed are left out.
    done = operations.delete(box, [one.entry_id for one in found], **why(), strict=False) if found else 0
    print_row(_DONE, {"dry_run": False, "deleted": done}, f"deleted {counted(done, 'dead letter')}", json_=json_)


def _picked(box: MessageBox, chosen: Many) -> list[DeadLetter]:
    if chosen.all_:
        found = operations.dead_letters(box, limit=chosen.most, **chosen.filters)
        chosen.note_more(found)
        return found
    if any(chosen.filters.values()):
        raise UsageError("filters need --all", remedy="leave out either the filters or the numbers")
    picked = operations.dead_letters(box, entry_ids=chosen.names, limit=chosen.most, **chosen.filters)
    if missing := set(chosen.names) - {one.entry_id for one in picked}:
        raise NotFound(f"there is no dead letter {min(missing)}", remedy="see seriatim dead-letters list")
    return picked


def _would(found: list[DeadLetter], what: str, *, json_: bool) -> None:
    if json_:
        print_object(_DONE, {"dry_run": True, "dead_letters": found})
        return
    print_rows(DEAD_LETTERS, found)
    if found:
        click.echo(f"would {what} {counted(len(found), 'dead letter')}")


def _line(one: Requeued | Refused) -> str:
    if isinstance(one, Refused):
        return f"{one.queue}, group {one.group}: refused, {one.why}"
    letter = one.letter
    warning = f"; {one.warning}" if one.warning else ""
    where = "at the end" if one.warning else "in its place"
    return f"{letter.queue}, group {letter.group}: {letter.message_id} is back {where}{warning}"
