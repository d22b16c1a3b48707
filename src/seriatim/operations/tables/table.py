"""The tables that people and programs are shown, declared once: columns, their text for people, and their names in JSON.

A face prints them in its own way: a command as lines, a page of the console as HTML.
"""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from types import EllipsisType
from typing import Any, Generic, Self, TypeVar, cast
from uuid import UUID

from seriatim.pipeline.text.moment import local

_Row = TypeVar("_Row")
#: What is said in place of a table that has no rows.
_NOTHING = "there are none"


@dataclass(frozen=True, slots=True)
class Column(Generic[_Row]):
    """A column of a table. Most are ``Column("queue")``: a field of the row, with one name for people and in JSON.

    Args:
        name: its name in JSON; None: it is only for people.
        heading: its heading; by default its name in words; None: only JSON has it.
        value: its value, from a row; by default the row's field of that name.
        shown: its text for people, from a row; by default the value.
        rows: the tables of the rows that are its value: one row, several, or None. Of several tables the table of the
            row's class is used.
        after: the heading after which it is shown to people, if that order differs from the order in JSON.
        optional: a JSON object without a value has no such name, and people see the column only if a row has a value.
        meaning: a line for the reference; by default the description of the field in the docstring of the row's class.
        kind: the type of its value for the reference, as an annotation; by default the type of the row's field.
    """

    name: str | None
    heading: str | EllipsisType | None = ...
    value: Callable[[_Row], object] | None = None
    shown: Callable[[_Row], object] | None = None
    rows: Table[Any] | tuple[Table[Any], ...] = ()
    after: str | None = None
    optional: bool = False
    meaning: str = ""
    kind: str = ""

    @property
    def title(self) -> str | None:
        """The heading; None: it isn't shown to people."""
        if isinstance(self.heading, EllipsisType):
            return None if self.name is None else self.name.replace("_", " ")
        return self.heading

    @property
    def tables(self) -> tuple[Table[Any], ...]:
        """The tables of the rows that are its value."""
        return self.rows if isinstance(self.rows, tuple) else (self.rows,)

    def of(self, row: _Row | Mapping[str, object]) -> object:
        """Its value in a row, for JSON."""
        found = self._of(row)
        return self._nested(found) if self.tables else found

    def seen(self, row: _Row) -> object:
        """Its text in a row, for people."""
        return self._of(row) if self.shown is None else self.shown(row)

    def _of(self, row: Any) -> object:
        if self.value is not None:
            return self.value(row)
        if self.name is None:
            return None
        return row.get(self.name) if isinstance(row, Mapping) else getattr(row, self.name)

    def _nested(self, found: Any) -> object:
        if found is None:
            return None
        if isinstance(found, list | tuple) and not hasattr(found, "_fields"):
            return [self._nested(one) for one in found]
        fitting = (one for one in self.tables if len(self.tables) == 1 or one.is_of(found))
        return next(fitting).object_of(found)


def columns(*names: str, optional: bool = False) -> tuple[Column[Any], ...]:
    """Columns for people and JSON: fields of the row, by their names."""
    return tuple(Column(name, optional=optional) for name in names)


def if_any(name: str, heading: str | EllipsisType = ...) -> Column[Any]:
    """A count that people see only where it isn't 0."""
    return Column(name, heading, optional=True, shown=lambda one: getattr(one, name) or None)


def json_only(*names: str, **meanings: str) -> tuple[Column[Any], ...]:
    """Columns for JSON only: fields of the row, by their names; then fields with a meaning of their own."""
    return tuple(Column(name, None, meaning=told) for name, told in (dict.fromkeys(names, "") | meanings).items())


def text_only(heading: str, shown: Callable[[_Row], object], meaning: str) -> Column[_Row]:
    """A column for people only."""
    return Column(None, heading, shown=shown, meaning=meaning)


class Table(Generic[_Row]):
    """A table: a line for each row for people, an object for each row in JSON.

    Args:
        title: the name of a row, for the reference.
        columns: its columns, in the order of JSON. A field of the row that isn't named is in JSON only, before the next field.
        row: the class of its rows; as ``module:name`` where its module is slow to import. None: they are plain mappings.
        lacks: the fields of the row that it hasn't: objects of declarations, whose own fields are columns.
        nothing: the text for people if there are no rows; None: the headings.
        more: the further names of JSON objects: the rows are mappings, and printed whole.
        base: the table that it extends.
    """

    def __init__(
        self,
        title: str,
        *columns: Column[_Row],
        row: type[_Row] | str | None = None,
        lacks: Collection[str] = (),
        nothing: str | None = _NOTHING,
        more: str = "",
        base: Table[_Row] | None = None,
    ) -> None:
        self.title = title
        self.row = row
        self._named, self.lacks = columns, lacks
        self.nothing = nothing
        self.more = more
        self.base = base
        self._shown = _for_people(columns)

    @cached_property
    def columns(self) -> tuple[Column[_Row], ...]:
        """The columns, in the order of JSON."""
        fields = _fields(self.row_class)
        left = [one for one in fields if one not in self.lacks and all(column.name != one for column in self._named)]
        found: list[Column[_Row]] = []
        last = max((at for at, one in enumerate(self._named, 1) if one.name in fields), default=len(self._named))
        for place, one in enumerate(self._named[:last]):
            behind = next(column.name for column in self._named[place:] if column.name is not None)
            while left and behind in fields and fields.index(left[0]) < fields.index(behind):
                found += json_only(left.pop(0))
            found.append(one)
        return (*found, *json_only(*left), *self._named[last:])

    @property
    def row_class(self) -> Any:
        """The class of its rows; None if they are plain mappings."""
        return pkgutil.resolve_name(self.row) if isinstance(self.row, str) else self.row

    def is_of(self, row: object) -> bool:
        """Whether a row has the class of its rows."""
        kind = type(row)
        return self.row in (kind, f"{kind.__module__}:{kind.__qualname__}")

    def shown_for(self, rows: Sequence[_Row]) -> Self:
        """The same table without the optional columns that have no value in any of these rows."""
        empty = [one.title for one in self._shown if one.optional and all(one.seen(row) is None for row in rows)]
        return self.without(*map(str, empty)) if empty else self

    @property
    def shown(self) -> tuple[Column[_Row], ...]:
        """The columns for people, in their order."""
        return tuple(self._shown)

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings for people, in their order."""
        return tuple(str(one.title) for one in self._shown)

    def cells(self, row: _Row) -> tuple[object, ...]:
        """The cells of a row for people, one for each heading."""
        return tuple(one.seen(row) for one in self._shown)

    def extended(self, title: str, *columns: Column[_Row], first: Sequence[Column[_Row]] = ()) -> Self:
        """A table with further columns, behind the present ones or first."""
        named = (*first, *self._named, *columns)
        return type(self)(title, *named, row=self.row, lacks=self.lacks, nothing=self.nothing, base=self)

    def only(self, *headings: str, nothing: str | None = _NOTHING) -> Self:
        """The same table with only these columns for people; JSON is the same."""
        found = type(self)(self.title, *self._named, row=self.row, lacks=self.lacks, nothing=nothing, more=self.more)
        found._shown = [one for one in self._shown if one.title in headings]  # noqa: SLF001 -- a table of the same class
        return found

    def without(self, *headings: str) -> Self:
        """The same table without these columns for people; JSON is the same."""
        return self.only(*(one for one in self.headings if one not in headings), nothing=self.nothing)

    def object_of(self, row: _Row, /, **given: object) -> dict[str, object]:
        """A row as an object of JSON.

        Args:
            row: the row.
            given: values of columns that the row doesn't have, by name.
        """
        if self.more:
            return dict(cast("Mapping[str, object]", row))
        pairs = ((one, one.of(given if one.name in given else row)) for one in self.columns if one.name is not None)
        return {str(one.name): value for one, value in pairs if not (one.optional and value is None)}

    def objects_of(self, rows: Iterable[_Row]) -> list[dict[str, object]]:
        """Rows as objects of JSON."""
        return [self.object_of(one) for one in rows]


def as_json(found: object) -> str:
    """Plain values as JSON; times as ISO 8601, bytes as text if they are UTF-8, else as hexadecimal digits."""
    return json.dumps(found, ensure_ascii=False, indent=2, default=_written)


def as_json_line(found: object) -> str:
    """The same in one line."""
    return json.dumps(found, ensure_ascii=False, default=_written)


def _fields(row: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(row)) if is_dataclass(row) else getattr(row, "_fields", ())


def _for_people(columns: Sequence[Column[_Row]]) -> list[Column[_Row]]:
    found = [one for one in columns if one.title is not None and one.after is None]
    for one in columns:
        if one.after is not None:
            found.insert([before.title for before in found].index(one.after) + 1, one)
    return found


def shown_value(value: object) -> str:
    """A value of a cell as text: None is empty, a number has its thousands apart, a time is local."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return local(value)
        case list() | tuple():
            return ", ".join(map(str, value))
    return str(value)


def _written(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value.hex()
    raise TypeError(type(value).__name__)
