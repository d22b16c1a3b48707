"""Find the filters that messages pass, in memory: an index of the rules into which `route.py` splits filters.

A rule has a key, an equality such as ``type = 'order'``, and remaining terms. For each property a dictionary leads from a
message's value to the few rules with this key; rules without a key are tried for every message. The remaining terms are
tried for many rules at once: the rules of one shape together, with their constants as columns. There are three ways to do
that, with the same result:

* one by one, as functions, if there is little to try;
* as pairs of a message and a rule, over arrays, if messages lead to few rules each;
* over a table, with a row for each message and a column for each rule, for a *crowd*: the many rules that share one value,
  or have no key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from types import MappingProxyType
from typing import Any

import numpy as np

from seriatim.kernel.filters.filter import Constant, Expression, Property, Type
from seriatim.kernel.filters.filter_eval import Values, column, evaluate
from seriatim.kernel.filters.filter_function import Function, as_function
from seriatim.kernel.route import ALWAYS, properties, rules, shape
from seriatim.kernel.values.columns import Bools, Ints, empty_ints, expand, first_per_group

# Measured: to try this many one by one takes as long as to try them over arrays.
_FEW = 24
# From this many rules on, the rules of one value are a crowd.
_CROWD = 64
# How many messages are looked up together, to bound the memory.
_MOST_MESSAGES = 2**13
# How many pairs of a message and a rule are tried together, likewise.
_MOST_TRIED = 2**17


class Matcher:
    """Filters, prepared for lookups; never changes, so threads may share it.

    Args:
        filters: the filters, e.g. from ``pipeline.filters.parsed``, all parsed with the same types of properties. Their
            numbers are their places here.

    Attributes:
        properties: the properties that the filters name, and their types.
    """

    def __init__(self, filters: Sequence[Expression]) -> None:
        used = rules(filters)
        self._filters = len(filters)
        self._repeats = len(used) > len(filters)
        by_key: dict[Property | None, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
        shapes: dict[Expression, _Shape] = {}
        trials: list[_Trial] = []
        for number, rule in enumerate(used):
            by_value = by_key[rule.key.property if rule.key else None]
            for value in rule.key.values if rule.key else (None,):
                by_value[value].append(number)
            if rule.rest == ALWAYS:
                trials.append(_Trial(rule.filter))
                continue
            form, constants = shape(rule.rest)
            if (found := shapes.get(form)) is None:
                found = shapes[form] = _Shape(len(shapes) + 1, form, constants)
            trials.append(found.trial(rule.filter, constants))
        self._trials = trials
        self._shapes = list(shapes.values())
        self._filter = np.array([trial.filter for trial in trials], np.int64)
        self._slot = np.array([trial.slot for trial in trials], np.int64)
        # NumPy sorts small integers by radix, several times faster than others.
        numbers = (trial.shape.number if trial.shape else 0 for trial in trials)
        self._shape = np.fromiter(numbers, np.min_scalar_type(len(shapes)), len(trials))
        self._everywhere = _Crowd([trials[rule] for rule in by_key.pop(None, {}).get(None, ())])
        self._tables = [_Table(key, by_value, trials) for key, by_value in by_key.items() if key is not None]
        named = [*(key for key in by_key if key is not None), *(one for form in shapes for one in properties(form))]
        self.properties: Mapping[str, Type] = MappingProxyType({item.name: item.type for item in named})

    def matches(self, columns: Mapping[str, Values], n: int) -> tuple[Ints, Ints]:
        """The filters that are TRUE for `n` messages. `columns`: at least `properties`, in the form for ``filter_eval.evaluate``. Returns
        a pair for each filter that is TRUE for a message: the message's row, from 0, and the filter's number, both int64; sorted by row,
        then filter; none twice. Raises `KeyError`: a property has no column.
        """
        if not self._filters:
            return empty_ints(), empty_ints()
        runs = [
            self._matches(_Messages(columns, n, first, min(first + _MOST_MESSAGES, n)))
            for first in range(0, n, _MOST_MESSAGES)
        ]
        rows = np.concatenate(runs) if runs else empty_ints()
        return rows // self._filters, rows % self._filters

    def _matches(self, messages: _Messages) -> Ints:
        """The matches of one run of messages, each as row x number of filters + filter."""
        led = [(table, *table.rows(messages)) for table in self._tables]
        crowds = [(self._everywhere, np.arange(len(messages)))]
        for table, rows, codes in led:
            crowds += table.crowds(rows, codes)
        matches = [self._passed(messages, led)]
        for crowd, rows in crowds:
            for passed, filters in crowd.matches(messages, rows):
                matches.append((passed + messages.first) * self._filters + filters)
        every = np.concatenate(matches)
        every.sort()
        return every[first_per_group(every)] if self._repeats else every

    def _passed(self, messages: _Messages, led: Iterable[tuple[_Table, Ints, Ints]]) -> Ints:
        """The matches of rules that are in no crowd, in the form of `_matches`."""
        candidates = [table.candidates(rows, codes) for table, rows, codes in led if len(rows)]
        if not candidates:
            return empty_ints()
        rows, tried = (np.concatenate(parts) for parts in zip(*candidates, strict=True))
        true = self._true(messages, rows, tried)
        return (rows[true] + messages.first) * self._filters + self._filter[tried[true]]

    def _true(self, messages: _Messages, rows: Ints, tried: Ints) -> Bools:
        """For each pair of a message (`rows`) and a rule whose key holds (`tried`), whether the rule is TRUE."""
        shapes = self._shape[tried]
        true = shapes == 0
        open_ = np.flatnonzero(~true)
        if len(open_) <= _FEW:
            self._try_each(messages, rows, tried, open_, true)
            return true
        open_ = open_[np.argsort(shapes[open_], kind="stable")]
        starts = np.flatnonzero(first_per_group(shapes[open_]))
        lengths = np.diff(starts, append=len(open_))
        for number, start, length in zip(*(a.tolist() for a in (shapes[open_[starts]], starts, lengths)), strict=True):
            if length > _FEW:
                pairs = open_[start : start + length]
                true[pairs] = self._shapes[number - 1].pairs(messages, rows[pairs], self._slot[tried[pairs]])
        self._try_each(messages, rows, tried, open_[np.repeat(lengths <= _FEW, lengths)], true)
        return true

    def _try_each(self, messages: _Messages, rows: Ints, tried: Ints, pairs: Ints, true: Bools) -> None:
        for pair, row, rule in zip(pairs.tolist(), rows[pairs].tolist(), tried[pairs].tolist(), strict=True):
            true[pair] = self._trials[rule].passes(messages.one(row))


class _Shape:
    """The remaining terms of rules that differ in constants only. Shapes are numbered from 1; 0 is a rule without remaining terms."""

    def __init__(self, number: int, form: Expression, constants: Sequence[Constant]) -> None:
        self.number = number
        self._form = form
        self._types = [constant.type for constant in constants]
        # The constants of each rule, by its slot.
        self._constants: list[tuple[Any, ...]] = []

    def trial(self, number: int, constants: Sequence[Constant]) -> _Trial:
        values = tuple(constant.value for constant in constants)
        self._constants.append(values)
        return _Trial(number, self, len(self._constants) - 1, values)

    @cached_property
    def function(self) -> Function:
        """The form as a function of one message and of a rule's constants."""
        return as_function(self._form)

    @cached_property
    def _parameters(self) -> list[Values]:
        """The constants: a column for each constant, a row for each slot."""
        by_constant = zip(*self._constants, strict=True)
        return [column(values, kind) for values, kind in zip(by_constant, self._types, strict=True)]

    def parameters(self, slots: Ints) -> list[Values]:
        return [Values(parameter.values[slots], parameter.known[slots]) for parameter in self._parameters]

    def pairs(self, messages: _Messages, rows: Ints, slots: Ints) -> Bools:
        true, _ = evaluate(self._form, messages.taken(self._form, rows), len(rows), self.parameters(slots))
        return true

    def table(self, messages: _Messages, rows: Ints, parameters: Sequence[Values], rules: int) -> Bools:
        """A table of booleans: a row for each message and a column for each rule."""
        columns = messages.taken(self._form, rows[:, np.newaxis])
        true, _ = evaluate(self._form, columns, (len(rows), rules), parameters)
        return true


@dataclass(frozen=True, slots=True)
class _Trial:
    """The remaining terms of a rule, with its constants; a rule without a shape has none."""

    filter: int
    shape: _Shape | None = None
    slot: int = 0
    constants: tuple[Any, ...] = ()

    def passes(self, message: _Message) -> bool:
        return self.shape is None or self.shape.function(message, self.constants) is True


class _Crowd:
    """Many rules that are tried for the same messages."""

    def __init__(self, trials: Sequence[_Trial]) -> None:
        by_shape: dict[int, list[_Trial]] = defaultdict(list)
        for trial in trials:
            by_shape[trial.shape.number if trial.shape else 0].append(trial)
        self._parts = [_ShapeRules(alike) for alike in by_shape.values()]

    def matches(self, messages: _Messages, rows: Ints) -> Iterator[tuple[Ints, Ints]]:
        """The rows of messages that pass, with the numbers of the filters that they pass."""
        small = [part for part in self._parts if part.shape and part.size * len(rows) <= _FEW]
        if small:
            each = [(row, messages.one(row)) for row in rows.tolist()]
            trials = [trial for part in small for trial in part.trials]
            pairs = [(row, trial.filter) for trial in trials for row, message in each if trial.passes(message)]
            passed = np.array(pairs, np.int64).reshape(-1, 2)
            yield passed[:, 0], passed[:, 1]
        for part in self._parts:
            if part.shape and part.size * len(rows) <= _FEW:
                continue
            at_once = max(1, _MOST_TRIED // part.size)
            for first in range(0, len(rows), at_once):
                portion = rows[first : first + at_once]
                row, rule = part.table(messages, portion).nonzero()
                yield portion[row], part.filters[rule]


class _ShapeRules:
    """The rules of a crowd that have one shape, or none."""

    def __init__(self, trials: Sequence[_Trial]) -> None:
        self.trials = trials
        self.shape = trials[0].shape
        self.size = len(trials)
        self.filters = np.array([trial.filter for trial in trials], np.int64)

    @cached_property
    def _parameters(self) -> list[Values]:
        slots = np.array([trial.slot for trial in self.trials], np.int64)
        return self.shape.parameters(slots[np.newaxis, :]) if self.shape else []

    def table(self, messages: _Messages, rows: Ints) -> Bools:
        if self.shape is None:
            return np.ones((len(rows), self.size), np.bool_)
        return self.shape.table(messages, rows, self._parameters, self.size)


class _Table:
    """From the values of one property to rules. A value has a code, and its rules are ``rules[starts[code]:][:counts[code]]``. The count
    of a crowd is 0: its rules are tried over a table.
    """

    def __init__(self, key: Property, by_value: Mapping[Any, Sequence[int]], trials: Sequence[_Trial]) -> None:
        self._key = key
        self._trials = trials
        self._codes = {value: code for code, value in enumerate(by_value)}
        counts = np.fromiter(map(len, by_value.values()), np.int64, len(by_value))
        self._rules = np.fromiter((rule for rules in by_value.values() for rule in rules), np.int64)
        self._starts = np.cumsum(counts) - counts
        self._crowded = counts >= _CROWD
        self._any_crowd = bool(self._crowded.any())
        self._counts = np.where(self._crowded, 0, counts)
        # Made at first use: a rule with a large IN is in a crowd of each of its values, and messages have few of them.
        self._crowds: dict[int, _Crowd] = {}
        self._crowd_rules = {code: by_value[value] for value, code in self._codes.items() if self._crowded[code]}

    def rows(self, messages: _Messages) -> tuple[Ints, Ints]:
        """The messages that lead to any rules, ascending, and the codes of these rules."""
        values = messages.column(self._key.name)
        known = np.flatnonzero(values.known)
        codes = np.fromiter(map(self._codes.get, values.values[known].tolist(), repeat(-1)), np.int64, len(known))
        led = codes >= 0
        return known[led], codes[led]

    def candidates(self, rows: Ints, codes: Ints) -> tuple[Ints, Ints]:
        """Each message with each of its rules that are in no crowd."""
        repeated, nth = expand(self._counts[codes])
        return rows[repeated], self._rules[self._starts[codes][repeated] + nth]

    def crowds(self, rows: Ints, codes: Ints) -> list[tuple[_Crowd, Ints]]:
        """The crowds that messages lead to, and these messages."""
        if not self._any_crowd:
            return []
        crowded = np.unique(codes[self._crowded[codes]]).tolist()
        return [(self._crowd(code), rows[codes == code]) for code in crowded]

    def _crowd(self, code: int) -> _Crowd:
        if (found := self._crowds.get(code)) is None:
            found = self._crowds[code] = _Crowd([self._trials[rule] for rule in self._crowd_rules[code]])
        return found


class _Messages:
    """The messages from row `first` to `last` (exclusive), as columns and one by one. Here their rows count from 0."""

    def __init__(self, columns: Mapping[str, Values], n: int, first: int, last: int) -> None:
        self.first = first
        self._n, self._last = n, last
        self._given = columns
        self._columns: dict[str, Values] = {}
        self._single: dict[int, _Message] = {}

    def __len__(self) -> int:
        return self._last - self.first

    def column(self, name: str) -> Values:
        if (values := self._columns.get(name)) is None:
            column = self._given[name]
            both = (a if len(a) == self._n else np.broadcast_to(a, self._n) for a in (column.values, column.known))
            values = self._columns[name] = Values(*(a[self.first : self._last] for a in both))
        return values

    def taken(self, expression: Expression, rows: Ints) -> dict[str, Values]:
        """The properties that an expression names, of the messages in `rows`; an array of two dimensions gives such columns."""
        named = {one.name: self.column(one.name) for one in properties(expression)}
        return {name: Values(values.values[rows], values.known[rows]) for name, values in named.items()}

    def one(self, row: int) -> _Message:
        if (value := self._single.get(row)) is None:
            value = self._single[row] = _Message(self, row)
        return value


class _Message(dict[str, Any]):
    """A message's properties, as Python's values, None for unknown; each is read at its first use."""

    def __init__(self, messages: _Messages, row: int) -> None:
        super().__init__()
        self._messages, self._row = messages, row

    def __missing__(self, name: str) -> Any:
        column = self._messages.column(name)
        value = self[name] = column.values.item(self._row) if column.known[self._row] else None
        return value
