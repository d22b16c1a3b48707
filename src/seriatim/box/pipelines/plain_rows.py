"""Rows as the columns of messages and entries, without an object for each message.

Only rows that are surely what they seem: of declared types whose bodies nobody looks at, with properties of the types that they are to
have, for queues that need nothing but a group and a number. All others become messages one by one (``incoming.py``), with their
reasons. A test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.marks import written
from seriatim.box.definitions.route import Router
from seriatim.box.pipelines.copied import Field
from seriatim.box.pipelines.incoming import FIELDS, Incoming
from seriatim.box.pipelines.open_part import AS_JSONB, EntryColumns, MessageColumns, array_of
from seriatim.box.publishing.batch import MOST_BODY_BYTES, MOST_CONTEXT_BYTES
from seriatim.errors import UsageError
from seriatim.kernel.filters.filter import Type
from seriatim.kernel.filters.filter_eval import Values, column
from seriatim.kernel.groups.policy import Fifo, Standard, Unordered
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.fingerprint import of_bytes
from seriatim.pipeline.declared.location import DEFAULT_LOCATION, checked_location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.failure_message import FAILURE
from seriatim.pipeline.types.message import new_message_id

_LONGEST_ID_BYTES = 1024
_TEXT, _BYTES = pa.large_string(), pa.large_binary()
_NOTHING = pa.scalar("", _TEXT)
_MIDDLE = (5).to_bytes(4, "big")
#: What needs more than quotation marks around it in JSON.
_ESCAPED = r'["\\\x00-\x1f]'


class _OddError(Exception):
    """A row that has to be looked at by itself."""


def plain_columns(
    rows: pa.RecordBatch, incoming: Incoming, router: Router, queue: BoxQueue | None
) -> tuple[MessageColumns, EntryColumns] | None:
    """The messages and entries of rows; `queue`: the one that gets all. None: not all rows are plain."""
    try:
        return _Rows(rows, incoming, router, queue).columns()
    except (_OddError, pa.ArrowInvalid):
        return None


class _Rows:
    def __init__(self, rows: pa.RecordBatch, incoming: Incoming, router: Router, queue: BoxQueue | None) -> None:
        self._n = len(rows)
        self._incoming = incoming
        self._router = router
        self._queue = queue
        left_out = incoming.left_out
        self._columns = {
            name: _text(column) if _is_text(column) else column
            for name, column in zip(rows.schema.names, rows.columns, strict=True)
            if name not in left_out and column.null_count < len(column)
        }

    def columns(self) -> tuple[MessageColumns, EntryColumns]:
        if "context" in self._columns:
            raise _OddError
        contexts = self._contexts()
        entries = self._entries()
        content_types = self._columns.get("content_type")
        if content_types is not None:
            _check_sizes(content_types, 1, 2**31)
        locations: Any = DEFAULT_LOCATION
        if "location" in self._columns:
            locations = self._columns["location"].fill_null(DEFAULT_LOCATION).to_pylist()
        messages = MessageColumns(
            self._message_ids, self._types, locations, content_types, contexts, None, self._bodies,
            np.bincount(entries.rows, minlength=self._n), {},
        )  # fmt: skip
        return messages, entries

    @cached_property
    def _message_ids(self) -> pa.Array:
        if (ids := self._columns.get("message_id")) is None:
            return pa.array([new_message_id() for _ in range(self._n)], _TEXT)
        _check_sizes(ids, 1, _LONGEST_ID_BYTES)
        return _whole(ids)

    @cached_property
    def _types(self) -> pa.Array:
        given = self._columns.get("type", pa.nulls(self._n, _TEXT))
        return _whole(given if self._incoming.type is None else given.fill_null(self._incoming.type))

    @cached_property
    def _bodies(self) -> pa.Array:
        bodies = self._columns.get("body", pa.nulls(self._n, _BYTES)).cast(_BYTES).fill_null(b"")
        _check_sizes(bodies, 0, MOST_BODY_BYTES)
        return bodies

    @cached_property
    def _declared(self) -> Mapping[str, str]:
        kinds = self._types.unique().to_pylist()
        if FAILURE in kinds or (declared := self._router.plain_properties(kinds)) is None:
            raise _OddError
        return declared

    def _contexts(self) -> Field:
        pieces = []
        declared = self._declared
        own = {*FIELDS, self._incoming.group, self._incoming.sequence}
        for name, given in self._columns.items():
            if name in own:
                continue
            if name == "location":
                _check_locations(given)
            elif name in OWN or not _fits(given, declared.get(name)):
                raise _OddError
            values = _quoted(given) if _is_text(given) else given.cast(_TEXT)
            pieces.append(_joined(f"{encode_basestring(name)}: ", values))
        if self._queue is not None:
            to = f'"to": {encode_basestring(self._queue.declared.name)}'
            pieces.append(pa.array([to] * self._n, _TEXT))
        if not pieces:
            return AS_JSONB + b"{}"
        inner = pc.binary_join_element_wise(*pieces, pa.scalar(", ", _TEXT), null_handling="skip")
        contexts = _joined("\x01{", inner, "}").cast(_BYTES)
        # Above it a message's properties are looked at by themselves.
        _check_sizes(contexts, 0, MOST_CONTEXT_BYTES // 8)
        return contexts

    def _entries(self) -> EntryColumns:
        led: list[tuple[BoxQueue, Ints, Ints]] | None
        if self._queue is not None:
            led = [(self._queue, np.arange(self._n), np.full(self._n, -1))]
        else:
            filtered = {name: self._values(name, kind) for name, kind in self._router.filtered.items()}
            led = self._router.led_by_filters(filtered, self._n)
        if led is None:
            raise _OddError
        found = [self._entries_of(*one) for one in led]
        if not found:
            return EntryColumns(np.empty(0, np.int64), None, None, None, None, None, _MIDDLE, None, None)
        rows, queue_ids, *columns = zip(*found, strict=True)
        groups, sequences, sizes, subscriptions = (pa.concat_arrays(column) for column in columns)
        return EntryColumns(
            np.concatenate(rows), np.concatenate(queue_ids), groups, sequences, sizes, None, _MIDDLE, None, subscriptions
        )  # fmt: skip

    def _entries_of(self, queue: BoxQueue, rows: Ints, subscription_ids: Ints) -> tuple[Any, ...]:
        one = queue.declared
        if not self._router.is_plain(one.name) or not _is_plain(one):
            raise _OddError
        n = len(rows)
        groups = pa.array(np.full(n, ""), _TEXT)
        sequences = sizes = pa.nulls(n, pa.int64())
        if not isinstance(one.policy, Unordered):
            groups = self._taken(self._incoming.group or str(one.group.by), rows).cast(_TEXT)
            _check_sizes(_whole(groups), 1, MAX_KEY_BYTES)
        if isinstance(one.policy, Standard):
            sequences = _whole(self._taken(self._incoming.sequence or str(one.numbered_by), rows)).cast(pa.int64())
            bodies = self._bodies.take(pa.array(rows)).to_pylist()
            sizes = pa.array(written([of_bytes((body,)) for body in bodies], None), pa.int64())
        ids, which = np.unique(subscription_ids, return_inverse=True)
        by = pa.array([array_of([number] if number >= 0 else []) for number in ids.tolist()], _BYTES).take(
            pa.array(which)
        )
        return rows, np.full(n, queue.queue_id, np.int32), groups, sequences, sizes, by

    def _taken(self, name: str, rows: Ints) -> pa.Array:
        if name not in self._columns or (name in OWN and name != "location"):
            raise _OddError
        column = self._columns[name]
        return column if len(rows) == self._n else column.take(pa.array(rows))

    def _values(self, name: str, kind: Type) -> Values:
        every = np.ones(self._n, np.bool_)
        match name:
            case "type":
                return Values(self._types.to_numpy(zero_copy_only=False), every)
            case "message_id":
                return Values(self._message_ids.to_numpy(zero_copy_only=False), every)
            case "location":
                known_places = self._columns.get(name, pa.nulls(self._n, _TEXT)).fill_null(DEFAULT_LOCATION)
                return Values(known_places.to_numpy(zero_copy_only=False), every)
        if name not in self._columns:
            return column([None], kind)
        given = self._columns[name]
        known = np.asarray(given.is_valid().to_numpy(zero_copy_only=False), np.bool_)
        if pa.types.is_integer(given.type):
            return Values(given.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), known)
        if pa.types.is_boolean(given.type):
            given = given.fill_null(pa.scalar(False))
        return Values(given.to_numpy(zero_copy_only=False), known)


def _is_plain(one: Queue) -> bool:
    """Whether the entries of a queue have nothing but a group and a number."""
    return (
        isinstance(one.policy, Fifo | Standard | Unordered)
        and one.gate is None
        and one.group.by_type is None
        and one.group.default is None
        and not (one.has_stays or one.says.says() or one.means)
        and one.priority is None
        and one.compare is None
        and one.numbered_by != "ticket"
    )


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _text(column: pa.Array) -> pa.Array:
    """A column of text without NUL."""
    column.validate(full=True)
    if pc.any(pc.match_substring(column, "\0")).as_py():
        raise _OddError
    return column.cast(_TEXT)


def _whole(column: pa.Array) -> pa.Array:
    """A column without nulls."""
    if column.null_count:
        raise _OddError
    return column


def _check_sizes(column: pa.Array, least: int, most: int) -> None:
    """Check how many bytes each value has."""
    sizes = pc.min_max(pc.binary_length(column)).as_py()
    if sizes["min"] is not None and not least <= sizes["min"] <= sizes["max"] <= most:
        raise _OddError


def _check_locations(column: pa.Array) -> None:
    try:
        for name in column.unique().drop_null().to_pylist():
            checked_location(name)
    except UsageError:
        raise _OddError from None


def _fits(column: pa.Array, kind: str | None) -> bool:
    """Whether all values are of a property's type as they are."""
    return (
        (kind == "string" and _is_text(column))
        or (kind == "long" and pa.types.is_signed_integer(column.type))
        or (kind == "boolean" and pa.types.is_boolean(column.type))
    )


def _quoted(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():
        return pa.array([None if text is None else encode_basestring(text) for text in column.to_pylist()], _TEXT)
    return _joined('"', column, '"')


def _joined(*pieces: str | pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(
        *(pa.scalar(piece, _TEXT) if isinstance(piece, str) else piece for piece in pieces), _NOTHING
    )
