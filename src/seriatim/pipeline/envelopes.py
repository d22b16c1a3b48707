"""Envelopes: the forms in which change logs and event buses tell what happened, and what seriatim promotes from them.

Owns what the fields of Debezium, Canal, Maxwell and CloudEvents (all as JSON) mean, in one set of words, so that a filter
reads alike whoever captured the change. The documents are those that these projects describe in their references:

* Debezium: the envelope of change events (``op``, ``before``, ``after``, ``source``), with or without the ``schema`` and
  ``payload`` of Kafka Connect's converter; its schema changes, transaction markers and heartbeats.
* Canal: the flat message (``type``, ``data``, ``old``, ``es``, ``isDdl``), also that of TiCDC (``_tidb``).
* Maxwell: rows (``type``, ``data``, ``old``, ``ts``, ``position``), bootstraps and DDL.
* CloudEvents: the JSON event format, structured, with the extensions for sequence and partitioning, and those that Debezium
  adds where it writes CloudEvents.

A document may lie in the ``value`` of an object that has a ``key`` beside it, as tools write records of Kafka into files.
No document at all (an empty body, a null) is a tombstone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from seriatim.errors import UsageError
from seriatim.pipeline.declaration import Promotion
from seriatim.pipeline.values import Find, Unreadable, Value, shortened

__all__ = ["ENVELOPES", "OPERATIONS", "Envelope", "lookup_of"]

#: The words of `op`. ``read`` is a row of a snapshot, ``schema`` a change of tables, ``message`` what an application wrote
#: into the log, ``marker`` what a tool tells of itself, ``event`` an event that is no change of a row.
OPERATIONS = (
    "insert",
    "update",
    "delete",
    "read",
    "truncate",
    "tombstone",
    "schema",
    "message",
    "marker",
    "event",
)

Document = Mapping[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Up to here a number of seconds is one of this era, and above it one of milliseconds.
_MOST_SECONDS = 100_000_000_000
_LOG_PLACE = re.compile(r"[^:]*?\.?(\d+):(\d+)", re.ASCII)
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII)
_INT64 = 2**63


@dataclass(frozen=True, slots=True)
class Envelope:
    """One of the forms.

    Args:
        title: what it is called in messages.
        properties: what it tells, by name: the type, and what finds it in a document.
        marks: names of which a document in this form has at least one.
        rows: where in a document rows or events are listed that it has several of; None: it has one.
    """

    title: str
    properties: Mapping[str, tuple[str, Callable[[Document], Value]]]
    marks: frozenset[str]
    rows: str | None = None

    def promotions(self, name: str, *, whole: bool = False) -> tuple[Promotion, ...]:
        """What it tells, as properties.

        Args:
            name: its own name.
            whole: whether it is looked for in the whole of a message that is split.
        """
        return tuple(Promotion(one, one, kind, whole, name) for one, (kind, _) in self.properties.items())

    def of(self, document: Any) -> Document | None:
        """The document itself, taken out of what may be around it; None: a tombstone. Raises `Unreadable`."""
        found = document
        while isinstance(found, dict) and not self.marks & found.keys():
            if "payload" in found:
                found = found["payload"]
            elif "value" in found and "key" in found:
                found = found["value"]
            else:
                break
        if found is not None and not isinstance(found, dict):
            raise Unreadable(f"op: the body is {_kind(found)}, and {self.title} writes objects")
        return found


def lookup_of(envelope: str, what: str) -> Find:
    """What finds in a body's document something that an envelope tells; see `values.Find`.

    Args:
        envelope: its name.
        what: the name under which it tells it.

    Raises:
        UsageError: there is no such envelope, or it doesn't tell that.
    """
    form = ENVELOPES.get(envelope)
    if form is None or what not in form.properties:
        raise UsageError(f"no envelope {envelope!r} tells {what!r}", remedy=f"one of {', '.join(sorted(ENVELOPES))}")
    find, absent = form.properties[what][1], _OF_TOMBSTONES.get(what)

    def lookup(document: Any) -> Value:
        try:
            found = form.of(document)
        except Unreadable:
            if what == "op":  # said once
                raise
            return None
        return absent if found is None else find(found)

    return lookup


#: What is told where there is no document.
_OF_TOMBSTONES: Mapping[str, Value] = {"op": "tombstone", "snapshot": False}


# Debezium


_DEBEZIUM_OPERATIONS = {
    "c": "insert",
    "u": "update",
    "d": "delete",
    "r": "read",
    "t": "truncate",
    "m": "message",
}


def _debezium_op(change: Document) -> Value:
    op = change.get("op")
    if op is not None:
        return _word("Debezium", op, _DEBEZIUM_OPERATIONS)
    if "ddl" in change or "tableChanges" in change:
        return "schema"
    if change.get("status") in ("BEGIN", "END") or (change and change.keys() <= {"ts_ms", "ts_us", "ts_ns"}):
        return "marker"
    raise Unreadable("op: there is none, so this is no change of Debezium's")


def _debezium_snapshot(change: Document) -> Value:
    """Since 1.x the source says ``true``, ``first``, ``last``, ``incremental`` and so on; before it was a boolean."""
    said = _source(change).get("snapshot")
    return change.get("op") == "r" or (said is not None and str(said).lower() != "false")


def _debezium_position(change: Document) -> Value:
    """A number that grows with the log of the database, where it has one of 64 bits."""
    source = _source(change)
    if (lsn := source.get("lsn")) is not None:
        return _whole(lsn)
    if source.get("file") is not None and source.get("pos") is not None:
        return _log_position(f"{source['file']}:{source['pos']}")
    if (scn := source.get("scn")) is not None:
        return _whole(scn)
    if source.get("ord") is not None and isinstance(seconds := source.get("ts_ms"), int):
        order = _whole(source["ord"])
        return None if order is None else _packed(seconds // 1000, order)
    return None


def _debezium_position_text(change: Document) -> Value:
    source = _source(change)
    if source.get("file") is not None and source.get("pos") is not None:
        return f"{source['file']}:{source['pos']}"
    if source.get("ord") is not None:
        return f"{source.get('ts_ms')}:{source['ord']}"
    return _first(source, "change_lsn", "commit_lsn", "lsn", "scn")


def _debezium_transaction(change: Document) -> Value:
    told = change.get("transaction")
    if isinstance(told, dict) and told.get("id") is not None:
        return told["id"]
    return change["id"] if change.get("status") in ("BEGIN", "END") else _first(_source(change), "txId", "gtid")


def _debezium_moment(change: Document) -> Value:
    source = _source(change)
    if (micros := source.get("ts_us")) is not None:
        return _moment(micros, 1)
    millis = source.get("ts_ms")
    return _moment(change.get("ts_ms") if millis is None else millis, 1_000)


def _of_source(*names: str) -> Callable[[Document], Value]:
    """What the source says under one of several names; schema changes say it beside the source."""
    return lambda change: _first(_source(change), names[0]) or _first(change, *names[1:])


def _source(change: Document) -> Document:
    source = change.get("source")
    return source if isinstance(source, dict) else {}


# Canal


_CANAL_OPERATIONS = {
    "INSERT": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
    "INIT": "read",
    "TRUNCATE": "truncate",
    "MHEARTBEAT": "marker",
    "TIDB_WATERMARK": "marker",
}


def _canal_op(change: Document) -> Value:
    said = change.get("type")
    if said is None:
        raise Unreadable("op: there is no type, so this is no change of Canal's")
    found = _CANAL_OPERATIONS.get(str(said).upper())
    if found is None and change.get("isDdl") is True:
        return "schema"
    return found or _word("Canal", said, {})


def _canal_position(change: Document) -> Value:
    """Canal's own ``id`` begins again when its server starts, so it is none; TiCDC tells when a change was committed."""
    tidb = change.get("_tidb")
    return _whole(tidb.get("commitTs")) if isinstance(tidb, dict) else None


# Maxwell


_MAXWELL_OPERATIONS = {
    "insert": "insert",
    "update": "update",
    "delete": "delete",
    "bootstrap-insert": "read",
    "bootstrap-start": "marker",
    "bootstrap-complete": "marker",
    "heartbeat": "marker",
}


def _maxwell_op(change: Document) -> Value:
    said = change.get("type")
    if said is None:
        raise Unreadable("op: there is no type, so this is no change of Maxwell's")
    if isinstance(said, str) and said.startswith(("table-", "database-")):
        return "schema"
    return _word("Maxwell", said, _MAXWELL_OPERATIONS)


def _maxwell_position(change: Document) -> Value:
    position = change.get("position")
    return None if position is None else _log_position(str(position))


# CloudEvents


def _cloudevents_op(event: Document) -> Value:
    if "specversion" not in event:
        raise Unreadable("op: there is no specversion, so this is no CloudEvent")
    op = event.get("iodebeziumop")
    return "event" if op is None else _word("Debezium", op, _DEBEZIUM_OPERATIONS)


def _cloudevents_snapshot(event: Document) -> Value:
    said = event.get("iodebeziumsnapshot")
    return event.get("iodebeziumop") == "r" or (said is not None and str(said).lower() != "false")


def _cloudevents_position(event: Document) -> Value:
    return _whole(_first(event, "sequence", "iodebeziumlsn", "iodebeziumscn"))


# What they have in common


def _first(document: Document, *names: str) -> Value:
    return next((document[name] for name in names if document.get(name) is not None), None)


def _named(*names: str) -> Callable[[Document], Value]:
    return lambda document: _first(document, *names)


def _word(who: str, said: object, words: Mapping[str, str]) -> str:
    found = words.get(said) if isinstance(said, str) else None
    if found is None:
        raise Unreadable(f"op: {shortened(repr(said))} is no operation of {who}'s")
    return found


def _whole(value: Value) -> int | None:
    """A number of 64 bits, also as text; None: it is something else."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and len(value) <= 64 and _DIGITS.fullmatch(value):
        number = int(value)
    return number if number is not None and -_INT64 <= number < _INT64 else None


def _log_position(text: str) -> int | None:
    """A place in MySQL's binary log (``mysql-bin.000003:154``) as a number: the file's, then that within it."""
    place = _LOG_PLACE.fullmatch(text) if len(text) <= 300 else None
    return None if place is None else _packed(int(place[1]), int(place[2]))


def _packed(high: int, low: int) -> int | None:
    return (high << 32) | low if 0 <= high < 2**31 and 0 <= low < 2**32 else None


def _moment(value: Value, micros: int) -> Value:
    """A number of so many microseconds since 1970 as ISO 8601; what is no number stays as it is."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value
    try:
        return (_EPOCH + timedelta(microseconds=int(value * micros))).isoformat()
    except (OverflowError, ArithmeticError):
        raise Unreadable(f"happened_at: {shortened(str(value))} is no moment") from None


def _seconds_or_millis(name: str) -> Callable[[Document], Value]:
    """Maxwell writes seconds for rows and milliseconds for DDL; tools that write like Canal don't agree either."""

    def find(change: Document) -> Value:
        value = change.get(name)
        if isinstance(value, int | Decimal) and -_MOST_SECONDS < value < _MOST_SECONDS:
            return _moment(value, 1_000_000)
        return _moment(value, 1_000)

    return find


def _is_read(op: Callable[[Document], Value]) -> Callable[[Document], Value]:
    def find(change: Document) -> Value:
        try:
            return op(change) == "read"
        except Unreadable:  # said by `op`
            return None

    return find


def _kind(value: object) -> str:
    match value:
        case list():
            return "a list"
        case bool():
            return "a boolean"
        case str():
            return "text"
    return "a number"


#: The envelopes by name.
ENVELOPES: Mapping[str, Envelope] = {
    "debezium": Envelope(
        "Debezium",
        {
            "op": ("string", _debezium_op),
            "snapshot": ("boolean", _debezium_snapshot),
            "database": ("string", _of_source("db", "databaseName")),
            "schema": ("string", _of_source("schema", "schemaName")),
            "table": ("string", lambda change: _first(_source(change), "table", "collection")),
            "position": ("long", _debezium_position),
            "position_text": ("string", _debezium_position_text),
            "transaction": ("string", _debezium_transaction),
            "happened_at": ("timestamp", _debezium_moment),
        },
        frozenset({"op", "source", "ddl", "status"}),
    ),
    "canal": Envelope(
        "Canal",
        {
            "op": ("string", _canal_op),
            "snapshot": ("boolean", _is_read(_canal_op)),
            "database": ("string", _named("database")),
            "table": ("string", lambda change: _first(change, "table") or None),
            "position": ("long", _canal_position),
            "position_text": ("string", _named("gtid", "id")),
            "transaction": ("string", _named("gtid")),
            "happened_at": ("timestamp", _seconds_or_millis("es")),
        },
        frozenset({"type", "database", "isDdl"}),
        rows="$.data",
    ),
    "maxwell": Envelope(
        "Maxwell",
        {
            "op": ("string", _maxwell_op),
            "snapshot": ("boolean", _is_read(_maxwell_op)),
            "database": ("string", _named("database")),
            "table": ("string", _named("table")),
            "position": ("long", _maxwell_position),
            "position_text": ("string", _named("position")),
            "transaction": ("string", _named("xid", "gtid")),
            "happened_at": ("timestamp", _seconds_or_millis("ts")),
        },
        frozenset({"type", "database", "table"}),
    ),
    "cloudevents": Envelope(
        "CloudEvents",
        {
            "op": ("string", _cloudevents_op),
            "snapshot": ("boolean", _cloudevents_snapshot),
            "type": ("string", _named("type")),
            "event_id": ("string", _named("id")),
            "source": ("string", _named("source")),
            "subject": ("string", _named("subject")),
            "partition_key": ("string", _named("partitionkey")),
            "position": ("long", _cloudevents_position),
            "position_text": ("string", _named("sequence", "iodebeziumlsn", "iodebeziumscn")),
            "happened_at": ("timestamp", _named("time")),
        },
        frozenset({"specversion", "id", "source", "type"}),
        rows="$.data",
    ),
}
