"""Messages: in a queue, one with its body, those that were set aside."""

from __future__ import annotations

from seriatim.box.operators.set_aside import PutBack, SetAside
from seriatim.box.views.message_places import Placed, Stored
from seriatim.operations.tables.table import Column, Table, columns, json_only, text_only
from seriatim.pipeline.types.message import Part


def ticket_text(location: str, epoch: int, number: int) -> str:
    return f"{location}/{epoch}/{number}"


MESSAGES: Table[Placed] = Table(
    "A message in a queue",
    Column("message_id", "message"),
    Column("type"),
    text_only(
        "ticket", lambda one: ticket_text(one.location, one.epoch, one.number), "its `location`, `epoch` and `number`"
    ),
    *columns("queue", "group"),
    Column("status", shown=lambda one: "waits" if one.waits else one.status, meaning="as `--status` takes it"),
    Column("reason", shown=lambda one: one.reason or one.postponement or one.error, after="parts"),
    Column("sequence"),
    Column("parts", shown=lambda one: one.parts or None),
    row=Placed,
)
_PART: Table[Part] = Table("A part of a message", row=Part)
MESSAGE: Table[Stored] = Table(
    "A message",
    Column("message_id", None, meaning="its id"),
    Column("type", None, meaning="its type"),
    Column(
        "ticket",
        None,
        value=lambda one: one.ticket._asdict(),
        kind="Mapping[str, Any]",
        meaning="its `location`, `epoch` and `number`",
    ),
    Column("content_type", None, meaning="the media type of its body"),
    Column("context", None, value=lambda one: dict(one.context), meaning="its properties, by name"),
    Column("body", None, kind="str", meaning="text if it is UTF-8, else hexadecimal digits"),
    Column("received_at", None, meaning="when it was published"),
    Column("parts", None, rows=_PART, meaning="its parts"),
    Column("id_space", None, meaning="the id space of its publisher's role; empty: the owner's"),
    Column("places", None, rows=MESSAGES, meaning="the queues that have it"),
    row=Stored,
)
SET_ASIDE: Table[SetAside] = Table(
    "A message that was set aside",
    Column("message_id", "message"),
    *columns("type", "queue", "group"),
    Column("status", meaning="`late`, `duplicate`, `invalid`, `rejected` or `unrouted`"),
    *columns("sequence", "reason"),
    Column("since", after="status"),
    row=SetAside,
)
PUT_BACK: Table[PutBack] = Table(
    "A message that was put back",
    Column("message", None, rows=SET_ASIDE),
    *json_only(place="`end`, or `arrival`: it is judged as if it came now"),
    row=PutBack,
)
