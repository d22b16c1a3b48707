"""The operator's input for each message, as Spark expressions: key, number, size, time, content, and order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.kernel.policies.copies import REGIONS, region_bit
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import of_size
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE
from seriatim.spark.frames.columns import NESTED, located, microseconds, quoted, type_of
from seriatim.spark.frames.readings import Numbers, moments, sequence_numbers, whole_numbers
from seriatim.spark.resequence import bucket as names
from seriatim.spark.resequence.number_columns import has_rules, holds, position, said
from seriatim.spark.route.filter_expressions import Properties, condition
from seriatim.spark.state.packets import EACH

# A column of a frame for a queue; None: the queue has none.
_ColumnOf = Callable[[DataFrame, Queue], Column | None]

#: The column that is compared where a queue names none.
BODY = "body"


@dataclass(frozen=True, slots=True)
class Merge:
    """The messages of two regions: the `region` of a message, and the `identity` that it has in both, of any atomic type."""

    region: Column
    identity: Column

    @property
    def bits(self) -> Column:
        """The region among the bits of a message; 0: it is none."""
        column = F.lit(0)
        for name in REGIONS:
            column = F.when(self.region == name, F.lit(region_bit(name))).otherwise(column)
        return column

    def fingerprint(self, df: DataFrame, queue: Queue) -> Column | None:
        """A number for the id and the compared columns, never 0; null: there is no id. None: the queue needs none."""
        if not isinstance(queue.policy, Fifo | Standard):
            return None
        identity = self.identity.cast("string")
        columns = [identity] if queue.compare is None else [identity, _fingerprint(df, queue)]
        hashed = F.xxhash64(*columns)
        return F.when(self.identity.isNotNull(), F.when(hashed == 0, F.lit(1)).otherwise(hashed))


def _key(df: DataFrame, queue: Queue) -> Column | None:
    if queue.group.by is None or isinstance(queue.policy, Unordered):
        return None
    if queue.group.by == WHOLE_QUEUE:
        return F.lit(queue.group.default).cast("binary")
    field, column = located(df, queue.group.by, "group")
    kind = field.dataType
    if isinstance(kind, NESTED):
        raise ColumnError(
            f"a group key can't be a {kind.simpleString()}",
            where=f"column {queue.group.by!r}",
            remedy="name a field of it",
        )
    key = column if isinstance(kind, T.BinaryType) else column.cast("string").cast("binary")
    if queue.group.default is None:
        return key
    text = key.cast("string")
    fits = F.octet_length(key).between(1, MAX_KEY_BYTES) & F.is_valid_utf8(text) & (F.locate("\0", text) == 0)
    return F.when(F.coalesce(fits, F.lit(False)), key).otherwise(F.lit(queue.group.default).cast("binary"))


def _sequence(df: DataFrame, queue: Queue) -> Numbers | None:
    if by_position(queue.policy):
        found = position(df, queue)
        return Numbers(F.when(found.number.isNotNull(), F.lit(0).cast("long")), found.problem)
    if queue.numbered_by is None or isinstance(queue.policy, Fifo | Unordered):
        return None
    if has_rules(queue):
        its = said(df, queue)
        return Numbers(its.number, its.problem)
    field, column = located(df, queue.numbered_by, "sequence")
    if isinstance(queue.policy, BestEffort) and queue.policy.by == "time":
        return moments(field.dataType, column, queue.numbered_by)
    return sequence_numbers(field, column, queue.numbered_by)


def _number(df: DataFrame, queue: Queue) -> Column | None:
    numbers = _sequence(df, queue)
    return None if numbers is None else numbers.number


def _problem(df: DataFrame, queue: Queue) -> Column | None:
    """The `Reason` if a sequence or a size isn't a number; null if there is no problem, or the value is missing."""
    problems = [numbers.problem for numbers in (_sequence(df, queue),) if numbers and numbers.problem is not None]
    sizes = _sizes(df, queue)
    if sizes is not None and sizes.problem is not None:
        reasons = [Reason.SEQUENCE_NOT_A_NUMBER, Reason.SEQUENCE_INEXACT, Reason.SEQUENCE_OVERFLOWS]
        of_sizes = F.lit(None).cast("int")
        for reason in reasons:
            of_sizes = F.when(sizes.problem == int(reason), F.lit(int(of_size(reason)))).otherwise(of_sizes)
        number = _number(df, queue)
        # A message whose sequence is missing is invalid for that reason, whatever its size.
        problems.append(of_sizes if number is None else F.when(number.isNotNull(), of_sizes))
    return F.coalesce(*problems) if problems else None


def _sizes(df: DataFrame, queue: Queue) -> Numbers | None:
    """The numbers of the sizes; None if no message contains one."""
    if not isinstance(queue.policy, UnitOfWork) or not isinstance(queue.policy.size, str):
        return None
    field, column = located(df, queue.policy.size, "size")
    return whole_numbers(field.dataType, column, queue.policy.size, "size")


def _size(df: DataFrame, queue: Queue) -> Column | None:
    """The size of its set that a message contains, null if it has none; None if no message has one."""
    policy = queue.policy
    if not isinstance(policy, UnitOfWork):
        return None
    if isinstance(policy.last, str):
        properties = Properties.of(df)
        last = properties.parsed(policy.last, f"queue {queue.name!r}: last")
        return F.when(condition(last, properties.columns), cast("Column", _number(df, queue)))
    sizes = _sizes(df, queue)
    if sizes is not None:
        # Each number below 1 is invalid: the lowest number has another meaning in the kernel.
        return F.when(sizes.number.isNotNull(), F.greatest(sizes.number, F.lit(0)))
    if not isinstance(policy.size, int):
        raise ColumnError("on Spark, size must be the name of a column and last a filter; functions are not supported")
    return None


def _through(df: DataFrame, queue: Queue) -> Column | None:
    """The last number that a message covers; None: each covers its own alone."""
    return said(df, queue).through if queue.says.through is not None else None


def _epoch(df: DataFrame, queue: Queue) -> Column | None:
    """The epoch of a message; None: no message has one."""
    return said(df, queue).epoch if queue.says.epoch is not None else None


def _bits(df: DataFrame, queue: Queue) -> Column:
    """Whether a message opens its group, and closes it, as bits."""
    properties = Properties.of(df)
    bits = F.lit(0)
    for bit, noun, text in ((OPENS, "opens", queue.group.opens), (CLOSES, "closes", queue.group.closes)):
        if text is not None:
            says = condition(properties.parsed(text, f"queue {queue.name!r}: {noun}"), properties.columns)
            bits = bits + F.when(says, F.lit(bit)).otherwise(F.lit(0))
    return bits


def _fingerprint(df: DataFrame, queue: Queue, but: Collection[str] = ()) -> Column | None:
    """A number for the content of a message, never 0; None: the queue compares no messages. Of a queue that compares
    none, messages with which producers begin anew are compared all the same: their bodies, or their rows without the columns of `but`.
    """
    names, restarts = compared(queue), None
    if names is None:
        restarts = holds(df, queue, "restarts")
        if restarts is None:
            return None
        names = (BODY,) if BODY in df.columns else tuple(name for name in df.columns if name not in but)
    content = {name: located(df, name, "comparison") for name in sorted(names)}
    if list(content) == [BODY] and isinstance(content[BODY][0].dataType, T.StringType | T.BinaryType):
        hashed = F.xxhash64(content[BODY][1].cast("binary"))
    else:
        columns = [_for_json(column, field.dataType).alias(name) for name, (field, column) in content.items()]
        # Times are written in one zone, whatever zone the session has.
        hashed = F.xxhash64(F.to_json(F.struct(*columns), {"timeZone": "UTC"}))
    hashed = F.when(hashed == 0, F.lit(1)).otherwise(hashed)
    return hashed if restarts is None else F.when(restarts, hashed)


def _for_json(column: Column, kind: T.DataType) -> Column:
    """Return a column whose values JSON can represent: values of other types become text, also nested ones."""
    match kind:
        case T.TimeType() | T.DayTimeIntervalType() | T.NullType():
            return column.cast("string")
        case T.StructType(fields=fields) if not _is_json(kind):
            inner = [_for_json(column.getField(field.name), field.dataType).alias(field.name) for field in fields]
            return F.when(column.isNotNull(), F.struct(*inner))
        case T.ArrayType(elementType=element) if not _is_json(kind):
            return F.transform(column, lambda item: _for_json(item, element))
        case T.MapType(keyType=key, valueType=value) if not _is_json(kind):
            entry = T.StructType([T.StructField("key", key), T.StructField("value", value)])
            return F.transform(F.map_entries(column), lambda item: _for_json(item, entry))
    return column


def _is_json(kind: T.DataType) -> bool:
    """Whether JSON can have the values of a type."""
    match kind:
        case T.TimeType() | T.DayTimeIntervalType() | T.NullType():
            return False
        case T.StructType(fields=fields):
            return all(_is_json(field.dataType) for field in fields)
        case T.ArrayType(elementType=element):
            return _is_json(element)
        case T.MapType(keyType=key, valueType=value):
            return _is_json(key) and _is_json(value)
    return True


def compared(queue: Queue) -> tuple[str, ...] | None:
    """The columns by which a queue compares messages; None: it compares none. Without `compare` it is the body, and only where the last
    ones that left are remembered: a hash of each body costs more than putting it in order.
    """
    if isinstance(queue.policy, UnitOfWork) and not queue.policy.once:
        return queue.compare
    if not isinstance(queue.policy, Standard):
        return None
    if queue.compare is not None:
        return queue.compare
    return (BODY,) if queue.policy.remember else None


def _size_or_bits(df: DataFrame, queue: Queue) -> Column | None:
    """The column that the kernel reads as the size of a message: no queue has both."""
    if has_rules(queue):
        return said(df, queue).bits
    return _bits(df, queue) if queue.has_stays else _size(df, queue)


def _void(df: DataFrame, queue: Queue, void: str | None) -> Column | None:
    """Whether a row leaves nothing: the user's column says so, or a filter does; None: no row."""
    found, only = holds(df, queue, "void"), holds(df, queue, "base_only")
    if only is not None:
        bare = holds(df, queue, "restarts", "unnumbered")  # which are no bases
        only = only if bare is None else only & ~bare
        found = only if found is None else found | only
    own = None if void is None else F.coalesce(quoted(void), F.lit(False))
    return own if found is None else found if own is None else own | found


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
    columns: list[tuple[str, ...]] = []
    for name in arrival:
        kind = type_of(df, name, "order of arrival")
        if isinstance(kind, T.StructType) and {"epoch", "number"} <= set(kind.fieldNames()):
            # Equal tickets of two locations have no order; but a batch that runs again has to decide alike.
            fields = ["epoch", "number", *(["location"] if "location" in kind.fieldNames() else [])]
            columns += [(name, field) for field in fields]
        elif isinstance(kind, NESTED):
            raise ColumnError(f"a {kind.simpleString()} has no order", where=f"column {name!r}")
        else:
            columns.append((name,))
    return tuple(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class OurColumns:
    """Seriatim's columns, as far as they are needed. `time`, `void`: the user's columns of the event time and of voids. `bucket_column`:
    its name. `ties`: also a hash of each row, for equal sequences. `by_key`: a group's bucket goes by its key alone, so that queues with
    the same groups have a message in the same bucket. `merge`: what two regions send. `arrival`: the columns of the order of arrival.
    """

    queues: Sequence[Queue]
    time: str | None
    void: str | None
    buckets: int
    bucket_column: str
    ties: bool
    by_key: bool
    merge: Merge | None
    arrival: Sequence[str] = ()


def prepared(df: DataFrame, columns: OurColumns, destination: str | None, invalid: str | None) -> DataFrame:
    """The frame with seriatim's columns; `destination`, `invalid`: the user's columns with a row's queues, and why it is no message. If a
    row names several destinations, they are in `EACH`, with seriatim's columns for each destination.
    """
    if invalid is not None:
        type_of(df, invalid, "reason")
    void = columns.void
    if void is not None and not isinstance(kind := type_of(df, void, "void"), T.BooleanType):
        raise ColumnError(
            f"whether a row is a void can't be a {kind.simpleString()}",
            where=f"column {void!r}",
            remedy="name a column of booleans",
        )

    def ours(where: Column | None) -> list[Column]:
        return _ours(df, columns, where)

    if destination is None:
        return df.select(*map(quoted, df.columns), *ours(None))
    match type_of(df, destination, "destination"):
        case T.StringType():
            return df.select(*map(quoted, df.columns), *ours(quoted(destination)))
        case T.ArrayType(elementType=T.StringType()):
            several = quoted(destination)
            # A message without a destination isn't lost: it is set aside, like one whose destination is null.
            several = F.when(F.size(several) > 0, several).otherwise(F.array(F.lit(None).cast("string")))
            each = F.transform(several, lambda item: F.struct(item.alias(destination), *ours(item)))
            return df.select(*[quoted(name) for name in df.columns if name != destination], each.alias(EACH))
        case kind:
            problem = f"a destination is a name, not a {kind.simpleString()}"
            raise ColumnError(problem, where=f"column {destination!r}", remedy="cast it to string")


def _ours(df: DataFrame, columns: OurColumns, where: Column | None) -> list[Column]:
    """Seriatim's columns of a message for the destination `where`."""
    queues, time, void, merge = columns.queues, columns.time, columns.void, columns.merge
    of_any = partial(_of_any, df, queues, where)
    fingerprint: _ColumnOf = partial(_fingerprint, but=columns.arrival) if merge is None else merge.fingerprint

    def content(queue: Queue) -> object:
        if merge is None:
            return compared(queue), queue.says.restarts
        return isinstance(queue.policy, Fifo | Standard), queue.compare and compared(queue)

    # No queue of two regions has messages that open or close groups, or that name a size.
    ours: dict[str, Column | None] = {
        names.KEY: of_any(_key_source, _key, "binary"),
        names.SEQUENCE: of_any(_sequence_source, _number, "long"),
        names.PROBLEM: of_any(lambda queue: (_sequence_source(queue), _size_source(queue)), _problem, "int"),
        names.SIZE: of_any(_size_source, _size_or_bits, "long") if merge is None else merge.bits.cast("long"),
        names.FINGERPRINT: of_any(content, fingerprint, "long"),
        names.VOID: of_any(lambda queue: tuple(queue.says.filters.items()), partial(_void, void=void), "boolean"),
        names.THROUGH: of_any(_number_source, _through, "long"),
        names.EPOCH: of_any(_number_source, _epoch, "long"),
        names.POSITION: of_any(lambda queue: by_position(queue.policy) and queue.says, _position, "binary"),
        names.TIME: None,
    }
    if time is not None:
        ours[names.TIME] = microseconds(type_of(df, time, "event time"), quoted(time), time, "event time")
    if columns.ties:
        ours[names.TIE] = _tie(df)
    spread = _spread(df, queues, where, ours[names.KEY], by_key=columns.by_key)
    ours[columns.bucket_column] = F.pmod(spread, F.lit(columns.buckets)).cast("int")
    return [column.alias(name) for name, column in ours.items() if column is not None]


def _spread(
    df: DataFrame, queues: Sequence[Queue], where: Column | None, key: Column | None, *, by_key: bool
) -> Column:
    """A hash that is the same for the messages of one group; messages without a group are spread over all buckets. By key, a message goes
    to a queue without groups in the bucket where the first queue with groups would have it.
    """
    if key is None:
        return _tie(df)
    by_group = F.xxhash64(F.lit("") if where is None or by_key else where, key)
    alone = [queue.name for queue in queues if isinstance(queue.policy, Unordered)]
    if where is None or not alone:
        return by_group
    other = next(_key(df, queue) for queue in queues if queue.name not in alone) if by_key else None
    beside = _tie(df) if other is None else F.when(other.isNotNull(), F.xxhash64(F.lit(""), other)).otherwise(_tie(df))
    return F.when(where.isin(alone), beside).otherwise(by_group)


def _key_source(queue: Queue) -> object:
    """A value that is equal for queues that find groups in the same way; the next two functions do the same for sequences and sizes."""
    return None if isinstance(queue.policy, Unordered) else (queue.group.by, queue.group.default)


def _sequence_source(queue: Queue) -> object:
    if isinstance(queue.policy, Fifo | Unordered):
        return None
    return queue.sequence, getattr(queue.policy, "by", None), getattr(queue.policy, "increment", None)


def _number_source(queue: Queue) -> object:
    return _sequence_source(queue) if has_rules(queue) else None


def _position(df: DataFrame, queue: Queue) -> Column | None:
    return position(df, queue).number if by_position(queue.policy) else None


def _size_source(queue: Queue) -> object:
    policy = queue.policy
    if queue.has_stays:
        return queue.group.opens, queue.group.closes
    if has_rules(queue):
        return _number_source(queue)
    return (policy.size, policy.last, queue.sequence) if isinstance(policy, UnitOfWork) else None


def _of_any(
    df: DataFrame,
    queues: Sequence[Queue],
    where: Column | None,
    source: Callable[[Queue], object],
    column_of: _ColumnOf,
    kind: str,
) -> Column | None:
    """A column that differs by queue; None if no queue has it, so that it needn't be sent. The number of expressions is the number of
    different sources, however many queues there are.
    """
    alike: dict[object, list[Queue]] = {}
    for queue in queues:
        alike.setdefault(source(queue), []).append(queue)
    columns = [(column_of(df, some[0]), [queue.name for queue in some]) for some in alike.values()]
    if all(column is None for column, _ in columns):
        return None
    (chosen, _), *rest = [(F.lit(None) if column is None else column, names) for column, names in columns]
    if where is not None and rest:
        for column, names in rest:
            chosen = F.when(where.isin(names), column).otherwise(chosen)
        return chosen.cast(kind)
    return chosen
