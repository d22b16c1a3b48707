"""Write the messages of a part into the spool, as columns, and stage their entries.

Nobody sees a message without a ticket. Its arrival gets one when the part is merged, so bodies are written once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.entries import Entries
from seriatim.box.pipelines.copied import BEGIN, END, Field, written
from seriatim.box.postgres.array_text import numbers_in
from seriatim.box.postgres.statements import statement
from seriatim.kernel.values.columns import Ints

#: Before the text of a JSON value.
AS_JSONB = b"\x01"
#: A message is so far behind the first of the part before, in the order of their transaction.
_PART_BITS = 32
_INT4, _INT8 = 23, 20
_MIDDLE = (5).to_bytes(4, "big")


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Messages, as PostgreSQL takes their columns in; `contexts` and `property_types` begin with `AS_JSONB`."""

    message_ids: Field
    types: Field
    #: A location for each message, or the one of all.
    locations: Sequence[str] | str
    content_types: Field
    contexts: Field
    property_types: Field
    bodies: Field
    destinations: Ints
    #: By row: why a message goes nowhere.
    problems: Mapping[int, str]
    part_counts: Field = None
    #: The rows of attachments, and their columns.
    parts: tuple[Ints, Sequence[Field]] | None = None


@dataclass(frozen=True, slots=True)
class EntryColumns:
    """Entries: `rows` are those of their messages."""

    rows: Ints
    queue_ids: Field
    groups: Field
    sequences: Field
    sizes: Field
    meanings: Field
    priorities: Field
    problems: Field
    subscriptions: Field


class OpenPart:
    def __init__(self, transaction: Transaction, part_id: int, number: int) -> None:
        self.transaction = transaction
        self.part_id = part_id
        #: How many it has so far.
        self.messages = self.entries = 0
        self._serial = number << _PART_BITS
        #: By location its arrival, and how many messages that has.
        self._arrivals: dict[str, list[int]] = {}

    def add(self, messages: MessageColumns, entries: EntryColumns) -> None:
        n = len(messages.destinations)
        places = np.arange(self.messages, self.messages + n)
        arrival_ids, positions = self._placed(messages.locations, n)
        self._copy(
            "store_messages",
            (n, [
                arrival_ids, positions, messages.message_ids, messages.types, messages.content_types,
                messages.contexts, messages.property_types, messages.bodies,
                messages.destinations.astype(np.int32), messages.part_counts, self._serial | places,
            ]),
        )  # fmt: skip
        if messages.parts is not None:
            rows, columns = messages.parts
            numbers = np.arange(len(rows))
            self._copy("store_message_parts", (len(rows), [arrival_ids[rows], positions[rows], numbers, *columns]))
        rows, nowhere = entries.rows, np.flatnonzero(messages.destinations == 0)
        part_id = self.part_id.to_bytes(8, "big")
        why = pa.array([messages.problems.get(row) for row in nowhere.tolist()], pa.string())
        self._copy(
            "stage_entries",
            (len(rows), [
                part_id, places[rows], arrival_ids[rows], positions[rows], entries.queue_ids, entries.groups,
                entries.sequences, entries.sizes, entries.meanings, entries.priorities, entries.problems,
                entries.subscriptions,
            ]),
            (len(nowhere), [
                part_id, places[nowhere], arrival_ids[nowhere], positions[nowhere], None, None, None, None, None,
                _MIDDLE, why, array_of((), _INT4),
            ]),
        )  # fmt: skip
        self.messages += n
        self.entries += len(rows) + len(nowhere)

    def end(self, version: int) -> None:
        """Note that the part is whole, and by which version of the definitions it is routed."""
        ids, counts = zip(*self._arrivals.values(), strict=True) if self._arrivals else ((), ())
        self.transaction.do("count_arrivals", arrival_ids=list(ids), counts=list(counts))
        named = {"version": version, "messages": self.messages, "entries": self.entries}
        self.transaction.do("end_part", part_id=self.part_id, **named)

    def _placed(self, locations: Sequence[str] | str, n: int) -> tuple[Ints, Ints]:
        """The arrivals of messages, and their positions in them."""
        if isinstance(locations, str):
            arrival_id, count = self._counted(locations, n)
            return np.full(n, arrival_id), np.arange(count, count + n)
        names, which = np.unique(np.array(locations, object), return_inverse=True)
        arrival_ids, positions = np.empty(n, np.int64), np.empty(n, np.int64)
        for code, name in enumerate(names):
            rows = np.flatnonzero(which == code)
            arrival_id, count = self._counted(name, len(rows))
            arrival_ids[rows], positions[rows] = arrival_id, np.arange(count, count + len(rows))
        return arrival_ids, positions

    def _counted(self, location: str, more: int) -> tuple[int, int]:
        """The arrival of a location, and how many messages it had before these."""
        if (known := self._arrivals.get(location)) is None:
            (row,) = self.transaction.rows("reserve_arrival", part_id=self.part_id, location=location)
            known = self._arrivals[location] = [row.arrival_id, 0]
        known[1] += more
        return known[0], known[1] - more

    def _copy(self, name: str, *blocks: tuple[int, Sequence[Field]]) -> None:
        query = statement(name, self.transaction.schema)
        with self.transaction.connection.cursor() as cursor, cursor.copy(query) as copy:
            copy.write(BEGIN)
            for rows, fields in blocks:
                if rows:
                    copy.write(written(rows, fields))
            copy.write(END)


def array_of(numbers: Sequence[int], kind: int = _INT4) -> bytes:
    """Whole numbers as an array of PostgreSQL's; `kind`: the number of their type."""
    if not numbers:
        return struct.pack(">iii", 0, 0, kind)
    size, form = (4, "ii") if kind == _INT4 else (8, "iq")
    each = [part for number in numbers for part in (size, number)]
    return struct.pack(f">iiiii{form * len(numbers)}", 1, 0, kind, len(numbers), 1, *each)


def message_columns(columns: Mapping[str, Any]) -> MessageColumns:
    """Messages from the parameters of ``take_in``."""
    parts = None
    if columns["part_counts"] is not None:
        beside = [
            _text(columns["part_names"]),
            _text(columns["part_content_types"]),
            pa.array(columns["part_bodies"], pa.large_binary()),
        ]
        parts = np.array(columns["part_places"], np.int64) - 1, beside
    problems = {row: why for row, why in enumerate(columns["problems"]) if why is not None}
    return MessageColumns(
        _text(columns["message_ids"]), _text(columns["types"]), columns["locations"], _text(columns["content_types"]),
        _jsonb(columns["contexts"]), _jsonb(columns["property_types"]), pa.array(columns["bodies"], pa.large_binary()),
        np.array(columns["destinations"], np.int64), problems,
        None if parts is None else pa.array(columns["part_counts"], pa.int64()), parts,
    )  # fmt: skip


def entry_columns(entries: Entries) -> EntryColumns:
    subscriptions = {text: array_of(numbers_in(text)) for text in set(entries.subscriptions)}
    meanings: Field = None
    if entries.meanings is not None:
        means = [None if one is None else array_of(numbers_in(one), _INT8) for one in entries.meanings]
        meanings = pa.array(means, pa.large_binary())
    return EntryColumns(
        np.array(entries.places, np.int64), np.array(entries.queue_ids, np.int32), _text(entries.groups),
        pa.array(entries.sequences, pa.int64()), pa.array(entries.sizes, pa.int64()), meanings,
        np.array(entries.priorities, np.int32), _text(entries.problems),
        pa.array([subscriptions[text] for text in entries.subscriptions], pa.large_binary()),
    )  # fmt: skip


def _text(values: Iterable[str | None]) -> pa.Array:
    return pa.array(values, pa.large_string())


def _jsonb(values: Iterable[str | None]) -> pa.Array:
    return pc.binary_join_element_wise(
        pa.scalar(AS_JSONB, pa.large_binary()), _text(values).cast(pa.large_binary()), pa.scalar(b"", pa.large_binary())
    )
