"""`route`: each message once for every destination whose filter it matches, on Spark.

This module chooses between three ways to the same rows: a few filters are expressions; of many filters, those with an
equality are looked up (`filter_lookup.py`); of the remaining filters, a few are expressions again, and more than a few
are tried by the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError
from seriatim.kernel.filters.filter import Expression
from seriatim.kernel.filters.filter_typing import any_of
from seriatim.kernel.route import properties as named_in
from seriatim.kernel.route import rules
from seriatim.pipeline.declared.subscription import Subscription, distinct
from seriatim.spark.frames.columns import check_columns, check_frame, quoted
from seriatim.spark.route.arrow_filters import TRIED, Trial
from seriatim.spark.route.filter_expressions import Properties, condition, needs_python
from seriatim.spark.route.filter_lookup import Index, indexed
from seriatim.spark.session.requirements import make_ready

_DESTINATION = "destination"
# Measured: up to this number expressions are about as fast as a lookup, which is read anew with every batch.
_FEW = 32
# Measured: with this many comparisons of decimals the kernel is as fast as Spark, and with more it is faster.
_MOST_EXPRESSIONS = 64


def route(df: DataFrame, subscriptions: Iterable[Subscription]) -> DataFrame:
    """Finds each message's destinations."""
    check_frame(df, "route")
    return destinations_of(df, subscriptions).withColumn(_DESTINATION, F.explode_outer(_DESTINATION))


def destinations_of(df: DataFrame, subscriptions: Iterable[Subscription]) -> DataFrame:
    """Like `route`, but a message stays one row: ``destination`` is the array of its destinations, without repetitions. The array is null
    or empty if a message has no destination.
    """
    _check(df)
    chosen = distinct(subscriptions)
    properties = Properties.of(df)
    filters = _parsed(chosen, properties)
    to = [subscription.to for subscription in chosen]
    columns = [quoted(name) for name in df.columns]
    index, whole = Index({}), list(zip(filters, to, strict=True))
    if len(chosen) > _FEW:
        index, whole = indexed(rules(filters), to)
    by_destination = _by_destination(whole)
    repeats = index.repeats(by_destination)
    if len(whole) > _MOST_EXPRESSIONS:
        df, repeats, tried = _tried(df, whole, properties), True, [F.col(TRIED)]
    else:
        if any(needs_python(expression) for expression, _ in whole):
            make_ready(df)
        tried = [
            F.when(condition(any_of(filters), properties.columns), F.array(F.lit(name)))
            for name, filters in by_destination.items()
        ]
    df, looked_up = index.matches(df, properties.columns)
    return df.select(*columns, _all_of([*tried, *looked_up], repeats=repeats).alias(_DESTINATION))


def _check(df: DataFrame) -> None:
    check_columns(df, [_DESTINATION])
    if any(name.casefold() == _DESTINATION for name in df.columns):
        raise ColumnError("seriatim adds a column with this name", where=f"column {_DESTINATION!r}", remedy="rename it")


def _parsed(subscriptions: Sequence[Subscription], properties: Properties) -> list[Expression]:
    known: dict[str, Expression] = {}
    for subscription in subscriptions:
        if subscription.where not in known:
            known[subscription.where] = properties.parsed(subscription.where, f"subscription {subscription.name!r}")
    return [known[subscription.where] for subscription in subscriptions]


def _by_destination(filters: Iterable[tuple[Expression, str]]) -> dict[str, list[Expression]]:
    expressions: dict[str, list[Expression]] = {}
    for expression, to in filters:
        expressions.setdefault(to, []).append(expression)
    return expressions


def _tried(df: DataFrame, filters: Sequence[tuple[Expression, str]], properties: Properties) -> DataFrame:
    """The frame with an array of the destinations whose filters a message passes, by the kernel."""
    make_ready(df)
    names = list(dict.fromkeys(named for expression, _ in filters for named in named_in(expression)))
    ours: Mapping[str, Column] = {f"__sq_p{n}": properties.columns[named.name] for n, named in enumerate(names)}
    trial = Trial(
        tuple(dict.fromkeys(filters)),
        {named.name: (column, named.type) for named, column in zip(names, ours, strict=True)},
        tuple(df.columns),
    )
    # PySpark reads a name with a point or a backtick as more than one.
    own = [quoted(name).alias(f"__sq_c{n}") for n, name in enumerate(df.columns)]
    frame = df.select(*own, *(column.alias(name) for name, column in ours.items()))
    shown = [T.StructField(f.name, f.dataType, True, f.metadata) for f in df.schema]
    return frame.mapInArrow(trial, T.StructType([*shown, T.StructField(TRIED, T.ArrayType(T.StringType()))]))


def _all_of(columns: Sequence[Column], *, repeats: bool) -> Column:
    """Concatenate arrays of destinations; null counts as empty."""
    if not columns:
        return F.lit(None).cast("array<string>")
    every = columns[0]
    if len(columns) > 1:
        every = F.concat(*(F.coalesce(column, F.array().cast("array<string>")) for column in columns))
    return F.array_distinct(every) if repeats else every
