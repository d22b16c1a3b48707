"""Messages that an operator puts back: from the commands that carry them to rows of a bucket, and their fates.

Such a message has passed every stage before this one already; the command has its columns, and what the operator computes of
other messages. It is judged by its queue's rules as one that arrives now, but is never late: its place has passed, so it leaves at
once, behind all that has left, and flagged.

The arguments of a command: ``row``, the user's columns by name; ``sequence``, ``size``, ``time``, ``through``, ``epoch``, whole numbers or
null; ``void``, whether it leaves nothing; ``position``, bytes; for the operator log ``message_id``, ``disposition``, ``edited``; and of the
declaration by which it was written ``types``, of the properties in the row, and ``order``, see `order_of`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Container, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from seriatim.errors import ActionRefused, UsageError, shown
from seriatim.kernel.groups.policy import BestEffort, Standard
from seriatim.kernel.policies.copies import region_bit
from seriatim.kernel.values.outcome import Disposition
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.control.commands import Command, CommandResult
from seriatim.spark.frames.property_types import declared_type
from seriatim.spark.resequence import bucket as names
from seriatim.spark.resequence.bucket import Became, Plan
from seriatim.spark.resequence.commands import UNFIT, unfit

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: The arguments of a command that the operator log keeps.
_KEPT = ("message_id", "disposition", "edited")
#: The operator's columns that are arguments of a command, with their types and names there.
_TOLD = {
    names.SEQUENCE: "sequence",
    names.TIME: "time",
    names.SIZE: "size",
    names.THROUGH: "through",
    names.EPOCH: "epoch",
    names.VOID: "void",
    names.POSITION: "position",
}
_OURS = dict.fromkeys(_TOLD, pa.int64()) | {names.VOID: pa.bool_(), names.POSITION: pa.binary()}
_REPEAT = "once the pipeline runs by its present file, put the message back again"


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
    """The plan for messages that are put back: a late one leaves, unless a journal counts by numbers what has left."""
    if plan.claims:
        return plan

    def of(queue: Queue) -> Queue:
        match queue.policy:
            case Standard() | BestEffort():
                return replace(queue, policy=replace(queue.policy, late="deliver"))
        return queue

    return replace(plan, queues=tuple(of(queue) for queue in plan.queues))


def order_of(queue: Queue, identity: Mapping[str, Any]) -> dict[str, Any]:
    """By what a queue orders, for a command and the run that obeys it; `identity`: see `seriatim.spark.state.manifest`."""
    return {**identity, "sequence": queue.numbered_by}


def row_of(
    command: Command, plan: Plan, schema: pa.Schema, *, obeyed: Container[str], place: int
) -> pa.Table | CommandResult:
    """The row of a command, or the answer to one that isn't obeyed; `place`: its place among the rows of a call."""
    if command.id in obeyed:
        return CommandResult.to(_shortened(command), "repeated", why="the message was put back before")
    queue = next((queue for queue in plan.queues if queue.name == command.queue), None)
    try:
        if queue is None:
            raise ActionRefused(f"the pipeline has no destination {command.queue!r}")
        _check_declared(command, queue, plan, schema)
        return _row(command, place, plan, schema)
    except UsageError as refused:
        return CommandResult.to(_shortened(command), "refused", why=refused.what, remedy=refused.remedy or "")
    except UNFIT as error:
        return unfit(_shortened(command), error)


def _check_declared(command: Command, queue: Queue, plan: Plan, schema: pa.Schema) -> None:
    """Compare the declaration by which a message goes back with that of the run, which would change values of another type, and misread
    numbers of another order.
    """
    order = command.arguments.get("order")
    if order is not None and order != order_of(queue, json.loads(plan.fingerprint)["queues"][queue.name]):
        raise ActionRefused(
            f"the run orders destination {queue.name!r} otherwise than the pipeline file", remedy=_REPEAT
        )
    for name, kind in command.arguments.get("types", {}).items():
        if name not in schema.names:
            raise ActionRefused(f"property {name} is a {kind}, and the run has none of that name", remedy=_REPEAT)
        if (own := declared_type(schema.field(name).type)) != kind:
            raise ActionRefused(f"property {name} is a {kind}, and in the run a {own}", remedy=_REPEAT)


def _row(command: Command, place: int, plan: Plan, schema: pa.Schema) -> pa.Table:
    row = command.arguments["row"]
    told = {column: command.arguments.get(name) for column, name in _TOLD.items()}
    if plan.region is not None:
        told[names.SIZE] = region_bit(row.get(plan.region))
    columns = {field.name: _column(field.name, row.get(field.name), field.type) for field in schema}
    if plan.destination is not None:
        columns[plan.destination] = pa.array([command.queue], pa.string())
    columns |= {column: _column(_TOLD[column], value, _OURS[column]) for column, value in told.items()}
    columns[names.KEY] = pa.array([str(command.key).encode()], pa.binary())
    columns[names.PROBLEM] = pa.nulls(1, pa.int32())
    # Messages of one number are in the order of the log.
    columns[names.TIE] = pa.array([place], pa.int64())
    return pa.table(columns)


def _column(name: str, value: Any, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([_typed(value, kind)], kind)
    except UNFIT:
        raise ActionRefused(f"{name}: {shown(value)} is no {declared_type(kind)}", remedy=_REPEAT) from None


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
