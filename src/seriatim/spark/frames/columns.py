"""Columns of a user's frame: find them by name, quote them, check their types, and raise the errors."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError, UsageError

#: In the metadata of a column of tickets: the last number of an epoch, or one for each location.
TURN_OVER = "seriatim.last_number"

#: Types that have no order, and no text that they could be compared by.
NESTED = (T.ArrayType, T.MapType, T.StructType, T.VariantType)


def columns(**kinds: T.DataType) -> T.StructType:
    """Columns by their names, which may be null."""
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


#: The type of a ticket.
TICKET = columns(location=T.StringType(), epoch=T.LongType(), number=T.LongType())


def check_frame(df: object, function: str) -> None:
    """Refuse an object that isn't a frame of Spark."""
    if isinstance(df, DataFrame):
        return
    kind = type(df)
    library = kind.__module__.partition(".")[0]
    named = f"a {kind.__name__} of {library}" if kind.__name__ == "DataFrame" else f"a {kind.__name__}"
    remedy = f"{function}(spark.createDataFrame(frame), …)" if library in ("pandas", "pyarrow") else ""
    raise UsageError(f"{function} takes a DataFrame of Spark, not {named}", remedy=remedy)


def check_columns(df: DataFrame, ours: Sequence[str]) -> None:
    """Refuse a frame with columns that seriatim adds itself, that are ambiguous, or that Arrow can't represent."""
    seen: set[str] = set()
    for field in df.schema:
        if field.name in ours or field.name.startswith("__sq_"):
            raise ColumnError(
                "seriatim adds a column with this name", where=f"column {field.name!r}", remedy="rename it"
            )
        if "." in field.name:  # PySpark would read it as a field of a column
            remedy = f"rename it: df.withColumnRenamed({field.name!r}, {field.name.replace('.', '_')!r})"
            raise ColumnError(
                "Spark can't hand a name with a dot to Python", where=f"column {field.name!r}", remedy=remedy
            )
        if field.name.lower() in seen:
            raise ColumnError("the frame has it twice", where=f"column {field.name!r}", remedy="rename or drop one")
        seen.add(field.name.lower())
        if isinstance(field.dataType, T.YearMonthIntervalType):
            raise ColumnError(
                f"Spark can't hand {field.dataType.simpleString()} to Python",
                where=f"column {field.name!r}",
                remedy="cast it to a number of months",
            )


def field_of(df: DataFrame, name: str, role: str) -> T.StructField:
    for field in df.schema:
        if field.name == name:
            return field
    path = _path(df.schema, name)
    remedy = f"the frame has {', '.join(df.columns)}"
    if path is not None:
        remedy = (
            f'{name} is a field in a column: df.withColumn("{path[-1].name}", F.col("{name}")), and name that column'
        )
    raise ColumnError(f"there is no such column for the {role}", where=f"column {name!r}", remedy=remedy)


def located(df: DataFrame, name: str, role: str) -> tuple[T.StructField, Column]:
    """A column of the frame, or a field in one by its path (``customer.id``); as `field_of`."""
    path = _path(df.schema, name)
    if path is None:
        return field_of(df, name, role), quoted(name)
    column = quoted(path[0].name)
    for field in path[1:]:
        column = column.getField(field.name)
    return path[-1], column


def _path(schema: T.StructType, name: str) -> list[T.StructField] | None:
    """The fields on the way to a name with dots; None: it leads nowhere."""
    for field in schema:
        if field.name == name:
            return [field]
    for field in schema:
        if name.startswith(f"{field.name}.") and isinstance(field.dataType, T.StructType):
            rest = _path(field.dataType, name.removeprefix(f"{field.name}."))
            if rest is not None:
                return [field, *rest]
    return None


def type_of(df: DataFrame, name: str, role: str) -> T.DataType:
    """The type of a column; errors are those of `field_of`."""
    return field_of(df, name, role).dataType


def quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def microseconds(kind: T.DataType, column: Column, name: str, role: str) -> Column:
    """A timestamp as microseconds since 1970; a timestamp without a time zone counts as UTC."""
    match kind:
        case T.TimestampType():
            return F.unix_micros(column)
        case T.TimestampNTZType():
            return F.timestamp_diff("MICROSECOND", F.lit("1970-01-01 00:00:00").cast("timestamp_ntz"), column)
        case T.DateType():
            return F.unix_date(column).cast("long") * F.lit(86_400_000_000)
    raise ColumnError(
        f"a {role} by time can't be a {kind.simpleString()}", where=f"column {name!r}", remedy="cast it to a timestamp"
    )
