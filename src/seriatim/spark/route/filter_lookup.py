"""Many filters on Spark: looked up by a message's own values instead of being tried one by one.

For each property there is a small frame ``value → filters``, joined to the messages by broadcast. A row of it has a
filter's destination and, if terms remain to be tried, the number of its shape and its constants; so
thousands of filters need only a few expressions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from seriatim.kernel.filters.filter import Constant, Expression, In, Property, Type
from seriatim.kernel.filters.filter_typing import all_of
from seriatim.kernel.route import ALWAYS, Rule, shape
from seriatim.spark.route.filter_expressions import condition, literal, needs_python, spark_type

# Trying a filter that was looked up costs about thirty times as much as in a NumPy array, so a value with more filters than this isn't
# looked up.
_MOST_CANDIDATES = 256
# Shapes are distinguished by one comparison after another, and each is a part of the plan.
_MOST_SHAPES = 64
_MOST_CONSTANTS = 16

_TO, _SHAPE = "to", "shape"


@dataclass(frozen=True, slots=True)
class _Entry:
    """A filter in the lookup: its destination, the shape of its remaining terms (None: there are none) and its constants."""

    to: str
    shape: Expression | None = None
    constants: tuple[Constant, ...] = ()


@dataclass(frozen=True, slots=True)
class Index:
    entries: Mapping[Property, Mapping[Any, Sequence[_Entry]]]

    def matches(self, df: DataFrame, columns: Mapping[str, Column]) -> tuple[DataFrame, list[Column]]:
        """The joined frame, and arrays (which may be null) of destinations."""
        conditions: list[Column] = []
        for number, (key, by_value) in enumerate(self.entries.items()):
            table = _Table(f"__sq_{number}_", key.type, by_value)
            df = df.join(F.broadcast(table.frame(df)), columns[key.name] == F.col(table.key), "left")
            conditions += table.matches(columns)
        return df, conditions

    def repeats(self, names: Iterable[str]) -> bool:
        """Whether a message may find a destination twice; `names` are destinations that are found in other ways."""
        seen = set(names)
        for by_value in self.entries.values():
            reached: set[str] = set()
            for rules in by_value.values():
                to = [entry.to for entry in rules]
                if len(set(to)) < len(to):
                    return True
                reached.update(to)
            if reached & seen:
                return True
            seen |= reached
        return False


def indexed(rules: Iterable[Rule], to: Sequence[str]) -> tuple[Index, list[tuple[Expression, str]]]:
    """The index of the filters that can be looked up, and the other filters, each with its destination."""
    keyed: list[tuple[Rule, _Entry]] = []
    rest: list[Rule] = []
    for rule in rules:
        if rule.key is None:
            rest.append(rule)
            continue
        form, constants = (None, ()) if rule.rest == ALWAYS else shape(rule.rest)
        keyed.append((rule, _Entry(to[rule.filter], form, constants)))
    common = {form for form, _ in Counter(entry.shape for _, entry in keyed if entry.shape).most_common(_MOST_SHAPES)}
    crowd = Counter(
        (rule.key.property, value) for rule, entry in keyed if rule.key and entry.shape for value in rule.key.values
    )
    entries: dict[Property, dict[Any, dict[_Entry, None]]] = defaultdict(lambda: defaultdict(dict))
    for rule, entry in keyed:
        if rule.key is None:
            continue
        places = [(rule.key.property, value) for value in rule.key.values]
        odd = entry.shape not in common or len(entry.constants) > _MOST_CONSTANTS
        odd = odd or (entry.shape is not None and needs_python(entry.shape))
        if entry.shape and (odd or max(crowd[place] for place in places) > _MOST_CANDIDATES):
            rest.append(rule)
            continue
        for values, value in places:
            entries[values][value][entry] = None
    index = Index({key: {value: tuple(entries) for value, entries in table.items()} for key, table in entries.items()})
    return index, [(_whole(rule), to[rule.filter]) for rule in rest]


def _whole(rule: Rule) -> Expression:
    if rule.key is None:
        return rule.rest
    return all_of([In(rule.key.property, rule.key.values), rule.rest])


class _Table:
    """The frame ``value → filters`` of one property; its columns begin with `prefix`. A constant is stored in the field for its type and
    its place among the filter's constants of that type.
    """

    def __init__(self, prefix: str, kind: Type, by_value: Mapping[Any, Sequence[_Entry]]) -> None:
        self.key, self._sure, self._maybe = f"{prefix}key", f"{prefix}sure", f"{prefix}maybe"
        self._kind = kind
        self._by_value = by_value
        entries = [entry for entries in by_value.values() for entry in entries]
        forms = dict.fromkeys(entry.shape for entry in entries if entry.shape is not None)
        self._forms = {form: number for number, form in enumerate(forms)}
        self._has_sure = any(entry.shape is None for entry in entries)
        self._fields: dict[tuple[Type, int], str] = {}
        self._slots: dict[Expression, list[str]] = {}
        for entry in entries:
            if entry.shape is not None and entry.shape not in self._slots:
                self._slots[entry.shape] = self._slots_of(entry.constants)

    def _slots_of(self, constants: Sequence[Constant]) -> list[str]:
        used: Counter[Type] = Counter()
        slots = []
        for constant in constants:
            place = (constant.type, used[constant.type])
            used[constant.type] += 1
            slots.append(self._fields.setdefault(place, f"c{len(self._fields)}"))
        return slots

    def frame(self, df: DataFrame) -> DataFrame:
        fields = [T.StructField(_TO, T.StringType()), T.StructField(_SHAPE, T.IntegerType())]
        fields += [T.StructField(name, spark_type(kind)) for (kind, _), name in self._fields.items()]
        schema = T.StructType(
            [
                T.StructField(self.key, spark_type(self._kind)),
                T.StructField(self._sure, T.ArrayType(T.StringType())),
                T.StructField(self._maybe, T.ArrayType(T.StructType(fields))),
            ]
        )
        rows = [self._row(value, entries) for value, entries in self._by_value.items()]
        # From Arrow it becomes a part of the plan; from a list it would be a job in Python at every read.
        return df.sparkSession.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(schema)), schema)

    def _row(self, value: Any, entries: Sequence[_Entry]) -> dict[str, Any]:
        sure = dict.fromkeys(entry.to for entry in entries if entry.shape is None)
        maybe = [self._candidate(entry.shape, entry) for entry in entries if entry.shape is not None]
        return {self.key: literal(value, self._kind), self._sure: list(sure) or None, self._maybe: maybe or None}

    def _candidate(self, form: Expression, entry: _Entry) -> dict[str, Any]:
        constants = zip(self._slots[form], entry.constants, strict=True)
        values = {name: literal(constant.value, constant.type) for name, constant in constants}
        return {_TO: entry.to, _SHAPE: self._forms[form], **values}

    def matches(self, columns: Mapping[str, Column]) -> list[Column]:
        """Arrays of destinations in the joined frame."""
        conditions = [F.col(self._sure)] if self._has_sure else []
        if self._forms:
            passed = F.filter(F.col(self._maybe), lambda candidate: self._passes(candidate, columns))
            conditions.append(F.transform(passed, lambda candidate: candidate[_TO]))
        return conditions

    def _passes(self, candidate: Column, columns: Mapping[str, Column]) -> Column:
        def tried(form: Expression) -> Column:
            slots = self._slots[form]
            return condition(form, columns, lambda number: candidate[slots[number]])

        first, *rest = self._forms
        if not rest:
            return tried(first)
        chosen = F.when(candidate[_SHAPE] == 0, tried(first))
        return reduce(
            lambda so_far, form: so_far.when(candidate[_SHAPE] == self._forms[form], tried(form)), rest, chosen
        )
