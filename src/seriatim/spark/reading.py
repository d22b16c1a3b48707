"""Reading bodies in a worker: each becomes one message, several by `split`, or none; with its properties.

Owns what is said of a message that can't be read, and the names of parts: those of a message ``crm/a.json:7`` are
``crm/a.json:7.1``, ``.2`` and so on. Where bodies come from and how they are named is `lines.py` and `tables.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from seriatim.pipeline.declaration import Promotion
from seriatim.pipeline.values import Unreadable
from seriatim.spark.rows import Block, Documents, ReadRow, RowFormat
from seriatim.spark.split import Split, Splitter
from seriatim.spark.values import arrow_type, ddl_of

__all__ = ["OWN_COLUMNS", "PARTS", "Found", "Reader", "Reading"]

#: The columns that every message has, as DDL.
OWN_COLUMNS = "message_id string, received_at timestamp, body binary, _invalid string, _file string, _position bigint"
#: The columns that tell of a message of which other it is a part, and their types; null where it is none.
PARTS = {"parent_id": "string", "part": "bigint", "parts": "bigint"}

_ARROW = {"parent_id": pa.string(), "part": pa.int64(), "parts": pa.int64()}
# Parts may be many times larger than what they were cut from, and Arrow's batches end at 2 GiB.
_MOST_BYTES = 64 * 2**20
_LARGEST = 2**30


@dataclass(frozen=True, slots=True)
class Reading:
    """How the bodies of a location are read.

    Args:
        location: its name.
        promote: the properties, in the order in which `rows` yields them.
        rows: the format.
        split: how messages are taken apart; None: they aren't.
    """

    location: str
    promote: tuple[Promotion, ...]
    rows: RowFormat
    split: Splitter | None = None

    def schema(self) -> str:
        """The columns that reading adds to those of a body, as DDL."""
        promoted = [f"`{item.name}` {ddl_of(item.type)}" for item in self.promote]
        parts = [f"{name} {kind}" for name, kind in PARTS.items()] if self.split else []
        return "".join(f", {column}" for column in (*promoted, *parts))

    def check(self) -> None:
        """Tell what is wrong with a path or a function here instead of in a worker. Raises `UsageError`."""
        self.rows.reader(Block("", 0))
        if self.split is not None:
            self.split.splitter()


class Found:
    """What bodies gave, column by column; `kept` says from which row each message is."""

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
        """A message of the row at `place`."""
        for column, value in zip(self.values, values, strict=True):
            column.append(value)
        self.kept.append(place)
        self.ids.append(message_id)
        self.reasons.append(reason)

    def columns(self, bodies: pa.Array) -> dict[str, pa.Array]:
        """The columns of these messages, `bodies` being those of all rows."""
        split = self._reading.split is not None
        promoted = zip(self.values, self._reading.promote, strict=True)
        columns = {
            "message_id": pa.array(self.ids, pa.string()),
            "body": pa.array(self.bodies, pa.binary()) if split else bodies.take(pa.array(self.kept, pa.int64())),
            "_invalid": pa.array(self.reasons, pa.string()),
            **{item.name: pa.array(column, arrow_type(item.type)) for column, item in promoted},
        }
        if split:
            places = enumerate(_ARROW.items())
            columns |= {name: pa.array([one[n] for one in self.parts], kind) for n, (name, kind) in places}
        return columns


class Reader:
    """A task's reading of one location."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._prefix = f"{reading.location}/"
        self._nothing: list[Any] = [None] * len(reading.promote)
        self._found = Found(reading)
        self._entered = False
        self._read: ReadRow
        self._whole: ReadRow
        self._split: Split | None = reading.split.splitter() if reading.split is not None else None
        self._of_whole = [place for place, item in enumerate(reading.promote) if item.envelope]
        self._of_part = [place for place, item in enumerate(reading.promote) if not item.envelope]

    def enter(self, block: Block) -> None:
        """From here on rows are of this block."""
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
        self, bodies: list[bytes | None], names: list[str], first: int = 0, refused: list[str | None] | None = None
    ) -> Iterator[Found]:
        """Read rows.

        Args:
            bodies: of consecutive rows; a row without one is a message of which nothing is known.
            names: of all rows of the batch; a message's id is ``location/name``.
            first: which of the batch's rows has the first body.
            refused: of all rows of the batch, why a row is no message as far as that is known already.

        Yields:
            What rows of the batch gave, in their order, where it becomes large; the rest is `taken`.
        """
        for place, body in enumerate(bodies, first):
            if refused is not None and refused[place] is not None:
                self._add(place, names[place], self._nothing, refused[place], body)
            elif self._split is None:
                self._one(place, names[place], body)
            else:
                self._several(place, names[place], body, self._split)
                if self._found.size > _MOST_BYTES:
                    yield self.taken()

    def taken(self) -> Found:
        """What was read and not yet handed on; a batch ends with it."""
        found, self._found = self._found, Found(self._reading)
        return found

    def _one(self, place: int, name: str, body: bytes | None) -> None:
        reason = None
        try:
            values = self._nothing if body is None else self._read(body)
            if values is None:
                return
        except Unreadable as error:
            values, reason = self._nothing, f"{name}: {error}"
        self._found.add(place, self._prefix + name, values, reason)

    def _several(self, place: int, name: str, body: bytes | None, split: Split) -> None:
        try:
            whole = self._entered_by(body)
            if whole is None:
                return
            parts = _cut(body or b"", split)
        except Unreadable as error:
            self._add(place, name, self._nothing, f"{name}: {error}", body)
            return
        parent = self._prefix + name
        for number, part in enumerate(parts, 1):
            values, reason = self._part(part, whole)
            reason = None if reason is None else f"{name}.{number}: {reason}"
            self._add(place, f"{name}.{number}", values, reason, part, (parent, number, len(parts)))

    def _entered_by(self, body: bytes | None) -> list[Any] | None:
        """What is read in the whole of a message; None for a row that is none."""
        if body is None:
            raise Unreadable("split: there is no body")
        whole = self._whole(body)
        if whole is None:
            self._read(body)  # it may be the header, which goes for parts too
        return whole

    def _part(self, part: bytes, whole: list[Any]) -> tuple[list[Any], str | None]:
        """The values of a part, those of its whole put in, and what is wrong with it."""
        try:
            own = self._read(part)
        except Unreadable as error:
            return self._nothing, str(error)
        if own is None:
            return self._nothing, "the part is empty"
        values = list(self._nothing)
        for places, among in ((self._of_whole, whole), (self._of_part, own)):
            for to, value in zip(places, among, strict=True):
                values[to] = value
        return values, None

    def _add(
        self,
        place: int,
        name: str,
        values: list[Any],
        reason: str | None,
        body: bytes | None,
        part: tuple[str | None, int | None, int | None] = (None, None, None),
    ) -> None:
        found = self._found
        found.add(place, self._prefix + name, values, reason)
        found.bodies.append(body)
        found.parts.append(part)
        found.size += len(body) if body is not None else 0


def _cut(body: bytes, split: Split) -> list[bytes]:
    parts = split(body)
    if sum(map(len, parts)) > _LARGEST:
        raise Unreadable(f"split: the parts are larger than {_LARGEST >> 20:,} MiB together")
    return parts
