"""What the operator needs of a frame's columns: keys, numbers and times, as Spark expressions.

Owns which types of columns fit, and the errors where they don't.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError
from seriatim.kernel.outcome import Reason
from seriatim.kernel.policy import BestEffort, Fifo, UnitOfWork, Unordered
from seriatim.kernel.sequence import LAST_NUMBER, MAX_KEY_BYTES
from seriatim.pipeline.queue import Queue
from seriatim.spark import bucket as names

__all__ = ["check_columns", "microseconds", "prepared"]

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_MOMENTS = (T.TimestampType, T.TimestampNTZType, T.DateType)
_NESTED = (T.ArrayType, T.MapType, T.StructType, T.VariantType)


def check_columns(df: DataFrame, ours: Sequence[str]) -> None:
    """Refuses a frame with columns that we add ourselves, that are ambiguous, or that Arrow can't carry.

    Raises:
        ColumnError: names the column.
    """
    seen: set[str] = set()
    for field in df.schema:
        if field.name in ours or field.name.startswith("__sq_"):
            raise ColumnError("seriatim adds a column of that name", where=f"column {field.name!r}", remedy="rename it")
        if field.name.lower() in seen:
            raise ColumnError("the frame has it twice", where=f"column {field.name!r}", remedy="rename or drop one")
        seen.add(field.name.lower())
        if isinstance(field.dataType, T.YearMonthIntervalType):
            raise ColumnError(
                f"Spark can't hand {field.dataType.simpleString()} to Python",
                where=f"column {field.name!r}",
                remedy="cast it to a number of months",
            )


def _type_of(df: DataFrame, name: str, role: str) -> T.DataType:
    for field in df.schema:
        if field.name == name:
            return field.dataType
    raise ColumnError(
        f"there is no such column for the {role}",
        where=f"column {name!r}",
        remedy=f"the frame has {', '.join(df.columns)}",
    )


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def _key(df: DataFrame, queue: Queue) -> Column | None:
    if queue.group is None or isinstance(queue.policy, Unordered):
        return None
    kind = _type_of(df, queue.group, "group")
    if isinstance(kind, _NESTED):
        raise ColumnError(
            f"a group key can't be a {kind.simpleString()}",
            where=f"column {queue.group!r}",
            remedy="name a field of it",
        )
    column = _quoted(queue.group)
    key = column if isinstance(kind, T.BinaryType) else column.cast("string").cast("binary")
    if queue.default_group is None:
        return key
    text = key.cast("string")
    fits = F.octet_length(key).between(1, MAX_KEY_BYTES) & F.is_valid_utf8(text) & (F.locate("\0", text) == 0)
    return F.when(F.coalesce(fits, F.lit(False)), key).otherwise(F.lit(queue.default_group).cast("binary"))


def _sequence(df: DataFrame, queue: Queue) -> tuple[Column | None, Column | None]:  # noqa: PLR0911 - one return a type
    """The number that a sequence stands for, and the `Reason` where it is none (null: it is missing)."""
    if queue.sequence is None or isinstance(queue.policy, Fifo | Unordered):
        return None, None
    kind, column = _type_of(df, queue.sequence, "sequence"), _quoted(queue.sequence)
    if isinstance(queue.policy, BestEffort) and queue.policy.by == "time":
        if isinstance(kind, T.StringType):
            moment = F.try_to_timestamp(column)
            return F.unix_micros(moment), _problem(column, moment, F.lit(False))
        return microseconds(kind, column, queue.sequence, "sequence"), None
    match kind:
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return column.cast("long"), None
        case T.StringType():
            whole = F.trim(column).rlike(r"\A[+-]?[0-9]+\z")
            number = F.when(whole, F.trim(column).try_cast("long"))
            return number, _problem(column, number, whole)
        case T.DecimalType() | T.FloatType() | T.DoubleType():
            wide = column.cast("double") if isinstance(kind, T.FloatType) else column
            # Not by comparison with a rounded decimal: their common type may have fewer places, and 10.01 become 10.
            finite = (F.rint(wide) == wide) & (F.abs(wide) < F.lit(float("inf")))
            whole = F.coalesce(wide % 1 == 0 if isinstance(kind, T.DecimalType) else finite, F.lit(False))
            number = F.when(whole, wide.try_cast("long"))
            return number, _problem(column, number, whole)
        case T.StructType() if {"epoch", "number"} <= set(kind.fieldNames()):
            number = F.try_add(F.try_multiply(column["epoch"].cast("long"), F.lit(LAST_NUMBER)), column["number"])
            whole_ticket = F.when(column["epoch"].isNotNull() & column["number"].isNotNull(), column)
            return number, _problem(whole_ticket, number, F.lit(True))
    raise ColumnError(
        f"a sequence can't be a {kind.simpleString()}",
        where=f"column {queue.sequence!r}",
        remedy='whole numbers, text with whole numbers, a ticket, or timestamps with BestEffort(by="time")',
    )


def _problem(column: Column, number: Column, whole: Column) -> Column:
    reason = F.when(whole, F.lit(int(Reason.SEQUENCE_OVERFLOWS))).otherwise(F.lit(int(Reason.SEQUENCE_NOT_A_NUMBER)))
    return F.when(column.isNotNull() & number.isNull(), reason)


def microseconds(kind: T.DataType, column: Column, name: str, role: str) -> Column:
    """A moment as microseconds since 1970; one without a time zone counts as UTC.

    Raises:
        ColumnError: the column has no moments.
    """
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


def _size(df: DataFrame, queue: Queue) -> Column | None:
    """The size of its set that a message tells, null where it doesn't; None where no message does."""
    if isinstance(queue.policy, UnitOfWork):
        policy = queue.policy
        if isinstance(policy.last, str):
            return F.when(F.expr(policy.last), _sequence(df, queue)[0])
        if isinstance(policy.size, str):
            if not isinstance(_type_of(df, policy.size, "size"), _INTEGRAL):
                raise ColumnError("a size must be a whole number", where=f"column {policy.size!r}", remedy="cast it")
            return _quoted(policy.size).cast("long")
        if not isinstance(policy.size, int):
            raise ColumnError("on Spark size and last are names of columns and filters, not functions")
    return None


def _tie(df: DataFrame) -> Column:
    """A hash of the whole row; what Spark can't hash goes as JSON."""

    def plain(kind: T.DataType) -> bool:
        match kind:
            case T.MapType() | T.VariantType():
                return False
            case T.ArrayType(elementType=element):
                return plain(element)
            case T.StructType(fields=fields):
                return all(plain(field.dataType) for field in fields)
        return True

    hashed = [
        _quoted(field.name) if plain(field.dataType) else F.to_json(F.struct(_quoted(field.name)))
        for field in df.schema
        if not isinstance(field.dataType, T.NullType)
    ]
    return F.xxhash64(*hashed)


def _arrival(df: DataFrame, arrival: Sequence[str]) -> list[Column]:
    """The columns that say in which order messages arrived; a ticket counts as its epoch and number."""
    columns: list[Column] = []
    for name in arrival:
        kind = _type_of(df, name, "order of arrival")
        if isinstance(kind, T.StructType) and {"epoch", "number"} <= set(kind.fieldNames()):
            columns += [_quoted(name)["epoch"], _quoted(name)["number"]]
        elif isinstance(kind, _NESTED):
            raise ColumnError(f"a {kind.simpleString()} has no order", where=f"column {name!r}")
        else:
            columns.append(_quoted(name))
    return columns


def prepared(
    df: DataFrame,
    queues: Sequence[Queue],
    destination: str | None,
    arrival: Sequence[str],
    time: str | None,
    invalid: str | None,
    buckets: int,
    bucket_column: str,
) -> tuple[DataFrame, int]:
    """The frame with our columns as far as they are needed, and how many of them settle ties."""
    number: Column | None = None
    keys, sequences, problems, sizes = [], [], [], []
    for queue in queues:
        keys.append(_key(df, queue))
        sequence, problem = _sequence(df, queue)
        sequences.append(sequence)
        problems.append(problem)
        sizes.append(_size(df, queue))
    if invalid is not None:
        _type_of(df, invalid, "reason")
    why = None if invalid is None else _quoted(invalid)
    chosen = {
        names.KEY: (keys, "binary"),
        names.SEQUENCE: (sequences, "long"),
        names.PROBLEM: (problems, "int"),
        names.SIZE: (sizes, "long"),
    }
    if destination is not None:
        _type_of(df, destination, "destination")
        where = _quoted(destination)
        number = F.coalesce(_by_queue(where, queues, [F.lit(n) for n in range(len(queues))]), F.lit(0))
        known = F.coalesce(where.isin([queue.name for queue in queues]), F.lit(False))
        stray = F.concat(
            F.lit("no queue is named "), F.coalesce(F.concat(F.lit("'"), where, F.lit("'")), F.lit("null"))
        )
        why = F.when(~known, stray) if why is None else F.coalesce(why, F.when(~known, stray))
    ours: dict[str, Column | None] = {
        name: _of_any(where if destination is not None else None, queues, each, kind)
        for name, (each, kind) in chosen.items()
    }
    ours |= {names.QUEUE: number, names.INVALID: why, names.TIME: None}
    if time is not None:
        ours[names.TIME] = microseconds(_type_of(df, time, "event time"), _quoted(time), time, "event time")
    ties = _arrival(df, arrival)
    ours |= {f"{names.ARRIVAL}{n}": column for n, column in enumerate(ties)}
    if not ties:
        ours[names.TIE] = _tie(df)
    key = ours[names.KEY]
    spread = _tie(df) if key is None else F.xxhash64(F.lit(0) if number is None else number, key)
    ours[bucket_column] = F.pmod(spread, F.lit(buckets)).cast("int")
    added = [column.alias(name) for name, column in ours.items() if column is not None]
    return df.select(*[_quoted(c) for c in df.columns], *added), len(ties)


def _by_queue(where: Column, queues: Sequence[Queue], each: Sequence[Column]) -> Column:
    chosen = F.when(where == queues[0].name, each[0])
    for queue, column in zip(queues[1:], each[1:], strict=True):
        chosen = chosen.when(where == queue.name, column)
    return chosen


def _of_any(where: Column | None, queues: Sequence[Queue], each: Sequence[Column | None], kind: str) -> Column | None:
    """A column that differs by queue; None if no queue has it, so that it needn't travel."""
    if all(column is None for column in each):
        return None
    if where is None:
        return each[0]
    return _by_queue(where, queues, [F.lit(None) if column is None else column for column in each]).cast(kind)
