"""Lines of JSON as columns: Arrow reads many at once, several times faster than Python reads one after another.

Arrow's reader and Python's differ for odd documents: the texts of errors, numbers given as text, names given twice, numbers that JSON
lacks. So it reads only lines that both are sure to read alike; `read` returns None for all others, which then are
read one by one, with their reasons. The tests compare both readers on a table of odd lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.json_paths import JsonPaths, path_steps
from seriatim.pipeline.bodies.property_values import converter
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.frames.property_types import arrow_type
from seriatim.spark.receive.body_reader import Reading
from seriatim.spark.receive.row_formats import Documents

#: The types that Arrow reads as Python does, or not at all. A timestamp is read as text, and then as everywhere.
_READ_AS = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.string(),
}
#: Python reads neither so many levels (its limit depends on the depth of the call) nor whole numbers of so many digits.
_DEEP, _LONG_NUMBER = 400, 4_000
#: Python's decimals have no exponent of more digits. Arrow refuses large ones, and takes small ones for 0.
_EXPONENT_DIGITS = 17
#: Each digit as 0, and both forms of an exponent as one.
_AS_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_CONSTANT = r"(NaN|Inf|Infinity)\s*[,\]}]"
#: Arrow's offsets of texts have 32 bits.
_MOST_BYTES = 2**30

_Tree = dict[str, Any]


class JsonColumns:
    """Reads the promoted properties of many documents; each property has paths of names only."""

    def __init__(self, promote: Sequence[Promotion], tree: _Tree) -> None:
        self._promote = promote
        self._paths = [[path_steps(path) for path in item.paths] for item in promote]
        fields = _fields(tree)
        self._parse = pj.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")

    @classmethod
    def of(cls, reading: Reading) -> JsonColumns | None:
        rows = reading.rows
        if not isinstance(rows, Documents) or not isinstance(rows.values, JsonPaths) or rows.values.blank:
            return None
        if reading.has_parts or reading.calling is not None:
            return None
        tree = _tree(reading.promote)
        return None if tree is None else cls(reading.promote, tree)

    def read(self, bodies: pa.BinaryArray) -> list[pa.Array] | None:
        """The values of each property, by rows; None: not all rows are sure to be read as one by one."""
        if bodies.null_count or bodies.nbytes > _MOST_BYTES:
            return None
        try:
            text = bodies.cast(pa.string())
            raw = _joined(text)
            if raw is None:
                return None
            options = pj.ReadOptions(use_threads=False, block_size=len(raw) + 1)
            read = pj.read_json(pa.BufferReader(raw), read_options=options, parse_options=self._parse)
        except pa.ArrowInvalid:
            return None
        if read.num_rows != len(bodies):
            return None
        # A line holds one document or more, as none spans two lines: each has exactly one.
        found = [
            self._property(item, [_at(read, path) for path in paths])
            for item, paths in zip(self._promote, self._paths, strict=True)
        ]
        return None if any(column is None for column in found) else found

    @staticmethod
    def _property(item: Promotion, columns: list[pa.Array]) -> pa.Array | None:
        """The column of a property from those of its paths; None: a value is read otherwise, or refused, one by one."""
        column = columns[0] if len(columns) == 1 else pc.coalesce(*columns)
        if item.name == "type" and not _are_types(column):
            return None
        match item.type:
            case "double":
                values = column.drop_null().to_numpy(zero_copy_only=False)
                # A whole number has no -0.
                return None if (~np.isfinite(values)).any() or (np.signbit(values) & (values == 0)).any() else column
            case "timestamp":
                convert = converter("timestamp")
                try:
                    moments = [None if value is None else convert(value) for value in column.to_pylist()]
                except ValueError:
                    return None
                return pa.array(moments, arrow_type("timestamp"))
        return column


def _are_types(column: pa.Array) -> bool:
    empty = pc.equal(pc.binary_length(column), 0)
    return not pc.any(pc.or_(empty, pc.match_substring(column, "\0"))).as_py()


def _joined(text: pa.StringArray) -> bytes | None:
    """The rows as lines; None: a row may be something that only one of both readers takes."""
    if not pc.all(pc.and_(pc.starts_with(text, "{"), pc.ends_with(text, "}"))).as_py():
        return None
    longest = pc.max(pc.binary_length(text)).as_py() or 0
    if longest >= 2 * _DEEP:
        openings = pc.add(pc.count_substring(text, "{"), pc.count_substring(text, "["))
        if pc.max(openings).as_py() >= _DEEP:
            return None
    lines = pc.binary_join_element_wise(text, pa.scalar("\n"), pa.scalar(""))
    ends = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    raw: bytes = lines.buffers()[2].slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes() if len(lines) else b""
    if b"\0" in raw:  # for Arrow the end
        return None
    # A single byte is found ten times faster than two.
    constants = (b"N" in raw and b"NaN" in raw) or (b"I" in raw and b"Inf" in raw)
    if constants and pc.any(pc.match_substring_regex(text, _CONSTANT)).as_py():
        return None
    exponents = b"-" in raw and (b"e-" in raw or b"E-" in raw)
    if exponents or longest >= _LONG_NUMBER:
        digits = raw.translate(_AS_DIGITS)
        if b"e-" + b"0" * _EXPONENT_DIGITS in digits or b"0" * _LONG_NUMBER in digits:
            return None
    return raw


def _tree(promote: Sequence[Promotion]) -> _Tree | None:
    """The names on all paths, and the types at their ends; None: not all properties can be read so."""
    tree: _Tree = {}
    for item in promote:
        kind = _READ_AS.get(item.type)
        if kind is None or item.told_by is not None or item.envelope:
            return None
        for path in item.paths:
            try:
                steps = path_steps(path)
            except UsageError:
                return None  # told where the location is checked
            node: Any = tree
            for step in steps[:-1]:
                node = node.setdefault(step, {}) if isinstance(step, str) and isinstance(node, dict) else None
            if not steps or not isinstance(steps[-1], str) or not isinstance(node, dict):
                return None
            if node.setdefault(steps[-1], kind) != kind:
                return None
    return tree or None


def _fields(tree: _Tree) -> list[pa.Field]:
    return [pa.field(name, pa.struct(_fields(node)) if isinstance(node, dict) else node) for name, node in tree.items()]


def _at(read: pa.Table, path: Sequence[str | int]) -> pa.Array:
    """The values at a path of names; null where it leads nowhere."""
    column = read.column(str(path[0])).combine_chunks()
    return pc.struct_field(column, [str(name) for name in path[1:]]) if path[1:] else column
