"""wal2json: the messages of ``format-version`` 2 (``action``, ``columns``, ``identity``), one for each change."""

from __future__ import annotations

import re

from seriatim.pipeline.bodies.envelopes.envelope import Document, Envelope, Update, named, word
from seriatim.pipeline.bodies.property_values import Unreadable, Value

_OPERATIONS = {
    "I": "insert",
    "U": "update",
    "D": "delete",
    "T": "truncate",
    "M": "message",
    "B": "marker",
    "C": "marker",
}
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)


def _op(change: Document) -> Value:
    said = change.get("action")
    if said is None:
        raise Unreadable("op: there is no action, so this is no change of wal2json's format-version 2")
    return word("wal2json", said, _OPERATIONS)


def _position(change: Document) -> Value:
    place = _LSN.fullmatch(str(change.get("lsn")))
    # A number above 63 bits is no long.
    number = None if place is None else (int(place[1], 16) << 32) | int(place[2], 16)
    return number if number is not None and number < 2**63 else None


def _updates(change: Document) -> list[Update]:
    if change.get("action") != "U" or not isinstance(change.get("identity"), list):
        return []
    delete = {name: value for name, value in change.items() if name != "columns"}
    insert = {name: value for name, value in change.items() if name != "identity"}
    return [Update(change, delete | {"action": "D"}, insert | {"action": "I"})]


#: The promoted properties.
WAL2JSON = Envelope(
    "wal2json",
    {
        "op": ("string", _op),
        "snapshot": ("boolean", lambda _: False),
        "schema": ("string", named("schema")),
        "table": ("string", named("table")),
        "position": ("long", _position),
        "position_text": ("string", named("lsn")),
        "transaction": ("string", named("xid")),
        "happened_at": ("timestamp", named("timestamp")),
    },
    frozenset({"action"}),
    updates=_updates,
    hint='"U"',
)
