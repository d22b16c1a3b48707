"""The results of the user's functions: read them, or refuse them with the expected form; and the texts of their exceptions.

This module decides which types fit. A result of the wrong shape is the fault of the function, whatever the messages
are; a value that doesn't fit its type is the fault of one message, like an exception.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.errors import UsageError
from seriatim.kernel.values.columns import Ints
from seriatim.spark.calls.child_process import Ended

_ID = "message_id"
_OURS = Path(__file__).parents[1]
_LONGEST_LINE = 300
_LONGEST_TRACE = 4000

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_NUMBER = (pa.types.is_integer, pa.types.is_floating)
#: The types that each type may be returned as.
_FITTING: tuple[tuple[Callable[..., bool], tuple[Callable[..., bool], ...]], ...] = (
    (pa.types.is_string, _TEXT),
    (pa.types.is_binary, (*_TEXT, pa.types.is_large_binary, pa.types.is_binary_view)),
    (pa.types.is_decimal, (pa.types.is_decimal, pa.types.is_integer)),
    (pa.types.is_timestamp, (pa.types.is_timestamp,)),
    (pa.types.is_integer, _NUMBER),
    (pa.types.is_floating, _NUMBER),
)


class Unfit(ValueError):
    """A value that doesn't fit its column's type."""


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """The function's rows, in order of the messages."""

    #: For each row the place of the message that it was made of; ascending.
    source: Ints
    #: The values of the requested columns, in their types.
    columns: Mapping[str, pa.Array]

    def moved(self, start: int) -> FunctionResult:
        """The same results for messages that begin at place `start`."""
        return replace(self, source=self.source + start)


@dataclass(frozen=True, slots=True)
class Failure:
    #: The exception, or the end of the process, in one line.
    line: str
    #: The same with the function's name, and with the traceback if there is one.
    told: str
    #: The exception, if it was raised in this process.
    error: BaseException | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (Failure, (self.line, self.told))  # not every exception survives pickling

    @classmethod
    def of(cls, error: BaseException, name: str) -> Failure:
        return cls(line_of(error), told(error, name), error)

    @classmethod
    def ended(cls, ended: Ended, name: str) -> Failure:
        line = f"it ended its process: {ended}"
        return cls(line, f"process {name}: {line}")


def array_of(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def understood(result: Any, ids: pa.ChunkedArray, returns: Mapping[str, pa.DataType], name: str) -> FunctionResult:
    wanted = ", ".join([f"{_ID} string", *(f"{column} {kind}" for column, kind in returns.items())])
    where, remedy = f"process {name}", f"return a pyarrow.Table with {wanted}"
    if not isinstance(result, pa.Table | pa.RecordBatch):
        raise UsageError(f"the function returned a {type(result).__name__}", where=where, remedy=remedy)
    for column, kind in ((_ID, pa.string()), *returns.items()):
        types = [field.type for field in result.schema if field.name == column]
        if len(types) != 1:
            problem = "twice" if types else f"not, but {', '.join(result.schema.names)[:_LONGEST_LINE] or 'no column'}"
            raise UsageError(f"the function returned the column {column} {problem}", where=where, remedy=remedy)
        if not _fits(types[0], kind):
            problem = f"the function returned {column} as {types[0]}, which is not safely a {kind}"
            raise UsageError(problem, where=where, remedy=remedy)
    source, order = _places(_cast(result, _ID, pa.string()), array_of(ids), where)
    columns = {column: _cast(result, column, kind) for column, kind in returns.items()}
    if order is not None:
        columns = {column: values.take(order) for column, values in columns.items()}
    return FunctionResult(source, columns)


def _places(answered: pa.Array, ids: pa.Array, where: str) -> tuple[Ints, pa.Array | None]:
    """For each row its message, and the order that sorts the rows by message; None: they are sorted."""
    if answered.equals(ids):
        return np.arange(len(ids)), None
    places = pc.index_in(answered, value_set=ids)
    if places.null_count:
        unknown = answered.filter(pc.is_null(places))[0].as_py()
        shown = repr(unknown)[:_LONGEST_LINE]
        remedy = "return the message_id of the message that a row was made of; of several rows each has the same"
        raise UsageError(f"the function returned message_id {shown}, which it did not get", where=where, remedy=remedy)
    positions = places.to_numpy().astype(np.int64)
    order = np.argsort(positions, kind="stable")
    return positions[order], pa.array(order)


def _fits(actual: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a column of one type may be returned for another type; a value may still be too large, or have a fraction."""
    if pa.types.is_dictionary(actual):
        actual = actual.value_type
    if actual == wanted or pa.types.is_null(actual):
        return True
    return any(is_wanted(wanted) and any(fits(actual) for fits in fitting) for is_wanted, fitting in _FITTING)


def _cast(table: pa.Table | pa.RecordBatch, column: str, kind: pa.DataType) -> pa.Array:
    values = array_of(table.column(column))
    if values.type == kind:
        return values
    try:
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_decimal(kind) and pa.types.is_integer(values.type):
            # A whole number counts as one of 19 digits, whatever its size: it is widened first.
            values = values.cast(pa.decimal256(76, 0))
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise Unfit(f"the function returned {column}: {error}") from None


def line_of(error: BaseException) -> str:
    told_in = str(error) if isinstance(error, Unfit) else "".join(traceback.format_exception_only(error))
    text = " ".join(told_in.split())
    return _printable(text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…")


def told(error: BaseException, name: str) -> str:
    """The reason why a message failed: the exception in one line, and below it the traceback, from the user's code on."""
    below = error.__traceback__
    while below is not None and Path(below.tb_frame.f_code.co_filename).is_relative_to(_OURS):
        below = below.tb_next
    first = f"process {name}: {line_of(error)}"
    if below is None or isinstance(error, Unfit):
        return first
    trace = "".join(traceback.TracebackException(type(error), error, below, compact=True).format()).rstrip()
    if len(trace) > _LONGEST_TRACE:
        trace = f"{trace[: _LONGEST_TRACE // 4]}\n…\n{trace[-_LONGEST_TRACE * 3 // 4 :]}"
    return f"{first}\n{_printable(trace)}"


def _printable(text: str) -> str:
    """The text without halves of surrogate pairs, which files can't store."""
    return text.encode("utf-8", "backslashreplace").decode()
