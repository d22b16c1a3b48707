"""The known envelopes, by name, with one set of words: a filter is the same for every tool that captured the change.

The documents are those that the projects describe in their references. A document may lie in the ``payload`` of Kafka
Connect's converter, or in the ``value`` of an object that has a ``key`` beside it, as tools write records of Kafka into
files. No document at all (an empty body, a null) is a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.canal import CANAL
from seriatim.pipeline.bodies.envelopes.cloudevents import CLOUDEVENTS
from seriatim.pipeline.bodies.envelopes.debezium import DEBEZIUM
from seriatim.pipeline.bodies.envelopes.envelope import Envelope
from seriatim.pipeline.bodies.envelopes.maxwell import MAXWELL
from seriatim.pipeline.bodies.envelopes.wal2json import WAL2JSON
from seriatim.pipeline.bodies.property_values import Find, Unreadable, Value

if TYPE_CHECKING:
    from seriatim.pipeline.declared.pipeline import Receive

#: The words of `op`. ``read`` is a row of a snapshot, ``schema`` a change of tables, ``message`` an entry that an application wrote
#: into the log, ``marker`` a report of a tool on itself, ``event`` an event that is no change of a row.
OPERATIONS = ("insert", "update", "delete", "read", "truncate", "tombstone", "schema", "message", "marker", "event")

#: The envelopes by name.
ENVELOPES: Mapping[str, Envelope] = {
    "canal": CANAL,
    "cloudevents": CLOUDEVENTS,
    "debezium": DEBEZIUM,
    "maxwell": MAXWELL,
    "wal2json": WAL2JSON,
}
#: The envelopes in which an update that changes a row's key is one message. Debezium writes a delete and an insert.
ONE_UPDATE = frozenset({"canal", "maxwell", "wal2json"})
#: The values where there is no document.
_OF_TOMBSTONES: Mapping[str, Value] = {"op": "tombstone", "snapshot": False}


def has_parts(received: Iterable[Receive]) -> bool:
    """Return whether one message of some location may become several: it is split, or an update moves a row."""
    return any(
        entry.split is not None or (entry.envelope is not None and ENVELOPES[entry.envelope].updates is not None)
        for entry in received
    )


def lookup_of(envelope: str, what: str) -> Find:
    """Return a function that finds a property of an envelope in a body's document; see `values.Find`."""
    form = ENVELOPES.get(envelope)
    if form is None or what not in form.properties:
        raise UsageError(f"no envelope {envelope!r} tells {what!r}", remedy=f"one of {', '.join(sorted(ENVELOPES))}")
    find, absent = form.properties[what][1], _OF_TOMBSTONES.get(what)

    def lookup(document: Any) -> Value:
        try:
            found = form.of(document)
        except Unreadable:
            if what == "op":  # reported once
                raise
            return None
        return absent if found is None else find(found)

    return lookup
