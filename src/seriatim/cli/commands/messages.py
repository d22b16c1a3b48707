"""``seriatim messages``: list and show messages; requeue, resubmit or delete those that were set aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from seriatim.cli.commands.edits import EDITED, retry_file
from seriatim.cli.commands.group import OPERATION, REFUSED
from seriatim.cli.options.choose import ERRORS, by_error, narrowing
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import in_id_space, opened, which_box
from seriatim.cli.options.why import confirmed, may_say_why, no_if_refused, resubmitting, said, says_why
from seriatim.cli.shown.plain import in_line, in_lines
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Column, Table, as_json, json_only, json_option
from seriatim.errors import UsageError
from seriatim.kernel.groups.states import RETRIED_IN
from seriatim.operations import edits
from seriatim.operations import messages as message_operations
from seriatim.operations import set_aside as operations
from seriatim.operations.set_aside import Refused, RequeuePosition
from seriatim.operations.tables import messages as declared
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox
    from seriatim.box.operators.resubmit import Resubmitted
    from seriatim.box.views.message_places import Placed
    from seriatim.operations.set_aside import PutBack, SetAside

__all__ = ["MESSAGES", "RESUBMITTED", "SET_ASIDE", "messages"]

MESSAGES = Table.of(declared.MESSAGES)
_MESSAGE = Table.of(declared.MESSAGE)
SET_ASIDE = Table.of(declared.SET_ASIDE)
_PUT_BACK = Table.of(declared.PUT_BACK)
_ticket = declared.ticket_text
_DONE: Table[dict[str, object]] = Table(
    "The result for messages that were set aside",
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column("requeued", None, rows=(_PUT_BACK, REFUSED), optional=True, meaning="each message, or a group that refused"),
    Column("deleted", None, kind="int", optional=True, meaning="how many were deleted"),
    Column("retried", None, rows=(OPERATION, REFUSED), optional=True, meaning="each message, or why it was refused"),
    Column("faulted", None, rows=MESSAGES, optional=True, meaning="of a dry run of `retry`: the messages"),
    Column("dead", None, kind="int", optional=True, meaning="how many waiting messages were moved to the dead letters"),
    Column("waiting", None, kind="list[str]", optional=True, meaning="of a dry run: the ids of waiting messages"),
    Column("messages", None, rows=SET_ASIDE, optional=True, meaning="of a dry run: the messages"),
)
RESUBMITTED: Table[Resubmitted] = Table(
    "Resubmitted messages", *json_only("routed", "left"), row="seriatim.box.operators.resubmit:Resubmitted"
)

_STATUSES = (
    *("arrived", "held", "queued", "in_hand", "faulted"),
    *("late", "duplicate", "invalid", "rejected", "dead"),
    *("done", "unrouted"),
)
#: The states of groups that `export` takes.
_STOPPING = tuple(sorted(map(str, RETRIED_IN)))
#: The number of exported messages after which a line tells the progress.
_TOLD_EVERY = 10_000
#: What `delete` takes; dead letters have a command of their own.
_DELETABLE = ("late", "duplicate", "invalid", "rejected", "unrouted")
#: What `requeue` takes; without being told it leaves duplicates alone: what they are copies of was handed out.
_REQUEUED = ("late", "duplicate", "rejected")
_USUAL = ("late", "rejected")
#: One call deletes or puts back at most this many.
_ALL = 100_000
#: People are shown at most this many bytes of a body.
_SHOWN = 2_000


def _choosing(
    statuses: Sequence[str], of_status: str, of_yes: str, usual: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that choose messages, and whether to ask: ids, ``all_``, ``dry_run``, ``yes``, and the filters for ``--all``."""
    options = (
        click.argument("message_ids", metavar="[ID…]", nargs=-1),
        click.option("--all", "all_", is_flag=True, help="All messages that match the options."),
        click.option("--queue", help="Only messages that this queue has set aside."),
        click.option("--group", help="Only messages of groups with this key."),
        click.option("--status", multiple=True, type=click.Choice(statuses), default=usual, help=of_status),
        click.option("--type", "message_type", help="Only messages of this type."),
        click.option(
            "--older-than", default=None, metavar="PERIOD", help="Only messages set aside longer ago, such as 7d."
        ),
        click.option("--dry-run", is_flag=True, help="Change nothing; list the messages."),
        click.option("--yes", is_flag=True, help=of_yes),
    )

    def with_them(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return with_them


@click.group("messages", cls=Commands)
def messages() -> None:
    """List, show and export the messages of a message box, without locks; requeue, resubmit or delete messages that were set
    aside.
    """


@messages.command("list")
@which_box
@click.option("--queue", help="Only messages in this queue.")
@click.option("--group", help="Only messages of groups with this key.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only messages in this status.")
@click.option("--type", "type_", help="Only messages of this type.")
@click.option(
    "--error",
    metavar="TEXT",
    help="Only messages with this text in their reason, or in the last error of their handler.",
)
@narrowing("messages published", "messages")
@by_error
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="List at most this many.")
@json_option("Print a JSON list.", MESSAGES, ERRORS)
def _list(
    *,
    dsn: str | None,
    schema: str,
    queue: str | None,
    group: str | None,
    status: str | None,
    type_: str | None,
    by: str | None,
    limit: int,
    json_: bool,
    **chosen: Any,
) -> None:
    """List messages, oldest first, with one line for each queue that has the message.

    A message that is done is listed only if its queue keeps it.
    """
    with opened(dsn, schema) as box:
        chosen |= {"queue": queue, "group": group, "status": status, "message_type": type_, "limit": limit}
        if by is not None:
            ERRORS.print(message_operations.messages_by_error(box, **chosen), json_=json_, limit=limit)
            return
        found = message_operations.messages(box, **chosen)
    MESSAGES.print(found, json_=json_, limit=limit)


@messages.command("export")
@which_box
@click.option("--queue", help="Only messages in this queue.")
@click.option("--group", help="Only messages of groups with this key.")
@click.option(
    "--state",
    multiple=True,
    type=click.Choice(_STOPPING),
    help="Only the message that stops each group in this state: faulted, or one of the others if the group waits for the "
    "next attempt; may be repeated.",
)
@click.option("--status", type=click.Choice(_STATUSES), help="Only messages in this status.")
@click.option("--type", "type_", help="Only messages of this type.")
@click.option(
    "--error",
    metavar="TEXT",
    help="Only messages with this text in their reason, or in the last error of their handler.",
)
@narrowing("messages published", "messages")
@click.option(
    "--output", type=click.File("wb", lazy=False), default="-", help="Write to this file (default: standard output)."
)
def _export(
    *,
    dsn: str | None,
    schema: str,
    queue: str | None,
    group: str | None,
    state: tuple[str, ...],
    status: str | None,
    type_: str | None,
    output: IO[bytes],
    **chosen: Any,
) -> None:
    """Export messages with their bodies and properties as lines of JSON, oldest first: to edit them, or to look at them.

    Each line is a message as it is handed out next. The body is text in the field body if it is UTF-8, else body_base64.
    Edit body and properties, and give the file to `seriatim group retry --edits`.
    """
    chosen |= {"queue": queue, "group": group, "status": status, "message_type": type_, "state": state or None}
    written = 0
    with opened(dsn, schema) as box:
        for one in edits.export(box, **chosen):
            output.write(edits.line_of(one).encode() + b"\n")
            written += 1
            if written % _TOLD_EVERY == 0:
                click.echo(f"{counted(written, 'message')} so far", err=True)
    output.flush()
    click.echo(counted(written, "message"), err=True)


@messages.command("show")
@click.argument("message_id", metavar="ID")
@in_id_space
@which_box
@json_option("Print one JSON object, with the whole body and all parts.", _MESSAGE)
def _show(message_id: str, *, id_space: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """Show the message ID: its properties, body and parts, and the queues that have it.

    JSON has bytes that are not UTF-8 as hexadecimal digits.
    """
    with opened(dsn, schema) as box:
        message, places = message_operations.message(box, message_id, id_space=id_space)
    if json_:
        _MESSAGE.print_object(message, places=places)
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
        click.echo(
            in_line(f"part {part.name}: {part.content_type or 'no content type'}, {counted(len(part.body), 'byte')}")
        )


@messages.command("delete")
@_choosing(_DELETABLE, "Only messages in this status; may be repeated.", "Don't ask for confirmation.")
@says_why
@which_box
@json_option("Print JSON.", _DONE)
def _delete(
    message_ids: tuple[str, ...], *, all_: bool, dry_run: bool, yes: bool, actor: str | None, reason: str | None,
    dsn: str | None, schema: str, json_: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Delete messages that were set aside (late, duplicate, invalid, rejected) or are unrouted; take waiting ones out.

    Give their IDs, or --all. The next clean-up deletes the bodies, unless another queue refers to them. A message that
    waits in the queue that --queue names is moved to its dead letters; the others of its group stay in order. For dead
    letters see `seriatim dead-letters delete`.
    """
    queue = chosen["queue"]
    with opened(dsn, schema) as box:
        waiting = message_operations.waiting(box, message_ids, queue=queue) if queue is not None and not all_ else []
        others = tuple(one for one in message_ids if one not in waiting)
        found = _picked(box, others, chosen, all_=all_) if others or not waiting else []
        if dry_run or not (found or waiting or json_):
            _would("delete", found, json_=json_, waiting=waiting)
            return
        does = [f"delete {counted(len(found), 'message')} for good ({_counts(found)})"] if found or not waiting else []
        does += [f"move {counted(len(waiting), 'waiting message')} to the dead letters"] if waiting else []
        confirmed(f"{' and '.join(does)}?", yes=yes or not (found or waiting))
        who = said(actor, reason) if found or waiting else {}
        taken = message_operations.take_out(box, waiting, queue=queue, **who) if waiting else []
        done = operations.delete(box, found, **who) if found else 0
    if json_:
        _DONE.print_object({"dry_run": False, "deleted": done, **({"dead": len(taken)} if waiting else {})})
    else:
        if found or not waiting:
            click.echo(f"deleted {counted(done, 'message')}")
        if waiting:
            click.echo(f"moved {counted(len(taken), 'waiting message')} to the dead letters")
    _perhaps_more(found)


@messages.command("requeue")
@_choosing(
    _REQUEUED,
    "Only messages in this status; may be repeated (default: late and rejected).",
    "With --all: don't ask for confirmation.",
    _USUAL,
)
@says_why
@which_box
@json_option("Print JSON.", _DONE)
def _requeue(
    message_ids: tuple[str, ...], *, all_: bool, dry_run: bool, yes: bool, actor: str | None, reason: str | None,
    dsn: str | None, schema: str, json_: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Requeue messages that were set aside as late, rejected or duplicate.

    Give their IDs, or --all. A message that its group has passed goes to the end, flagged as late; any other is judged
    as if it came now. Duplicates are requeued only with --status duplicate.
    """
    with opened(dsn, schema) as box:
        found = _picked(box, message_ids, chosen, all_=all_)
        if dry_run or not (found or json_):
            _would("requeue", found, json_=json_)
            return
        if all_ and found:
            confirmed(f"requeue {counted(len(found), 'message')} ({_counts(found)})?", yes=yes)
        requeued = operations.requeue_each(box, found, **said(actor, reason)) if found else ()
        done = list(shown_progress(requeued, len(found), "requeue", quiet=json_))
    if json_:
        _DONE.print_object({"dry_run": False, "requeued": done})
    for one in () if json_ else done:
        click.echo(in_line(_put_back(one)))
    _perhaps_more(found)
    no_if_refused(done)


@messages.command("retry")
@click.argument("message_ids", metavar="[ID…]", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="All faulted messages that match the options.")
@click.option("--queue", help="The queue of the messages; required with IDs.")
@click.option("--group", help="With --all: only messages of groups with this key.")
@click.option("--type", "message_type", help="With --all: only messages of this type.")
@click.option(
    "--error", metavar="TEXT", help="With --all: only messages with this text in the last error of their handler."
)
@narrowing("messages published", "messages")
@click.option(
    "--edit", "body", type=click.File("rb"), help="Retry with the content of this file as the message's body."
)
@click.option(
    "--edits",
    type=click.File("rb"),
    help="Retry each message of this file, a line for each, with its body and properties there; - is standard input.",
)
@click.option("--dry-run", is_flag=True, help="With --all or --edits: change nothing; list what would be done.")
@click.option("--yes", is_flag=True, help="With --all: don't ask for confirmation.")
@says_why
@which_box
@json_option("Print JSON.", _DONE, EDITED)
def _retry(
    message_ids: tuple[str, ...], *, all_: bool, queue: str | None, body: IO[bytes] | None, edits: IO[bytes] | None,
    dry_run: bool, yes: bool, actor: str | None, reason: str | None, dsn: str | None, schema: str, json_: bool,
    **chosen: Any,
) -> None:  # fmt: skip
    """Retry messages that are faulted by themselves, or are postponed or wait for their next attempt: in unordered queues.

    Give their IDs with --queue, or --all, or --edits FILE. In other queues a message stops its group: see `seriatim group
    retry`. To mend many messages, write them with `seriatim messages export --status faulted`, edit the file, and give it with
    --edits. To give a message up, see `seriatim messages delete`.
    """
    _check_retry(message_ids, all_, edits, queue, body, chosen)
    with opened(dsn, schema) as box:
        if edits is not None:
            retry_file(box, edits, queue, (actor, reason), dry_run=dry_run, json_=json_)
            return
        done: list[Any]
        if not all_:
            new = None if body is None else body.read()
            done = list(message_operations.retry(box, message_ids, queue=str(queue), body=new, **said(actor, reason)))
        else:
            found = message_operations.messages(box, queue=queue, status="faulted", limit=_ALL, **chosen)
            if dry_run:
                _would_retry(found, json_=json_)
                return
            if found:
                confirmed(f"retry {counted(len(found), 'message')}?", yes=yes)
            retried = message_operations.retry_each(box, found, **said(actor, reason)) if found else ()
            done = list(shown_progress(retried, len(found), "retry", quiet=json_))
    if json_:
        _DONE.print_object({"dry_run": False, "retried": done})
    else:
        refused = [one for one in done if hasattr(one, "why")]
        for one in refused:
            click.echo(in_line(f"{one.queue}, group {one.group}: not retried, {one.why}"))
        click.echo(f"retried {counted(len(done) - len(refused), 'message')}")
    no_if_refused(done)


def _check_retry(
    message_ids: tuple[str, ...], all_: bool, edits: object, queue: str | None, body: object, chosen: dict[str, Any]
) -> None:
    if sum(map(bool, (message_ids, all_, edits))) != 1:
        raise UsageError("name messages, or give --all, or --edits", remedy="one of the three")
    if message_ids and queue is None:
        raise UsageError("the queue of the messages is missing", remedy="--queue QUEUE")
    if not all_ and any(chosen.values()):
        raise UsageError("filters need --all", remedy="leave them out, or leave out the IDs")
    if body is not None and len(message_ids) != 1:
        raise UsageError("--edit works on one message only", remedy="name one ID, or give --edits")


def _would_retry(found: Sequence[Placed], *, json_: bool) -> None:
    """Tell what a retry would be done to."""
    if json_:
        _DONE.print_object({"dry_run": True, "faulted": found})
        return
    MESSAGES.print(found)
    click.echo(f"retry would be done to {counted(len(found), 'message')}")


@messages.command("resubmit")
@click.argument("message_ids", metavar="[ID…]", nargs=-1)
@click.option("--queue", required=True, help="The queue that set the messages aside as invalid.")
@click.option("--type", "type_", help="Only messages of this type.")
@may_say_why
@which_box
@json_option("Print one JSON object.", RESUBMITTED)
def _resubmit(
    message_ids: tuple[str, ...], *, queue: str, type_: str | None, actor: str | None, reason: str | None, dsn: str | None,
    schema: str, json_: bool,
) -> None:  # fmt: skip
    """Resubmit messages that a queue has set aside as invalid: route them into it by its present definition.

    Resubmits all of them, or those with the given IDs. Use it after the queue or the message type was mended. For
    unrouted messages see `seriatim unrouted --resubmit`.
    """
    with opened(dsn, schema) as box:
        done = message_operations.resubmit(
            box, message_ids or None, message_type=type_, queue=queue, **resubmitting(actor, reason)
        )
    click.echo(as_json(RESUBMITTED.object_of(done)) if json_ else f"{done.routed:,} routed, {done.left:,} left")


def _picked(box: MessageBox, message_ids: tuple[str, ...], chosen: dict[str, Any], *, all_: bool) -> list[SetAside]:

    if all_ is bool(message_ids):
        raise UsageError(
            "name either messages or --all", remedy="give their ids, or --all with options that choose them"
        )
    found = operations.set_aside(box, message_ids=message_ids or None, limit=_ALL, **chosen)
    if missing := set(message_ids) - {one.message_id for one in found}:
        what = f"message {min(missing)!r} is neither unrouted nor set aside in such a status"
        raise UsageError(
            what,
            remedy=f"see {command('messages', 'show', of=min(missing))}; for a dead letter, seriatim dead-letters list",
        )
    return found


def _counts(found: list[SetAside]) -> str:
    return ", ".join(f"{count:,} {one}" for one, count in Counter(one.status for one in found).items())


def _perhaps_more(found: list[SetAside]) -> None:
    if len(found) == _ALL:
        click.echo(f"there may be more than these {_ALL:,}: run the command again", err=True)


def _put_back(one: PutBack | Refused) -> str:

    if isinstance(one, Refused):
        return f"{one.queue}, group {one.group}: refused, {one.why}"
    where = f"{one.message.queue}, group {one.message.group}: {one.message.message_id}"
    if one.place is RequeuePosition.END:
        return f"{where} is back at the end, flagged as late"
    return f"{where} is judged again: {one.status}"


def _would(what: str, found: list[SetAside], *, json_: bool, waiting: Sequence[str] = ()) -> None:
    if json_:
        _DONE.print_object({"dry_run": True, "messages": found, **({"waiting": list(waiting)} if waiting else {})})
        return
    if found or not waiting:
        SET_ASIDE.print(found, limit=_ALL)
    if found:
        click.echo(f"would {what} {counted(len(found), 'message')}")
    if waiting:
        click.echo(f"would move {counted(len(waiting), 'waiting message')} to the dead letters")
