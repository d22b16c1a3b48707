"""Debezium: the envelope of change events (``op``, ``before``, ``after``, ``source``), schema changes, transactions and heartbeats."""

from __future__ import annotations

from seriatim.pipeline.bodies.envelopes.envelope import (
    Document,
    Envelope,
    Read,
    Update,
    first,
    log_position,
    moment,
    packed,
    whole,
    word,
)
from seriatim.pipeline.bodies.property_values import Unreadable, Value

#: The letters of operations, with their words.
OPERATIONS = {"c": "insert", "u": "update", "d": "delete", "r": "read", "t": "truncate", "m": "message"}


def _op(change: Document) -> Value:
    op = change.get("op")
    if op is not None:
        return word("Debezium", op, OPERATIONS)
    if "ddl" in change or "tableChanges" in change:
        return "schema"
    if change.get("status") in ("BEGIN", "END") or (change and change.keys() <= {"ts_ms", "ts_us", "ts_ns"}):
        return "marker"
    raise Unreadable("op: there is none, so this is no change of Debezium's")


def _snapshot(change: Document) -> Value:
    """Return whether it is a snapshot: since 1.x the source has ``true``, ``first``, ``last``, ``incremental`` …, before a boolean."""
    said = _source(change).get("snapshot")
    return change.get("op") == "r" or (said is not None and str(said).lower() != "false")


def _position(change: Document) -> Value:
    """Return a number that grows with the log of the database, if the database has one of 64 bits."""
    source = _source(change)
    if (lsn := source.get("lsn")) is not None:
        return whole(lsn)
    if source.get("file") is not None and source.get("pos") is not None:
        return log_position(f"{source['file']}:{source['pos']}")
    if (scn := source.get("scn")) is not None:
        return whole(scn)
    if source.get("ord") is not None and isinstance(seconds := source.get("ts_ms"), int):
        order = whole(source["ord"])
        return None if order is None else packed(seconds // 1000, order)
    return None


def _position_text(change: Document) -> Value:
    source = _source(change)
    if source.get("file") is not None and source.get("pos") is not None:
        return f"{source['file']}:{source['pos']}"
    if source.get("ord") is not None:
        return f"{source.get('ts_ms')}:{source['ord']}"
    return first(source, "change_lsn", "commit_lsn", "lsn", "scn")


def _transaction(change: Document) -> Value:
    told = change.get("transaction")
    if isinstance(told, dict) and told.get("id") is not None:
        return told["id"]
    return change["id"] if change.get("status") in ("BEGIN", "END") else first(_source(change), "txId", "gtid")


def _moment(change: Document) -> Value:
    source = _source(change)
    if (micros := source.get("ts_us")) is not None:
        return moment(micros, 1)
    millis = source.get("ts_ms")
    return moment(change.get("ts_ms") if millis is None else millis, 1_000)


def _of_source(*names: str) -> Read:
    """Return a reader of the source's value under one of several names; in schema changes it stands beside the source."""
    return lambda change: first(_source(change), names[0]) or first(change, *names[1:])


def _source(change: Document) -> Document:
    source = change.get("source")
    return source if isinstance(source, dict) else {}


def _updates(change: Document) -> list[Update]:
    before, after = change.get("before"), change.get("after")
    if change.get("op") != "u" or not isinstance(before, dict) or not isinstance(after, dict):
        return []
    return [Update(change, {**change, "op": "d", "after": None}, {**change, "op": "c", "before": None})]


#: The promoted properties.
DEBEZIUM = Envelope(
    "Debezium",
    {
        "op": ("string", _op),
        "snapshot": ("boolean", _snapshot),
        "database": ("string", _of_source("db", "databaseName")),
        "schema": ("string", _of_source("schema", "schemaName")),
        "table": ("string", lambda change: first(_source(change), "table", "collection")),
        "position": ("long", _position),
        "position_text": ("string", _position_text),
        "transaction": ("string", _transaction),
        "happened_at": ("timestamp", _moment),
    },
    frozenset({"op", "source", "ddl", "status"}),
    updates=_updates,
    hint='"u"',
)
