"""``seriatim publish``: publish a message, or one for each line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from os.path import isfile
from typing import IO, Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.option import flag, option, repeated
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.errors import SeriatimError, UsageError, shown
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.declared.box_settings import UNROUTED
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.message import Message

#: Lines of one transaction.
_PORTION = 1_000
_KEYS = ("type", "body", "context", "message_id", "content_type")


@dataclass(frozen=True, slots=True)
class PublishedMessage:
    """A message of the command, and what became of it.

    Args:
        message_id: its id.
        queues: the queues that it goes to; empty if it is unrouted, or invalid in each of them.
        left_out: whether it was left out: its id was published before, or another message waits in its place.
        waiting: the id of the message that waits in its place, because it has the same ``unique_key``.
        invalid: the reason why it is invalid, by the name of the queue that sets it aside; empty if it is valid.
    """

    message_id: str
    queues: tuple[str, ...]
    left_out: bool
    waiting: str | None
    invalid: Mapping[str, str] = field(default_factory=dict)


def _became(one: PublishedMessage) -> str:
    if one.waiting is not None:
        return f"not published: {one.waiting} waits with its unique key"
    if one.left_out:
        return "not published: its id was published before"
    wrong = "; ".join(f"invalid in queue {queue}: {why}" for queue, why in one.invalid.items())
    if one.queues:
        return f"published; {wrong}" if wrong else "published"
    return wrong or "unrouted"


PUBLISHED: Table[PublishedMessage] = Table(
    "A message that was published",
    Column("message_id", "message"),
    Column("queues", shown=lambda one: one.queues or None),
    Column("left_out", None),
    Column("waiting", "result", shown=_became),
    row=PublishedMessage,
    nothing="there were no messages",
)


@dataclass(frozen=True, slots=True)
class _Given:
    """What the options say of every message."""

    type: str | None
    content_type: str | None
    context: Mapping[str, str]

    def message(self, told: Mapping[str, Any]) -> Message:
        """A message of these options and of what a line tells, which goes first."""
        if unknown := [key for key in told if key not in _KEYS]:
            raise UsageError(f"unknown key {unknown[0]!r}", remedy=likely(unknown[0], _KEYS))
        kind, context = told.get("type", self.type), told.get("context", {})
        if kind is None:
            raise UsageError("the type is missing", remedy="give it as --type, or as the key type")
        if not isinstance(context, Mapping):
            raise UsageError(f"context can't be {shown(context, 80)}", remedy="an object: properties by their names")
        fields = {key: told[key] for key in ("message_id",) if told.get(key) is not None}
        return Message(
            type=kind,
            body=_body(told.get("body", "")),
            context={**self.context, **context},
            content_type=told.get("content_type", self.content_type),
            **fields,
        )


@click.command()
@click.argument("body", required=False)
@which_box
@option("--type", "type_", "The type of the message.", metavar="TYPE")
@option("--queue", "The queue that gets the message, whatever the subscriptions say.")
@option("--group", "The key of the message's group in the queue; needs --queue.")
@repeated("--property", "properties", "A property.", metavar="NAME=VALUE")
@option("--message-id", "The id of the message (default: a new one).")
@option("--content-type", "The media type of the body.")
@option("--visible-at", "Hand it out after a time such as 10m, or from a moment in ISO 8601 on.", metavar="WHEN")
@option("--unique", "Publish nothing if a message with this key waits in the queue.", metavar="KEY")
@option(
    "--unrouted",
    "What to do with a message that reaches no queue (default: what the box says).",
    type=click.Choice(UNROUTED),
)
@flag("--strict", "Exit with 1 if a message reaches no queue, or is invalid in one.")
@json_option("Print a JSON list.", PUBLISHED)
def publish(
    body: str | None, *, dsn: str | None, schema: str, type_: str | None, queue: str | None, group: str | None,
    properties: tuple[str, ...], message_id: str | None, content_type: str | None, visible_at: str | None,
    unique: str | None, unrouted: Any, strict: bool, json_: bool,
) -> None:  # fmt: skip
    """Publish a message with the content BODY, and print the queues that it goes to.

    Without BODY, reads messages from standard input: JSON objects, one a line, with type, body, context, message_id and
    content_type; the options are what a line doesn't say. A thousand lines are published together, all or none.
    """
    context = _properties(properties)
    told: dict[str, Any] = {"body": body, "message_id": message_id}
    if body is None:
        if message_id is not None or unique is not None:
            raise UsageError(
                "--message-id and --unique are for one message, and lines have their own",
                remedy="give BODY; or in each line message_id, and unique_key in its context",
            )
        if sys.stdin.isatty():
            raise UsageError("there is no message", remedy="give BODY, or lines of JSON at standard input")
    when = _when(visible_at)
    with opened(dsn, schema) as box:
        given = _Given(type_, content_type, context | _addressed(box, queue, group))
        found: list[PublishedMessage] = []
        try:
            for portion in _portions(given, told):
                done = box.publish(portion, unique=unique, unrouted=unrouted, **when)
                left_out = set(done.left_out)
                found += [
                    PublishedMessage(
                        one, done.queues[one], one in left_out, done.waiting.get(one), done.invalid.get(one, {})
                    )
                    for one in (message.message_id for message in portion)
                ]
        except SeriatimError:
            if body is not None and isfile(body):  # noqa: PTH113 -- Path.is_file raises for a long text
                click.echo(f'the body is this text; to publish the content of the file, give "$(cat {body})"', err=True)
            if found:
                click.echo(f"published before it: {counted(len(found), 'message')}", err=True)
            raise
    print_rows(PUBLISHED, found, json_=json_)
    if strict and any(one.invalid or not (one.queues or one.left_out) for one in found):
        sys.exit(1)


def _portions(given: _Given, told: Mapping[str, Any]) -> Iterator[list[Message]]:
    if told["body"] is not None:
        yield [given.message(told)]
        return
    lines = _lines(sys.stdin.buffer, given)
    while portion := list(islice(lines, _PORTION)):
        yield portion


def _lines(file: IO[bytes], given: _Given) -> Iterator[Message]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            yield given.message(_object(line))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"this is not JSON: {error}", where=f"line {number:,}") from None
        except UsageError as error:
            raise UsageError(error.what, where=f"line {number:,}", remedy=error.remedy) from None


def _object(line: bytes) -> dict[str, Any]:
    told = json.loads(line)
    if not isinstance(told, dict):
        raise UsageError("this is no object", remedy='such as {"type": "order", "body": "…"}')
    return told


def _body(told: object) -> bytes:
    """Text as it is, and any other value as JSON."""
    return (told if isinstance(told, str) else json.dumps(told, ensure_ascii=False)).encode()


def _properties(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise UsageError(f"{shown(one, 80)} is not a property", remedy="NAME=VALUE")
        if found.setdefault(name, value) != value:
            raise UsageError(f"the property {name!r} is given twice", remedy="give it once")
    return found


def _addressed(box: MessageBox, queue: str | None, group: str | None) -> dict[str, str]:
    """The properties that address messages to a queue, and to a group in it."""
    if queue is None:
        if group is not None:
            raise UsageError("--group is the key of a group in a queue", remedy="give --queue, or the property itself")
        return {}
    declared = box.definitions().queue(queue).declared
    if group is None:
        return {"to": queue}
    if declared.group.by is None:
        raise UsageError("the queue has no groups", where=f"queue {queue!r}", remedy="leave --group out")
    return {"to": queue, declared.group.by: group}


def _when(given: str | None) -> dict[str, Any]:
    """The argument of `publish` that says when messages are handed out."""
    if given is None:
        return {}
    try:
        return {"visible_at": datetime.fromisoformat(given)}
    except ValueError:
        pass
    try:
        return {"delay": seconds(micros(given))}
    except UsageError:
        raise UsageError(
            f"--visible-at can't be {shown(given, 80)}",
            remedy="a time such as 10m, or a moment such as 2026-11-30T06:00Z",
        ) from None
