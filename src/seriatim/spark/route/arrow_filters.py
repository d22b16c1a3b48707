"""Filters over Arrow batches: the kernel inside a Spark task, for more filters than a plan can have as expressions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from seriatim.kernel.filters.filter import Expression, Type, ValueKind
from seriatim.kernel.filters.filter_eval import Filters, Values

#: The column of destinations that a `Trial` adds.
TRIED = "__sq_tried"

_SHORT = 18


@dataclass(frozen=True, slots=True)
class Trial:
    filters: Sequence[tuple[Expression, str]]
    properties: Mapping[str, tuple[str, Type]]
    #: The names for the first columns, which belong to the message; the other columns are for the filters only.
    names: Sequence[str]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the message's own columns, and `TRIED`: a list of destinations for each message."""
        filters = Filters([expression for expression, _ in self.filters])
        to = pa.array([destination for _, destination in self.filters], pa.string())
        for batch in batches:
            columns = {name: values_of(batch.column(at), kind) for name, (at, kind) in self.properties.items()}
            passed = [np.flatnonzero(true) for true in filters.true(columns, batch.num_rows)]
            rows = np.concatenate(passed)
            which = np.repeat(np.arange(len(passed)), [len(rows_of) for rows_of in passed])[
                np.argsort(rows, kind="stable")
            ]
            ends = np.cumsum(np.bincount(rows, minlength=batch.num_rows))
            offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
            lists = pa.ListArray.from_arrays(offsets, to.take(pa.array(which)))
            own = batch.columns[: len(self.names)]
            yield pa.RecordBatch.from_arrays([*own, lists], names=[*self.names, TRIED])


def values_of(column: pa.Array, kind: Type) -> Values:
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    match kind.kind:
        case ValueKind.STRING:
            return Values(column.to_numpy(zero_copy_only=False), known)
        case ValueKind.DECIMAL:
            halves = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
            halves = halves[column.offset : column.offset + len(column)]
            if kind.precision <= _SHORT:
                return Values(halves[:, 0], known)
            low = np.ascontiguousarray(halves[:, 0]).view(np.uint64).astype(object)
            return Values(halves[:, 1].astype(object) * 2**64 + low, known)
        case ValueKind.BOOLEAN:
            return Values(column.fill_null(pa.scalar(False)).to_numpy(zero_copy_only=False), known)
        case ValueKind.TIMESTAMP:
            column = column.cast(pa.int64())
    return Values(column.fill_null(0).to_numpy(zero_copy_only=False), known)
