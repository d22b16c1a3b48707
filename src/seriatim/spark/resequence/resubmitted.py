"""Messages that an operator puts back: from the commands that carry them to rows of a bucket, and their fates.

Such a message has passed every stage before this one already; the command has its columns, and what the operator computes of
other messages. It is judged by its queue's rules as one that arrives now, but is never late: its place has passed, so it leaves at
once, behind all that has left, and flagged.

The arguments of a command: ``row``, the user's columns by name; ``sequence``, ``size``, ``time``, ``through``, ``epoch``, whole numbers or
null; ``void``, whether it leaves nothing; and for the operator log ``message_id``, ``disposition``, ``edited``.
"""

from __future__ import annotations

import base64
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from seriatim.kernel.groups.policy import BestEffort, Standard
from seriatim.kernel.policies.copies import region_bit
from seriatim.kernel.values.outcome import Disposition
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.control.commands import Command, CommandResult
from seriatim.spark.resequence import bucket as names
from seriatim.spark.resequence.bucket import Became, Plan

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: The arguments of a command that the operator log keeps.
_KEPT = ("message_id", "disposition", "edited")
#: The columns that the operator adds to those of the user, with their types.
_OURS = {
    names.KEY: pa.binary(),
    names.SEQUENCE: pa.int64(),
    names.PROBLEM: pa.int32(),
    names.TIME: pa.int64(),
    names.SIZE: pa.int64(),
    names.TIE: pa.int64(),
    names.THROUGH: pa.int64(),
    names.EPOCH: pa.int64(),
    names.VOID: pa.bool_(),
    names.POSITION: pa.binary(),
}


def as_plain(value: Any) -> Any:
    """Convert a value of a column to JSON's types: times in microseconds, decimals as text, bytes in Base64."""
    match value:
        case datetime():
            aware = value if value.utcoffset() is not None else value.replace(tzinfo=UTC)
            return (aware - _EPOCH) // _MICROSECOND
        case Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {name: as_plain(item) for name, item in value.items()}
        case list() | tuple():
            return [as_plain(item) for item in value]
    return value


def never_late(plan: Plan) -> Plan:

    def of(queue: Queue) -> Queue:
        match queue.policy:
            case Standard() | BestEffort():
                return replace(queue, policy=replace(queue.policy, late="deliver"))
        return queue

    return replace(plan, queues=tuple(of(queue) for queue in plan.queues))


def refusal_of(command: Command, plan: Plan, obeyed: Container[str]) -> CommandResult | None:
    """The answer to a command that isn't obeyed; None: it is."""
    if command.id in obeyed:
        return CommandResult.to(_shortened(command), "repeated", why="the message was put back before")
    if command.queue not in {queue.name for queue in plan.queues}:
        why = f"the pipeline has no destination {command.queue!r}"
        return CommandResult.to(_shortened(command), "refused", why=why)
    return None


def rows_of(commands: Sequence[Command], plan: Plan, schema: pa.Schema) -> pa.Table:
    rows = [command.arguments["row"] for command in commands]
    destinations = [command.queue for command in commands]
    columns: dict[str, pa.Array] = {}
    for field in schema:
        if field.name == plan.destination:
            columns[field.name] = pa.array(destinations, pa.string())
        else:
            columns[field.name] = pa.array([_typed(row.get(field.name), field.type) for row in rows], field.type)
    own: dict[str, list[Any]] = {
        names.KEY: [str(command.key).encode() for command in commands],
        names.PROBLEM: [None] * len(commands),
        # Messages of one number are in the order of the log.
        names.TIE: list(range(len(commands))),
    }
    own |= {
        ours: [command.arguments.get(name) for command in commands]
        for ours, name in (
            (names.SEQUENCE, "sequence"),
            (names.TIME, "time"),
            (names.SIZE, "size"),
            (names.THROUGH, "through"),
            (names.EPOCH, "epoch"),
            (names.VOID, "void"),
        )
    }
    told = [command.arguments.get("position") for command in commands]
    own[names.POSITION] = [None if one is None else base64.b64decode(one) for one in told]
    if plan.region is not None:
        own[names.SIZE] = [region_bit(row.get(plan.region)) for row in rows]
    columns |= {name: pa.array(own[name], kind) for name, kind in _OURS.items()}
    return pa.table(columns)


def answer_to(command: Command, became: Became) -> CommandResult:
    released = int(became.disposition == Disposition.RELEASED.word)
    aside = became.disposition not in (Disposition.RELEASED.word, Disposition.HELD.word)
    return CommandResult.to(
        _shortened(command),
        "done",
        after=became.disposition,
        why=became.reason or "",
        released=released,
        set_aside=int(aside),
    )


def _shortened(command: Command) -> Command:
    kept = {name: command.arguments[name] for name in _KEPT if name in command.arguments}
    return replace(command, arguments=kept)


def _typed(value: Any, kind: pa.DataType) -> Any:
    """The value of a column's type that `as_plain` wrote."""
    if value is None:
        return None
    found = value
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        found = base64.b64decode(value)
    elif pa.types.is_decimal(kind):
        found = Decimal(value)
    elif pa.types.is_timestamp(kind):
        moment = _EPOCH + timedelta(microseconds=value)
        found = moment if kind.tz else moment.replace(tzinfo=None)
    elif pa.types.is_struct(kind):
        found = {field.name: _typed(value.get(field.name), field.type) for field in kind}
    elif pa.types.is_list(kind):
        found = [_typed(item, kind.value_type) for item in value]
    return found
