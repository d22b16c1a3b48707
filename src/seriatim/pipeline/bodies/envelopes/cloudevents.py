"""CloudEvents in the JSON event format, structured, with the extensions for sequence and partitioning, and those that Debezium adds."""

from __future__ import annotations

from seriatim.pipeline.bodies.envelopes.debezium import OPERATIONS
from seriatim.pipeline.bodies.envelopes.envelope import Document, Envelope, first, named, whole, word
from seriatim.pipeline.bodies.property_values import Unreadable, Value


def _op(event: Document) -> Value:
    if "specversion" not in event:
        raise Unreadable("op: there is no specversion, so this is no CloudEvent")
    op = event.get("iodebeziumop")
    return "event" if op is None else word("Debezium", op, OPERATIONS)


def _snapshot(event: Document) -> Value:
    said = event.get("iodebeziumsnapshot")
    return event.get("iodebeziumop") == "r" or (said is not None and str(said).lower() != "false")


def _position(event: Document) -> Value:
    return whole(first(event, "sequence", "iodebeziumlsn", "iodebeziumscn"))


#: The promoted properties.
CLOUDEVENTS = Envelope(
    "CloudEvents",
    {
        "op": ("string", _op),
        "snapshot": ("boolean", _snapshot),
        "type": ("string", named("type")),
        "event_id": ("string", named("id")),
        "source": ("string", named("source")),
        "subject": ("string", named("subject")),
        "partition_key": ("string", named("partitionkey")),
        "position": ("long", _position),
        "position_text": ("string", named("sequence", "iodebeziumlsn", "iodebeziumscn")),
        "happened_at": ("timestamp", named("time")),
    },
    frozenset({"specversion", "id", "source", "type"}),
    rows="data",
)
