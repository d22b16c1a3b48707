"""Canal: the flat message (``type``, ``data``, ``old``, ``es``, ``isDdl``), also the message of TiCDC (``_tidb``)."""

from __future__ import annotations

from seriatim.pipeline.bodies.envelopes.envelope import (
    Document,
    Envelope,
    Update,
    first,
    is_read,
    named,
    seconds_or_millis,
    whole,
    word,
)
from seriatim.pipeline.bodies.property_values import Unreadable, Value

_OPERATIONS = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "INIT": "read",
    "TRUNCATE": "truncate",
    "MHEARTBEAT": "marker",
    "TIDB_WATERMARK": "marker",
}


def _op(change: Document) -> Value:
    said = change.get("type")
    if said is None:
        raise Unreadable("op: there is no type, so this is no change of Canal's")
    found = _OPERATIONS.get(said.upper()) if isinstance(said, str) else None
    if found is None and change.get("isDdl") is True:
        return "schema"
    return found or word("Canal", said, {})


def _position(change: Document) -> Value:
    """Return the position: TiCDC's commit time. Canal's own ``id`` begins again when its server starts, so it is no position."""
    tidb = change.get("_tidb")
    return whole(tidb.get("commitTs")) if isinstance(tidb, dict) else None


def _updates(change: Document) -> list[Update]:
    said, rows, before = change.get("type"), change.get("data"), change.get("old")
    if not isinstance(said, str) or said.upper() != "UPDATE":
        return []
    if not isinstance(rows, list) or not isinstance(before, list):
        return []
    if len(rows) != len(before) or not all(isinstance(row, dict) for row in rows):
        return []
    return [
        Update(
            {**change, "data": [row], "old": [old]},
            {**change, "type": "DELETE", "data": [row | old if isinstance(old, dict) else row], "old": None},
            {**change, "type": "INSERT", "data": [row], "old": None},
        )
        for row, old in zip(rows, before, strict=True)
    ]


#: The promoted properties.
CANAL = Envelope(
    "Canal",
    {
        "op": ("string", _op),
        "snapshot": ("boolean", is_read(_op)),
        "database": ("string", named("database")),
        "table": ("string", lambda change: first(change, "table") or None),
        "position": ("long", _position),
        "position_text": ("string", named("gtid", "id")),
        "transaction": ("string", named("gtid")),
        "happened_at": ("timestamp", seconds_or_millis("es")),
    },
    frozenset({"type", "database", "isDdl"}),
    rows="data",
    updates=_updates,
    tells_former=True,
    hint='"old"',
)
