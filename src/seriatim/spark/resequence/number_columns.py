"""What a queue's `Sequence` says of a message, as expressions of Spark: the same as `kernel/groups/number_reader.py` reads of a value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError
from seriatim.kernel.groups.numbers import BASE, RESTARTS, UNNUMBERED
from seriatim.kernel.groups.policy import Standard, UnitOfWork
from seriatim.kernel.groups.positions import DIGITS_TEXT, MOST_BYTES, MOST_DIGITS
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import HIGHEST, LOWEST
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.frames.columns import located
from seriatim.spark.frames.readings import Numbers, sequence_numbers, whole_numbers, why
from seriatim.spark.route.filter_expressions import Properties, condition

#: The columns that say more of a message's number: whether it has numbers that have left before; its number through all turns; whether its
#: set is partial, and the numbers that this lacks.
SHOWN: dict[str, T.DataType] = {
    "overlaps": T.BooleanType(),
    "unwrapped": T.LongType(),
    "partial": T.BooleanType(),
    "missing": T.ArrayType(T.LongType()),
}


@dataclass(frozen=True, slots=True)
class Said:
    """What is said of a message: its number, null if it is invalid, and the `Reason`; the last number that it covers, its epoch, and
    its bits, null if it has none; and whether its producer begins anew with it. None: no message of the queue has it.
    """

    number: Column
    problem: Column
    through: Column
    epoch: Column | None
    bits: Column | None
    restarts: Column | None


def shown_of(queue: Queue) -> tuple[str, ...]:
    """Which of the columns `SHOWN` say something of a queue's messages."""
    policy, says = queue.policy, queue.says
    partial = isinstance(policy, UnitOfWork) and policy.on_timeout == "deliver"
    has = (says.through is not None, says.modulus is not None, partial, partial)
    return tuple(name for name, own in zip(SHOWN, has, strict=True) if own)


def has_rules(queue: Queue) -> bool:
    """Whether a queue's `Sequence` says how numbers are read; who is a void says nothing of numbers."""
    return bool(set(queue.says.says()) - {"void", "format"})


def holds(df: DataFrame, queue: Queue, *names: str) -> Column | None:
    """Whether one of these filters of a queue's `Sequence` holds, never null; None: it has none of them."""
    texts = {name: text for name in names if (text := queue.says.filters.get(name)) is not None}
    if not texts:
        return None
    properties = Properties.of(df)
    parsed = [properties.parsed(text, f"queue {queue.name!r}: {name}") for name, text in texts.items()]
    found = [F.coalesce(condition(one, properties.columns), F.lit(False)) for one in parsed]
    return reduce(Column.__or__, found)


def said(df: DataFrame, queue: Queue) -> Said:
    says, nothing = queue.says, F.lit(None).cast("int")
    restarts, unnumbered = holds(df, queue, "restarts"), holds(df, queue, "unnumbered")
    base = holds(df, queue, "base", "base_only")
    is_base = F.lit(False) if base is None else base
    told = Numbers(F.lit(None).cast("long"), None) if says.through is None else _read(df, queue, str(says.through))
    first, wrong = _first(df, queue)
    last = F.coalesce(told.number, first)
    problem = F.when(is_base & told.number.isNotNull(), nothing)
    problem = problem.when(is_base & (wrong == int(Reason.SEQUENCE_MISSING)), F.lit(int(Reason.BASE_WITHOUT_NUMBER)))
    problem = problem.when(wrong.isNotNull(), wrong)
    if says.modulus is None:
        problem = problem.when(last < first, F.lit(int(Reason.ENDS_BEFORE)))
    if told.problem is not None:
        problem = F.coalesce(told.problem, problem)
    epoch = None
    if says.epoch is not None:
        field, column = located(df, str(says.epoch), "epoch")
        epoch = whole_numbers(field.dataType, column, str(says.epoch), "epoch").number
        problem = F.coalesce(problem, F.when(epoch.isNull(), F.lit(int(Reason.EPOCH_MISSING))))
    number = F.when(problem.isNull(), F.when(is_base, last).otherwise(first))
    bits = [(restarts, RESTARTS), (unnumbered, UNNUMBERED), (base, BASE)]
    for bare in (restarts, unnumbered):  # such a message has no number, whatever stands in the column
        if bare is not None:
            zero = F.lit(0).cast("long")
            number, problem = F.when(bare, zero).otherwise(number), F.when(~bare, problem)
            last, epoch = F.when(bare, zero).otherwise(last), None if epoch is None else F.when(~bare, epoch)
    return Said(number, problem, last, epoch, _first_of(bits), restarts)


def position(df: DataFrame, queue: Queue) -> Numbers:
    """A message's position as bytes, null if it has none, and the `Reason`; the same as `kernel/groups/positions.py` reads of a value."""
    says = queue.says
    several = isinstance(says.by, tuple)
    names = says.by if isinstance(says.by, tuple) else (says.by,)
    parts = [_part(df, str(name), digits=says.format == "digits", several=several) for name in names]
    lacks = reduce(Column.__or__, [absent for _, absent in parts])
    found = F.concat(*[part for part, _ in parts])
    found = F.when(~lacks & F.octet_length(found).between(1, MOST_BYTES), found)
    problem = F.when(lacks, why(Reason.SEQUENCE_MISSING)).otherwise(why(Reason.NOT_A_POSITION))
    return Numbers(found, F.when(found.isNull(), problem))


def _part(df: DataFrame, name: str, *, digits: bool, several: bool) -> tuple[Column, Column]:
    """The bytes of a part of a position, null if it is none; and whether it is missing."""
    field, column = located(df, name, "sequence")
    kind = field.dataType
    if isinstance(kind, T.IntegralType) and several:
        return _eight_bytes(column.cast("long")), column.isNull()
    if isinstance(kind, T.IntegralType) or (isinstance(kind, T.DecimalType) and kind.scale == 0):
        return F.when(column >= 0, F.lpad(column.cast("string"), MOST_DIGITS, "0").cast("binary")), column.isNull()
    if not isinstance(kind, T.StringType | T.BinaryType):
        raise ColumnError(
            f"a position can't be a {kind.simpleString()}", where=f"column {name!r}", remedy="cast it to text"
        )
    found = column.cast("binary")
    if several:
        ended = F.when(F.locate("\0", column.cast("string")) == 0, F.concat(found, F.lit(b"\0")))
        if isinstance(kind, T.StringType):
            number = whole_numbers(kind, column, name, "position").number
            ended = F.when(number.isNotNull(), _eight_bytes(number)).otherwise(ended)
        return F.when(F.octet_length(found) > 0, ended), column.isNull()
    if digits:
        found = F.when(column.rlike(rf"\A{DIGITS_TEXT}\z"), F.lpad(column, MOST_DIGITS, "0").cast("binary"))
    return found, column.isNull() | (F.octet_length(column) == 0)


def _eight_bytes(number: Column) -> Column:
    """A long as bytes that ascend with it."""
    return F.unhex(F.lpad(F.hex(number.bitwiseXOR(F.lit(LOWEST).cast("long"))), 16, "0"))


def _first_of(bits: list[tuple[Column | None, int]]) -> Column | None:
    found = None
    for filter_, bit in reversed(bits):
        if filter_ is not None:
            found = F.when(filter_, F.lit(bit)).otherwise(F.lit(None) if found is None else found)
    return None if found is None else found.cast("long")


def _read(df: DataFrame, queue: Queue, name: str) -> Numbers:
    """A column's numbers; one that turns over, or has an epoch beside it, is no ticket."""
    field, column = located(df, name, "sequence")
    if queue.says.modulus is None and queue.says.epoch is None:
        return sequence_numbers(field, column, name)
    return whole_numbers(field.dataType, column, name, "sequence")


def _first(df: DataFrame, queue: Queue) -> tuple[Column, Column]:
    """The first number that a message covers, null if there is none, and the `Reason`."""
    says, step = queue.says, queue.policy.increment if isinstance(queue.policy, Standard) else 1
    number, wrong = _read(df, queue, str(says.by if says.previous is None else says.previous))
    wrong = F.when(number.isNull(), F.coalesce(*([] if wrong is None else [wrong]), why(Reason.SEQUENCE_MISSING)))
    if says.previous is None:
        return number, wrong
    if says.modulus is not None:
        fits = number.between(0, says.modulus - 1)
        following = F.when(fits, F.try_mod(number + step, F.lit(says.modulus)))
        return following, F.coalesce(wrong, F.when(~fits, why(Reason.NOT_OF_MODULUS)))
    fits = number <= HIGHEST - step
    return F.when(fits, number + step), F.coalesce(wrong, F.when(~fits, why(Reason.SEQUENCE_OVERFLOWS)))
