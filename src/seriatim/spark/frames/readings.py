"""The kernel's reading of numbers and times (`kernel/values/reading.py`) as expressions of Spark over a column."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import (
    BLANK_TEXT,
    LARGEST_EXACT,
    LAST_NUMBER,
    LSN_TEXT,
    TIME_TEXT,
    WHOLE_TEXT,
    ZONED_TEXT,
)
from seriatim.spark.frames.columns import TURN_OVER, microseconds

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_REMEDY = "name a column of whole numbers, or of text, decimals or floats that are whole numbers"


class Numbers(NamedTuple):
    """The number of each value, null if there is none, and the `Reason` for a missing number. `problem` is null where the value is missing;
    it is None if no value can have another problem.
    """

    number: Column
    problem: Column | None


def whole_numbers(kind: T.DataType, column: Column, name: str, role: str) -> Numbers:
    match kind:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return Numbers(column.cast("long"), None)
        case T.StringType():
            whole, lsn = _fits(column, WHOLE_TEXT), _fits(column, LSN_TEXT)
            number = F.when(whole, column.try_cast("long")).when(lsn, _of_lsn(column))
            problem = F.when(whole | lsn, why(Reason.SEQUENCE_OVERFLOWS)).otherwise(why(Reason.SEQUENCE_NOT_A_NUMBER))
            return Numbers(number, F.when(number.isNull() & ~_fits(column, BLANK_TEXT), problem))
        case T.DecimalType():
            # Not by comparison with a rounded decimal: their common type may have fewer places, and 10.01 become 10.
            whole = F.coalesce(column % 1 == 0, F.lit(False))
            number = F.when(whole, column.try_cast("long"))
            problem = F.when(whole, why(Reason.SEQUENCE_OVERFLOWS)).otherwise(why(Reason.SEQUENCE_NOT_A_NUMBER))
            return Numbers(number, F.when(column.isNotNull() & number.isNull(), problem))
        case T.FloatType() | T.DoubleType():
            wide = column.cast("double")
            whole = F.coalesce((F.rint(wide) == wide) & (F.abs(wide) < F.lit(float("inf"))), F.lit(False))
            largest = LARGEST_EXACT[32 if isinstance(kind, T.FloatType) else 64]
            number = F.when(whole & (F.abs(wide) <= F.lit(float(largest))), wide.try_cast("long"))
            problem = F.when(whole, why(Reason.SEQUENCE_INEXACT)).otherwise(why(Reason.SEQUENCE_NOT_A_NUMBER))
            return Numbers(number, F.when(column.isNotNull() & number.isNull(), problem))
    raise ColumnError(f"a {role} can't be a {kind.simpleString()}", where=f"column {name!r}", remedy=_REMEDY)


def sequence_numbers(field: T.StructField, column: Column, name: str) -> Numbers:
    """Read sequences as `kernel.reading.sequence_number` does: tickets, and everything that is a whole number."""
    kind = field.dataType
    if not isinstance(kind, T.StructType) or not {"epoch", "number"} <= set(kind.fieldNames()):
        return whole_numbers(kind, column, name, "sequence")
    for part in ("epoch", "number"):
        if not isinstance(kind[part].dataType, _INTEGRAL):
            text = f"the {part} of a ticket can't be a {kind[part].dataType.simpleString()}"
            raise ColumnError(text, where=f"column {name!r}", remedy="cast it to bigint")
    epoch, number = column["epoch"].cast("long"), column["number"].cast("long")
    valid = (epoch >= 0) & (number >= 1)
    position = F.when(valid, F.try_add(F.try_multiply(epoch, _last_number(field, column)), number))
    problem = F.when(valid, why(Reason.SEQUENCE_OVERFLOWS)).otherwise(why(Reason.SEQUENCE_NOT_A_NUMBER))
    return Numbers(position, F.when(epoch.isNotNull() & number.isNotNull() & position.isNull(), problem))


def moments(kind: T.DataType, column: Column, name: str) -> Numbers:
    """Read times as `kernel.reading.moment` does; a time without a time zone is in UTC, whatever zone the session has."""
    if not isinstance(kind, T.StringType):
        return Numbers(microseconds(kind, column, name, "sequence"), None)
    zoned = F.unix_micros(column.try_cast("timestamp"))
    local = column.try_cast("timestamp_ntz")
    moment = F.when(_fits(column, ZONED_TEXT), zoned).when(
        _fits(column, TIME_TEXT), microseconds(T.TimestampNTZType(), local, name, "sequence")
    )
    return Numbers(moment, F.when(moment.isNull() & ~_fits(column, BLANK_TEXT), why(Reason.SEQUENCE_NOT_A_TIME)))


def _of_lsn(column: Column) -> Column:
    """The number of an LSN; null if it is too large for a long."""
    halves = [F.conv(F.split_part(column, F.lit("/"), F.lit(n)), 16, 10).cast("long") for n in (1, 2)]
    return F.when(halves[0] < 2**31, F.shiftleft(halves[0], 32) + halves[1])


def _fits(column: Column, pattern: str) -> Column:
    return column.rlike(rf"\A(?:{pattern})\z")


def why(reason: Reason) -> Column:
    return F.lit(int(reason))


def _last_number(ticket: T.StructField, column: Column) -> Column:
    stored = (ticket.metadata or {}).get(TURN_OVER, LAST_NUMBER)
    if not isinstance(stored, dict):
        return F.lit(stored).cast("long")
    last = F.lit(LAST_NUMBER)
    for location, last_number in stored.items():
        last = F.when(column["location"] == location, F.lit(last_number)).otherwise(last)
    return last.cast("long")
