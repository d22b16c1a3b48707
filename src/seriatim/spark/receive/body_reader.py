"""Read bodies in a worker: each body becomes one message, several by `split`, or none; with its properties.

This module makes the reasons for messages that can't be read, and the names of parts: the parts of a message
``crm/a.json:7`` are ``crm/a.json:7.1``, ``.2`` and so on. Bodies and their names come from `text_lines.py` and
`tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from seriatim.pipeline.bodies.envelopes.moves import Apart, Moves
from seriatim.pipeline.bodies.property_values import Promoted, Unreadable
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.calls.child_process import Ended, ends
from seriatim.spark.calls.register import Calling
from seriatim.spark.frames.property_types import arrow_type, ddl_of
from seriatim.spark.receive.row_formats import Block, CsvRows, Documents, ReadRow, RowFormat
from seriatim.spark.receive.row_paths import Columns
from seriatim.spark.receive.split import NothingToSplit, Split, Splitter

#: The columns that every message has, as DDL.
OWN_COLUMNS = "message_id string, received_at timestamp, body binary, _invalid string, _file string, _position bigint"
#: The columns that name the whole message of a part, and their types; null for a message that isn't a part.
PARTS = {"parent_id": "string", "part": "bigint", "parts": "bigint"}

_ARROW = {"parent_id": pa.string(), "part": pa.int64(), "parts": pa.int64()}
# Parts may be many times larger than their whole, and Arrow's batches end at 2 GiB.
_MOST_BYTES = 64 * 2**20
_LARGEST = 2**30
_NO_COLUMNS: Columns = {}
_NONE: Mapping[int, str] = {}


@dataclass(frozen=True, slots=True)
class Reading:
    location: str
    #: The properties, in the order in which `rows` yields them.
    promote: tuple[Promotion, ...]
    rows: RowFormat
    split: Splitter | None = None
    otherwise: Literal["invalid", "whole"] = "invalid"
    #: How the user's code is called in it; None: there is none.
    calling: Calling | None = None
    #: How updates that move a row to another group are taken apart; None: they aren't.
    moves: Moves | None = None

    @property
    def has_parts(self) -> bool:
        return self.split is not None or self.moves is not None

    def schema(self) -> str:
        """The columns that reading adds to the columns of a body, as DDL."""
        promoted = [f"`{item.name}` {ddl_of(item.type)}" for item in self.promote]
        parts = [f"{name} {kind}" for name, kind in PARTS.items()] if self.has_parts else []
        return "".join(f", {column}" for column in (*promoted, *parts))

    def check(self) -> None:
        """Check the paths and functions here instead of in a worker. Raises `UsageError`."""
        self.rows.reader(Block("", 0))
        if self.split is not None:
            self.split.splitter()


class FoundMessages:
    """The messages of bodies, column by column; `kept` has the row of each message."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.kept: list[int] = []
        self.ids: list[str] = []
        self.reasons: list[str | None] = []
        self.values: list[list[Any]] = [[] for _ in reading.promote]
        self.bodies: list[bytes | None] = []
        self.parts: list[tuple[str | None, int | None, int | None]] = []
        self.size = 0

    def add(self, place: int, message_id: str, values: list[Any], reason: str | None) -> None:
        for column, value in zip(self.values, values, strict=True):
            column.append(value)
        self.kept.append(place)
        self.ids.append(message_id)
        self.reasons.append(reason)

    def columns(self, bodies: pa.Array) -> dict[str, pa.Array]:
        has_parts = self._reading.has_parts
        promoted = zip(self.values, self._reading.promote, strict=True)
        columns = {
            "message_id": pa.array(self.ids, pa.string()),
            "body": pa.array(self.bodies, pa.binary()) if has_parts else bodies.take(pa.array(self.kept, pa.int64())),
            "_invalid": pa.array(self.reasons, pa.string()),
            **{item.name: pa.array(column, arrow_type(item.type)) for column, item in promoted},
        }
        if has_parts:
            places = enumerate(_ARROW.items())
            columns |= {name: pa.array([part[n] for part in self.parts], kind) for n, (name, kind) in places}
        return columns


class _RowAt(NamedTuple):
    """A row that is read: its place in the batch, its name, its body, its columns, and the reason why it is no message."""

    place: int
    name: str
    body: bytes | None
    columns: Columns
    refused: str | None


class Reader:
    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._prefix = f"{reading.location}/"
        self._nothing: list[Any] = [None] * len(reading.promote)
        self._found = FoundMessages(reading)
        self._entered = False
        self._read: ReadRow
        self._whole: ReadRow
        self._calling = reading.calling.here() if reading.calling is not None else None
        self._split: Split | None = reading.split.splitter() if reading.split is not None else None
        moves = reading.moves
        self._apart: Apart | None = moves.reader() if moves is not None and not moves.of_parts else None
        self._part_apart: Apart | None = moves.reader() if moves is not None and moves.of_parts else None
        self._of_whole = [place for place, item in enumerate(reading.promote) if item.envelope]
        self._of_part = [place for place, item in enumerate(reading.promote) if not item.envelope]
        self._none_of_part: list[Any] = [None] * len(self._of_part)

    def enter(self, block: Block) -> None:
        """Begin a block: all further rows belong to it."""
        if self._entered and isinstance(self._reading.rows, Documents):
            return  # they are read alike in all of them
        self._entered = True
        rows, promote = self._reading.rows, self._reading.promote
        if self._split is None:
            self._read = rows.reader(block)
        else:
            self._read = rows.only(tuple(promote[place] for place in self._of_part)).reader(block)
            self._whole = rows.only(tuple(promote[place] for place in self._of_whole)).reader(block)

    def read(
        self,
        bodies: list[bytes | None],
        names: Sequence[str] | Mapping[int, str],
        first: int = 0,
        refused: list[str | None] | None = None,
        columns: Sequence[Columns] | None = None,
        lacking: Mapping[int, str] = _NONE,
    ) -> Iterator[FoundMessages]:
        rows = [
            _RowAt(
                place,
                names[place],
                body,
                _NO_COLUMNS if columns is None else columns[place],
                None if refused is None else refused[place],
            )
            for place, body in enumerate(bodies, first)
        ]
        lacking = {place - first: why for place, why in lacking.items() if 0 <= place - first < len(rows)}
        if self._calling is None or not rows:
            yield from self._rows(rows, lacking)
            return
        with self._calling.noted(len(rows), self._prefix + rows[0].name):
            yield from self._rows(rows, {**self._fatal(self._calling, rows), **lacking})

    def _rows(self, rows: list[_RowAt], fatal: Mapping[int, str]) -> Iterator[FoundMessages]:
        for place, row in enumerate(rows):
            if place in fatal:
                self._pass_header(row)
                self._add(row, row.name, self._nothing, _reason(row, fatal[place]), row.body)
            elif self._split is None:
                self._one(row)
            else:
                self._several(row, self._split)
            if self._found.size > _MOST_BYTES:
                yield self.taken()

    def _pass_header(self, row: _RowAt) -> None:
        """Handle an unreadable row that may be the header of the others."""
        if row.body is None and isinstance(self._reading.rows, CsvRows):
            self._read(None, row.columns)
            if self._split is not None:
                self._whole(None, row.columns)

    def taken(self) -> FoundMessages:
        """The messages that were read and not yet passed on; call it at the end of a batch."""
        messages, self._found = self._found, FoundMessages(self._reading)
        return messages

    def _fatal(self, calling: Calling, rows: list[_RowAt]) -> dict[int, str]:
        """The places of rows at which the user's code ends its process, and how."""
        fatal = calling.fatal(lambda: ((self._prefix + row.name, row.body) for row in rows))
        places = [place for place in range(len(rows)) if calling.apart and place not in fatal]
        # It may be a header, which every process needs.
        lead = next((place for place, row in enumerate(rows) if row.body and not row.body.isspace()), 0)

        def first_end(places: Sequence[int]) -> tuple[int, Ended] | None:
            known = [lead] if lead < places[0] and lead not in fatal else []
            return ends(lambda place: self._touch(rows[place]), [*known, *places])

        while places and (end := first_end(places)) is not None:
            place, _ = end
            again = first_end([place])
            if again is not None:
                place, how = again
                fatal[place] = f"{calling.function}: it ended its process: {how}"
                calling.keep_fatal(self._prefix + rows[place].name, rows[place].body, fatal[place])
            places = [one for one in places if one >= place and one not in fatal]
        return fatal

    def _touch(self, row: _RowAt) -> None:
        """Read a row in the usual way, to see whether that ends the process."""
        if self._split is None or self._whole(row.body, row.columns) is None:
            self._read(row.body, row.columns)
            return
        try:
            parts: list[bytes | None] = [*_cut(row.body, self._split)]
        except NothingToSplit:
            parts = [row.body]
        for part in parts:
            with suppress(Unreadable):
                self._read(part, row.columns)

    def _one(self, row: _RowAt) -> None:
        try:
            read = self._read(row.body, row.columns)
            if read is None:
                return
            values, problem = read
        except Unreadable as error:
            values, problem = self._nothing, str(error)
        if self._reading.moves is None:
            self._found.add(row.place, self._prefix + row.name, values, _reason(row, problem))
            return
        bodies = [row.body]
        if problem is None and row.refused is None:
            try:
                bodies = self._taken_apart(row.body)
            except Unreadable as error:
                problem = str(error)
        if len(bodies) == 1:
            self._add(row, row.name, values, _reason(row, problem), row.body)
            return
        for number, body in enumerate(bodies, 1):
            self._add_part(row, number, len(bodies), body, [])

    def _taken_apart(self, body: bytes | None) -> list[bytes | None]:
        """Return the bodies of a message that moves rows to another group; otherwise its own body. Raises `Unreadable`."""
        return [body] if body is None or self._apart is None else [*self._apart(body)]

    def _several(self, row: _RowAt, split: Split) -> None:
        try:
            read = self._entered_by(row)
            if read is None:
                return
            whole, problem = read
        except Unreadable as error:
            self._add(row, row.name, self._nothing, _reason(row, str(error)), row.body)
            return
        reason = _reason(row, problem)
        parts: list[tuple[bytes, list[Any]]] = []
        if reason is None:
            try:
                parts = self._parts(row, split, whole)
            except NothingToSplit as error:
                if self._reading.otherwise == "whole":
                    self._add(row, row.name, *self._part(row.body, row, whole), row.body)
                    return
                reason = _reason(row, str(error))
            except Unreadable as error:
                reason = _reason(row, str(error))
        if reason is not None:
            self._add(row, row.name, self._together(whole, None), reason, row.body)
            return
        for number, (part, its_whole) in enumerate(parts, 1):
            self._add_part(row, number, len(parts), part, its_whole)

    def _parts(self, row: _RowAt, split: Split, whole: list[Any]) -> list[tuple[bytes, list[Any]]]:
        """The parts of a message, each with the values of its whole. Raises `NothingToSplit` or `Unreadable`."""
        bodies = self._taken_apart(row.body)
        if len(bodies) == 1:
            cut = _cut(row.body, split)
            apart = self._part_apart
            return [(piece, whole) for part in cut for piece in ([part] if apart is None else apart(part))]
        parts: list[tuple[bytes, list[Any]]] = []
        for body in bodies:
            values, _ = self._whole(body, row.columns) or (whole, None)
            parts += [(part, values) for part in _cut(body, split)]
        return parts

    def _add_part(self, row: _RowAt, number: int, parts: int, body: bytes | None, whole: list[Any]) -> None:
        name = f"{row.name}.{number}"
        self._add(row, name, *self._part(body, row, whole, name), body, (self._prefix + row.name, number, parts))

    def _entered_by(self, row: _RowAt) -> Promoted | None:
        """The values that are read in the whole message; None for a row that is no message."""
        whole = self._whole(row.body, row.columns)
        if whole is None:
            self._read(row.body, row.columns)  # it may be the header, which parts need, too
        return whole

    def _part(
        self, part: bytes | None, row: _RowAt, whole: list[Any], name: str | None = None
    ) -> tuple[list[Any], str | None]:
        """The values of a part, with values of its whole message, and its problem; `name`: its name."""
        try:
            own, problem = self._read(part, row.columns) or (self._none_of_part, "the part is empty")
        except Unreadable as error:
            own, problem = self._none_of_part, str(error)
        return self._together(whole, own), None if problem is None else f"{name or row.name}: {problem}"

    def _together(self, whole: list[Any], own: list[Any] | None) -> list[Any]:
        """The values of a whole message and of a part, in the order of the properties; `own` None: there is no part."""
        values = list(self._nothing)
        for places, among in ((self._of_whole, whole), (self._of_part, self._none_of_part if own is None else own)):
            for to, value in zip(places, among, strict=True):
                values[to] = value
        return values

    def _add(
        self,
        row: _RowAt,
        name: str,
        values: list[Any],
        reason: str | None,
        body: bytes | None,
        part: tuple[str | None, int | None, int | None] = (None, None, None),
    ) -> None:
        messages = self._found
        messages.add(row.place, self._prefix + name, values, reason)
        messages.bodies.append(body)
        messages.parts.append(part)
        messages.size += len(body) if body is not None else 0


def _reason(row: _RowAt, problem: str | None) -> str | None:
    """The reason why a row is no message: the reason from before, and the problem of this reading."""
    if problem is None:
        return row.refused
    return f"{row.name}: {problem}" if row.refused is None else f"{row.refused}; {problem}"


def _cut(body: bytes | None, split: Split) -> list[bytes]:
    if body is None:
        raise NothingToSplit("split: there is no body")
    parts = split(body)
    if sum(map(len, parts)) > _LARGEST:
        raise Unreadable(f"split: the parts are larger than {_LARGEST >> 20:,} MiB together")
    return parts
