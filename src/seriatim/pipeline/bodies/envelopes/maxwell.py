"""Maxwell: rows (``type``, ``data``, ``old``, ``ts``, ``position``), bootstraps and DDL."""

from __future__ import annotations

from seriatim.pipeline.bodies.envelopes.envelope import (
    Document,
    Envelope,
    Update,
    is_read,
    log_position,
    named,
    seconds_or_millis,
    word,
)
from seriatim.pipeline.bodies.property_values import Unreadable, Value

_OPERATIONS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "bootstrap-insert": "read",
    "bootstrap-start": "marker",
    "bootstrap-complete": "marker",
    "heartbeat": "marker",
}


def _op(change: Document) -> Value:
    said = change.get("type")
    if said is None:
        raise Unreadable("op: there is no type, so this is no change of Maxwell's")
    if isinstance(said, str) and said.startswith(("table-", "database-")):
        return "schema"
    return word("Maxwell", said, _OPERATIONS)


def _position(change: Document) -> Value:
    position = change.get("position")
    return None if position is None else log_position(str(position))


def _updates(change: Document) -> list[Update]:
    row, old = change.get("data"), change.get("old")
    if change.get("type") != "update" or not isinstance(row, dict) or not isinstance(old, dict):
        return []
    bare = {name: value for name, value in change.items() if name != "old"}
    return [Update(change, bare | {"type": "delete", "data": row | old}, bare | {"type": "insert"})]


#: The promoted properties.
MAXWELL = Envelope(
    "Maxwell",
    {
        "op": ("string", _op),
        "snapshot": ("boolean", is_read(_op)),
        "database": ("string", named("database")),
        "table": ("string", named("table")),
        "position": ("long", _position),
        "position_text": ("string", named("position")),
        "transaction": ("string", named("xid", "gtid")),
        "happened_at": ("timestamp", seconds_or_millis("ts")),
    },
    frozenset({"type", "database", "table"}),
    updates=_updates,
    tells_former=True,
    hint='"old"',
)
