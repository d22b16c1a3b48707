"""The operator's input for each message: key, number, size, time and order of arrival, as Spark expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError
from seriatim.kernel.outcome import Reason
from seriatim.kernel.policy import BestEffort, Fifo, UnitOfWork, Unordered
from seriatim.kernel.sequence import LAST_NUMBER, MAX_KEY_BYTES
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.frames.columns import NESTED, TURN_OVER, located, microseconds, quoted, type_of
from seriatim.spark.resequence import bucket as names
from seriatim.spark.route.filter_expressions import Properties, condition
from seriatim.spark.state.packets import EACH

__all__ = ["arrival_of", "prepared"]

_INTEGRAL = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def _key(df: DataFrame, queue: Queue) -> Column | None:
    if queue.group is None or isinstance(queue.policy, Unordered):
        return None
    field, column = located(df, queue.group, "group")
    kind = field.dataType
    if isinstance(kind, NESTED):
        raise ColumnError(
            f"a group key can't be a {kind.simpleString()}",
            where=f"column {queue.group!r}",
            remedy="name a field of it",
        )
    key = column if isinstance(kind, T.BinaryType) else column.cast("string").cast("binary")
    if queue.default_group is None:
        return key
    text = key.cast("string")
    fits = F.octet_length(key).between(1, MAX_KEY_BYTES) & F.is_valid_utf8(text) & (F.locate("\0", text) == 0)
    return F.when(F.coalesce(fits, F.lit(False)), key).otherwise(F.lit(queue.default_group).cast("binary"))


def _sequence(df: DataFrame, queue: Queue) -> tuple[Column | None, Column | None]:  # noqa: PLR0911 - one return a type
    """The number of a sequence, and the `Reason` if it isn't one (null: it is missing)."""
    if queue.sequence is None or isinstance(queue.policy, Fifo | Unordered):
        return None, None
    field, column = located(df, queue.sequence, "sequence")
    kind = field.dataType
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
            epoch, last_number = column["epoch"].cast("long"), _last_number(field, column)
            number = F.try_add(F.try_multiply(epoch, last_number), column["number"])
            whole_ticket = F.when(column["epoch"].isNotNull() & column["number"].isNotNull(), column)
            return number, _problem(whole_ticket, number, F.lit(True))
    raise ColumnError(
        f"a sequence can't be a {kind.simpleString()}",
        where=f"column {queue.sequence!r}",
        remedy='whole numbers, text with whole numbers, a ticket, or timestamps with BestEffort(by="time")',
    )


def _last_number(ticket: T.StructField, column: Column) -> Column:
    """The last number of a column's tickets."""
    told = (ticket.metadata or {}).get(TURN_OVER, LAST_NUMBER)
    if not isinstance(told, dict):
        return F.lit(told)
    found = F.lit(LAST_NUMBER)
    for location, last_number in told.items():
        found = F.when(column["location"] == location, F.lit(last_number)).otherwise(found)
    return found


def _problem(column: Column, number: Column, whole: Column) -> Column:
    reason = F.when(whole, F.lit(int(Reason.SEQUENCE_OVERFLOWS))).otherwise(F.lit(int(Reason.SEQUENCE_NOT_A_NUMBER)))
    return F.when(column.isNotNull() & number.isNull(), reason)


def _size(df: DataFrame, queue: Queue) -> Column | None:
    """The size of its set that a message contains, null if it has none; None if no message has one."""
    if isinstance(queue.policy, UnitOfWork):
        policy = queue.policy
        if isinstance(policy.last, str):
            properties = Properties.of(df)
            last = properties.parsed(policy.last, f"queue {queue.name!r}: last")
            return F.when(condition(last, properties.columns), _sequence(df, queue)[0])
        if isinstance(policy.size, str):
            field, column = located(df, policy.size, "size")
            if not isinstance(field.dataType, _INTEGRAL):
                raise ColumnError("a size must be a whole number", where=f"column {policy.size!r}", remedy="cast it")
            return column.cast("long")
        if not isinstance(policy.size, int):
            raise ColumnError(
                "on Spark, size must be the name of a column and last a filter; functions are not supported"
            )
    return None


def _tie(df: DataFrame) -> Column:
    """A hash of the whole row; values that Spark can't hash are taken as JSON."""

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
        quoted(field.name) if plain(field.dataType) else F.to_json(F.struct(quoted(field.name)))
        for field in df.schema
        if not isinstance(field.dataType, T.NullType)
    ]
    return F.xxhash64(*hashed)


def arrival_of(df: DataFrame, arrival: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The columns, and fields of columns, of the order of arrival; a ticket is its epoch and number."""
    found: list[tuple[str, ...]] = []
    for name in arrival:
        kind = type_of(df, name, "order of arrival")
        if isinstance(kind, T.StructType) and {"epoch", "number"} <= set(kind.fieldNames()):
            # Of two locations' equal tickets none was first; but a batch that runs again has to decide alike.
            fields = ["epoch", "number", *(["location"] if "location" in kind.fieldNames() else [])]
            found += [(name, field) for field in fields]
        elif isinstance(kind, NESTED):
            raise ColumnError(f"a {kind.simpleString()} has no order", where=f"column {name!r}")
        else:
            found.append((name,))
    return tuple(found)


def prepared(
    df: DataFrame,
    queues: Sequence[Queue],
    destination: str | None,
    time: str | None,
    invalid: str | None,
    buckets: int,
    bucket_column: str,
    *,
    ties: bool,
) -> DataFrame:
    """The frame with seriatim's columns as far as they are needed; `ties`: also a hash of each row, for equal sequences.

    If a row names several destinations, they are in `EACH`, with seriatim's columns for each destination.
    """
    if invalid is not None:
        type_of(df, invalid, "reason")

    def ours(where: Column | None) -> list[Column]:
        return _ours(df, queues, where, time, buckets, bucket_column, ties=ties)

    if destination is None:
        return df.select(*map(quoted, df.columns), *ours(None))
    match type_of(df, destination, "destination"):
        case T.StringType():
            return df.select(*map(quoted, df.columns), *ours(quoted(destination)))
        case T.ArrayType(elementType=T.StringType()):
            several = quoted(destination)
            # No message gets lost because it names nothing: it is set aside, as one whose destination is null.
            several = F.when(F.size(several) > 0, several).otherwise(F.array(F.lit(None).cast("string")))
            each = F.transform(several, lambda one: F.struct(one.alias(destination), *ours(one)))
            return df.select(*[quoted(name) for name in df.columns if name != destination], each.alias(EACH))
        case kind:
            what = f"a destination is a name, not a {kind.simpleString()}"
            raise ColumnError(what, where=f"column {destination!r}", remedy="cast it to string")


def _ours(
    df: DataFrame,
    queues: Sequence[Queue],
    where: Column | None,
    time: str | None,
    buckets: int,
    bucket_column: str,
    *,
    ties: bool,
) -> list[Column]:
    """Seriatim's columns of a message for the destination `where`."""
    ours: dict[str, Column | None] = {
        names.KEY: _of_any(where, queues, _key_source, lambda queue: _key(df, queue), "binary"),
        names.SEQUENCE: _of_any(where, queues, _sequence_source, lambda queue: _sequence(df, queue)[0], "long"),
        names.PROBLEM: _of_any(where, queues, _sequence_source, lambda queue: _sequence(df, queue)[1], "int"),
        names.SIZE: _of_any(where, queues, _size_source, lambda queue: _size(df, queue), "long"),
        names.TIME: None,
    }
    if time is not None:
        ours[names.TIME] = microseconds(type_of(df, time, "event time"), quoted(time), time, "event time")
    if ties:
        ours[names.TIE] = _tie(df)
    ours[bucket_column] = F.pmod(_spread(df, queues, where, ours[names.KEY]), F.lit(buckets)).cast("int")
    return [column.alias(name) for name, column in ours.items() if column is not None]


def _spread(df: DataFrame, queues: Sequence[Queue], where: Column | None, key: Column | None) -> Column:
    """A hash that is the same for the messages of one group; messages without a group are spread over all buckets."""
    if key is None:
        return _tie(df)
    by_group = F.xxhash64(F.lit("") if where is None else where, key)
    alone = [queue.name for queue in queues if isinstance(queue.policy, Unordered)]
    return F.when(where.isin(alone), _tie(df)).otherwise(by_group) if where is not None and alone else by_group


def _key_source(queue: Queue) -> object:
    """A value that is equal for queues that find groups in the same way; the next two functions do so for sequences and sizes."""
    return None if isinstance(queue.policy, Unordered) else (queue.group, queue.default_group)


def _sequence_source(queue: Queue) -> object:
    if queue.sequence is None or isinstance(queue.policy, Fifo | Unordered):
        return None
    return queue.sequence, isinstance(queue.policy, BestEffort) and queue.policy.by == "time"


def _size_source(queue: Queue) -> object:
    policy = queue.policy
    return (policy.size, policy.last, queue.sequence) if isinstance(policy, UnitOfWork) else None


def _of_any(
    where: Column | None,
    queues: Sequence[Queue],
    source: Callable[[Queue], object],
    column_of: Callable[[Queue], Column | None],
    kind: str,
) -> Column | None:
    """A column that differs by queue; None if no queue has it, so that it needn't be sent.

    The number of expressions is the number of different sources, however many queues there are.
    """
    alike: dict[object, list[Queue]] = {}
    for queue in queues:
        alike.setdefault(source(queue), []).append(queue)
    columns = [(column_of(some[0]), [queue.name for queue in some]) for some in alike.values()]
    if all(column is None for column, _ in columns):
        return None
    (chosen, _), *others = [(F.lit(None) if column is None else column, mine) for column, mine in columns]
    if where is not None and others:
        for column, mine in others:
            chosen = F.when(where.isin(mine), column).otherwise(chosen)
        return chosen.cast(kind)
    return chosen
