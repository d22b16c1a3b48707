"""``seriatim messages``: list and show messages; requeue, resubmit or delete those that were set aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import IO, Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.operators.resubmit import Resubmitted
from seriatim.box.views.message_places import Placed
from seriatim.cli.commands.edits import EDITED, retry_file
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command, options_of
from seriatim.cli.options.many import Many, many
from seriatim.cli.options.option import flag, option, together
from seriatim.cli.options.which import acts_on_box, in_id_space, on_box, opened, which_box
from seriatim.cli.options.why import Why, confirmed, may_say_why, no_if_refused
from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.table import Column, Table, json_option, print_object, print_row, print_rows, tell
from seriatim.errors import UsageError
from seriatim.operations import edits
from seriatim.operations import messages as message_operations
from seriatim.operations import set_aside as operations
from seriatim.operations.set_aside import PutBack, Refused, RequeuePosition, SetAside
from seriatim.operations.tables.acted import OPERATION, REFUSED
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.messages import MESSAGE, MESSAGES, PUT_BACK, SET_ASIDE, ticket_text
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.plain import in_lines

_DONE: Table[dict[str, object]] = Table(
    "The result for messages that were set aside",
    Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
    Column("requeued", None, rows=(PUT_BACK, REFUSED), optional=True, meaning="each message, or a group that refused"),
    Column("deleted", None, kind="int", optional=True, meaning="how many were deleted"),
    Column("retried", None, rows=(OPERATION, REFUSED), optional=True, meaning="each message, or why it was refused"),
    Column("faulted", None, rows=MESSAGES, optional=True, meaning="of a dry run of `retry`: the messages"),
    Column("dead", None, kind="int", optional=True, meaning="how many waiting messages were moved to the dead letters"),
    Column("waiting", None, kind="list[str]", optional=True, meaning="of a dry run: the ids of waiting messages"),
    Column("messages", None, rows=SET_ASIDE, optional=True, meaning="of a dry run: the messages"),
)
RESUBMITTED: Table[Resubmitted] = Table("Resubmitted messages", row=Resubmitted)

#: The number of exported messages after which a line tells the progress.
_TOLD_EVERY = 10_000
#: What `requeue` takes; without being told it leaves duplicates alone: what they are copies of was handed out.
_REQUEUED = ("late", "duplicate", "rejected")
_USUAL = ("late", "rejected")
#: People are shown at most this many bytes of a body.
_SHOWN = 2_000

messages = Commands("messages")
messages.add_command(
    list_command(
        "list", message_operations.messages, MESSAGES, by=("error", message_operations.messages_by_error, ERRORS)
    )
)


@messages.command("export")
@options_of(edits.export)
@option(
    "--output",
    "Write to this file (default: standard output).",
    type=click.File("wb", lazy=False),
    default="-",
    show_default=False,
)
@on_box
def _export(box: MessageBox, *, output: IO[bytes], **chosen: Any) -> None:
    """Export messages with their bodies and properties as lines of JSON, oldest first: to edit them, or to look at them.

    Each line is a message as it is handed out next. The body is text in the field body if it is UTF-8, else body_base64.
    Edit body and properties, and give the file to `seriatim group retry --edits`.
    """
    written = 0
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
@json_option("Print one JSON object, with the whole body and all parts.", MESSAGE)
def _show(message_id: str, *, id_space: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """Show the message ID: its properties, body and parts, and the queues that have it.

    JSON has bytes that are not UTF-8 as hexadecimal digits.
    """
    with opened(dsn, schema) as box:
        message, places = message_operations.message(box, message_id, id_space=id_space)
    if json_:
        print_object(MESSAGE, message, places=places)
        return
    ticket = ticket_text(*message.ticket)
    tell(f"{message.message_id}: {message.type}, {ticket}, {message.received_at.isoformat()}")
    for name, value in message.context.items():
        tell(f"  {name}: {json.dumps(value, ensure_ascii=False, default=str)}")
    for one in places:
        where = "unrouted" if one.queue is None else f"{one.queue}, group {one.group}: {one.status}"
        tell(f"{where}{f' ({one.reason})' if one.reason else ''}")
    if not places:
        click.echo("no queue has it any more")
    shown = message.body[:_SHOWN].decode(errors="backslashreplace")
    more = f"… of {len(message.body):,} bytes" if len(message.body) > _SHOWN else ""
    click.echo(f"{in_lines(shown)}{more}")
    for part in message.parts:
        tell(f"part {part.name}: {part.content_type or 'no content type'}, {counted(len(part.body), 'byte')}")


@messages.command("delete")
@many("messages", options_of(operations.set_aside, without=("limit",)), yes="Don't ask for confirmation.")
@acts_on_box(_DONE, told="Print JSON.")
def delete(box: MessageBox, chosen: Many, *, why: Why, json_: bool) -> None:
    """Delete messages that were set aside (late, duplicate, invalid, rejected) or are unrouted; take waiting ones out.

    Give their IDs, or --all. The next clean-up deletes the bodies, unless another queue refers to them. A message that
    waits in the queue that --queue names is moved to its dead letters; the others of its group stay in order. For dead
    letters see `seriatim dead-letters delete`.
    """
    queue = chosen.filters["queue"]
    looks = queue is not None and not chosen.all_
    waiting = message_operations.waiting(box, chosen.names, queue=queue) if looks else []
    others = tuple(one for one in chosen.names if one not in waiting)
    found = _picked(box, others, chosen.filters) if others or not waiting else []
    if chosen.is_only_shown([*found, *waiting], json_=json_):
        _would("delete", found, json_=json_, waiting=waiting)
        return
    does = [f"delete {counted(len(found), 'message')} for good ({_counts(found)})"] if found or not waiting else []
    does += [f"move {counted(len(waiting), 'waiting message')} to the dead letters"] if waiting else []
    confirmed(f"{' and '.join(does)}?", yes=chosen.yes or not (found or waiting))
    who = why() if found or waiting else {}
    taken = message_operations.take_out(box, waiting, queue=queue, **who) if waiting else []
    done = operations.delete(box, found, **who) if found else 0
    told = [f"deleted {counted(done, 'message')}"] if found or not waiting else []
    told += [f"moved {counted(len(taken), 'waiting message')} to the dead letters"] if waiting else []
    result: dict[str, object] = {"dry_run": False, "deleted": done, **({"dead": len(taken)} if waiting else {})}
    print_row(_DONE, result, *told, json_=json_)


@messages.command("requeue")
@many(
    "messages",
    together(
        options_of(operations.set_aside, without=("limit", "status")),
        option(
            "--status",
            "Only messages in this status; may be repeated (default: late and rejected).",
            multiple=True,
            type=click.Choice(_REQUEUED),
            default=_USUAL,
            show_default=False,
        ),
    ),
)
@acts_on_box(_DONE, told="Print JSON.")
def requeue(box: MessageBox, chosen: Many, *, why: Why, json_: bool) -> None:
    """Requeue messages that were set aside as late, rejected or duplicate.

    Give their IDs, or --all. A message that its group has passed goes to the end, flagged as late; any other is judged
    as if it came now. Duplicates are requeued only with --status duplicate.
    """
    found = _picked(box, chosen.names, chosen.filters)
    if chosen.is_only_shown(found, json_=json_):
        _would("requeue", found, json_=json_)
        return
    if chosen.all_ and found:
        confirmed(f"requeue {counted(len(found), 'message')} ({_counts(found)})?", yes=chosen.yes)
    requeued = operations.requeue_each(box, found, **why()) if found else ()
    done = list(shown_progress(requeued, len(found), "requeue", quiet=json_))
    print_row(_DONE, {"dry_run": False, "requeued": done}, *map(_put_back, done), json_=json_)
    no_if_refused(done)


@messages.command("retry")
@click.argument("message_ids", metavar="[ID…]", nargs=-1)
@flag("--all", "all_", "All faulted messages that match the options.")
@option("--queue", "The queue of the messages; required with IDs.")
@options_of(message_operations.messages, without=("queue", "status", "limit"))
@option("--edit", "body", "Retry with the content of this file as the message's body.", type=click.File("rb"))
@option(
    "--edits",
    "Retry each message of this file, a line for each, with its body and properties there; - is standard input.",
    type=click.File("rb"),
)
@flag("--dry-run", "With --all or --edits: change nothing; list what would be done.")
@flag("--yes", "With --all: don't ask for confirmation.")
@acts_on_box(_DONE, EDITED, told="Print JSON.")
def retry(
    box: MessageBox, message_ids: tuple[str, ...], *, all_: bool, queue: str | None, body: IO[bytes] | None, edits: IO[bytes] | None,
    dry_run: bool, yes: bool, why: Why, json_: bool, **chosen: Any,
) -> None:  # fmt: skip
    """Retry messages that are faulted, or in unordered queues are postponed or wait for their next attempt.

    Give their IDs with --queue, or --all, or --edits FILE. In a queue with groups a message stops its group, which --all
    retries; one alone by `seriatim group retry`. To mend many messages, write them with `seriatim messages export --status
    faulted`, edit the file, and give it with --edits. To give a message up, see `seriatim messages delete`.
    """
    _check_retry(message_ids, all_, edits, queue, body, chosen)
    if edits is not None:
        retry_file(box, edits, queue, why, dry_run=dry_run, json_=json_)
        return
    done: list[Any]
    if not all_:
        new = None if body is None else body.read()
        done = list(message_operations.retry(box, message_ids, queue=str(queue), body=new, **why()))
    else:
        found = message_operations.messages(box, queue=queue, status="faulted", limit=Many.most, **chosen)
        Many.note_more(found)
        if dry_run:
            _would_retry(found, json_=json_)
            return
        if found:
            confirmed(f"retry {counted(len(found), 'message')}?", yes=yes)
        retried = message_operations.retry_each(box, found, **why()) if found else ()
        done = list(shown_progress(retried, len(found), "retry", quiet=json_))
    refused = [one for one in done if hasattr(one, "why")]
    told = [f"{one.queue}, group {one.group}: not retried, {one.why}" for one in refused]
    told.append(f"retried {counted(len(done) - len(refused), 'message')}")
    print_row(_DONE, {"dry_run": False, "retried": done}, *told, json_=json_)
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
    if json_:
        print_object(_DONE, {"dry_run": True, "faulted": found})
        return
    print_rows(MESSAGES, found)
    click.echo(f"retry would be done to {counted(len(found), 'message')}")


@messages.command("resubmit")
@click.argument("message_ids", metavar="[ID…]", nargs=-1)
@option("--queue", "The queue that set the messages aside as invalid.", required=True)
@option("--type", "type_", "Only messages of this type.")
@may_say_why
@on_box
@json_option("Print one JSON object.", RESUBMITTED)
def resubmit(
    box: MessageBox, message_ids: tuple[str, ...], *, queue: str, type_: str | None, why: Why, json_: bool
) -> None:
    """Resubmit messages that a queue has set aside as invalid: route them into it by its present definition.

    Resubmits all of them, or those with the given IDs. Use it after the queue or the message type was mended. For
    unrouted messages see `seriatim unrouted --resubmit`.
    """
    done = message_operations.resubmit(box, message_ids or None, message_type=type_, queue=queue, **why())
    print_row(RESUBMITTED, done, f"{done.routed:,} routed, {done.left:,} left", json_=json_)


def _picked(box: MessageBox, message_ids: tuple[str, ...], chosen: dict[str, Any]) -> list[SetAside]:
    found = operations.set_aside(box, message_ids=message_ids or None, limit=Many.most, **chosen)
    if missing := set(message_ids) - {one.message_id for one in found}:
        what = f"message {min(missing)!r} is neither unrouted nor set aside in such a status"
        raise UsageError(
            what,
            remedy=f"see {command('messages', 'show', of=min(missing))}; for a dead letter, seriatim dead-letters list",
        )
    Many.note_more(found)
    return found


def _counts(found: list[SetAside]) -> str:
    return ", ".join(f"{count:,} {one}" for one, count in Counter(one.status for one in found).items())


def _put_back(one: PutBack | Refused) -> str:
    if isinstance(one, Refused):
        return f"{one.queue}, group {one.group}: refused, {one.why}"
    where = f"{one.message.queue}, group {one.message.group}: {one.message.message_id}"
    if one.place is RequeuePosition.END:
        return f"{where} is back at the end, flagged as late"
    return f"{where} is judged again: {one.status}"


def _would(what: str, found: list[SetAside], *, json_: bool, waiting: Sequence[str] = ()) -> None:
    if json_:
        print_object(_DONE, {"dry_run": True, "messages": found, **({"waiting": list(waiting)} if waiting else {})})
        return
    if found or not waiting:
        print_rows(SET_ASIDE, found)
    if found:
        click.echo(f"would {what} {counted(len(found), 'message')}")
    if waiting:
        click.echo(f"would move {counted(len(waiting), 'waiting message')} to the dead letters")
