"""``seriatim group retry --edits``: retry the messages of a file, each with its own edits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import IO

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.why import Why, exit_if
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Column, Table, columns, print_object, print_rows, tell
from seriatim.operations import edits
from seriatim.operations.edits import NotRetried, Plan, PlannedRetry, Retried
from seriatim.pipeline.text.counted import counted

PLANNED: Table[PlannedRetry] = Table(
    "A message that would be retried",
    *columns("queue", "group"),
    Column("message_id", "message"),
    Column("changed", shown=lambda one: ", ".join(one.changed) or "nothing"),
    row=PlannedRetry,
    lacks=("edit",),
)
RETRIED: Table[Retried] = Table("A message that was retried", row=Retried)
NOT_RETRIED: Table[NotRetried] = Table("A message that was not retried", row=NotRetried)
EDITED: Table[dict[str, object]] = Table(
    "The result of a retry with edits",
    Column("action", None, kind="str", meaning="the action"),
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column("messages", None, rows=(PLANNED, RETRIED, NOT_RETRIED), meaning="each message of the file"),
)
#: The most faults of a file that are shown.
_MOST_FAULTS = 50


def retry_file(box: MessageBox, file: IO[bytes], queue: str | None, why: Why, *, dry_run: bool, json_: bool) -> None:
    """Retry the messages of a file, or tell what would be done.

    Exits with 2 if a line can't be applied, and with 1 if a message isn't retried.
    """
    if queue is not None:
        box.definitions().queue(queue)
    read = edits.read(file, file.name)
    mine = [one for one in read if queue is None or getattr(one, "queue", queue) == queue]
    plan = edits.plan(box, mine)
    if plan.faults:
        _tell_faults(plan)
    if dry_run:
        _tell_plan(plan, len(read) - len(mine), json_=json_)
        return
    done = list(shown_progress(edits.retry(box, plan, **why()), len(plan.messages), "retry", quiet=json_))
    if json_:
        print_object(EDITED, {"action": "retry", "dry_run": False, "messages": done})
    else:
        tell(*map(_line, done))
        retried = [one for one in done if isinstance(one, edits.Retried)]
        click.echo(f"{len(retried):,} of {counted(len(done), 'message')}: retry{_counts(retried)}")
    _no_if_left(done, len(read) - len(mine))


def _tell_faults(plan: Plan) -> None:
    tell(*(f"error: {fault}" for fault in plan.faults[:_MOST_FAULTS]), err=True)
    if len(plan.faults) > _MOST_FAULTS:
        click.echo(f"… and {len(plan.faults) - _MOST_FAULTS:,} more", err=True)
    click.echo(f"{counted(len(plan.faults), 'line')} can't be applied, so nothing was done", err=True)
    exit_if(plan.faults, 2)


def _tell_plan(plan: Plan, others: int, *, json_: bool) -> None:
    goes = [one for one in plan.planned if isinstance(one, PlannedRetry)]
    left = [one for one in plan.planned if not isinstance(one, PlannedRetry)]
    if json_:
        print_object(EDITED, {"action": "retry", "dry_run": True, "messages": plan.planned})
    else:
        if goes:
            print_rows(PLANNED, goes)
        for one in left:
            tell(_line(one))  # type: ignore[arg-type]  # a plan without faults
        click.echo(f"retry would be done to {counted(len(goes), 'message')}{_counts(goes)}")
    _no_if_left(left, others)


def _counts(messages: Sequence[PlannedRetry | Retried]) -> str:
    found = Counter("changed" if one.changed else "unchanged" for one in messages)
    told = ", ".join(f"{found[one]:,} {one}" for one in ("changed", "unchanged") if found[one])
    return f" ({told})" if told else ""


def _line(one: Retried | NotRetried) -> str:
    place = f"{one.queue}, group {one.group}" if one.queue else one.message_id
    if isinstance(one, NotRetried):
        return f"{place}: not retried, {one.why}"
    edited = f", edited: {', '.join(one.changed)}" if one.changed else ""
    released = f", {one.released:,} released" if one.released else ""
    more = ", and more follow" if one.more else ""
    return f"{place}: {one.before} → {one.after}{edited}{released}{more}"


def _no_if_left(messages: Sequence[object], others: int) -> None:
    """Exit with 1 if a message isn't retried; the results have been printed before."""
    if others:
        click.echo(f"left out: {counted(others, 'message')} of other queues", err=True)
    exit_if(any(isinstance(one, NotRetried) for one in messages))
