"""Promote properties of rows with columns: a path is a column, leads into the body, or into the text of a column.

Pure Python without Spark. A property that is one column and nothing else isn't read here, but by Spark (`tables.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.registry import lookup_of
from seriatim.pipeline.bodies.json_paths import json_lookup, json_reader
from seriatim.pipeline.bodies.property_values import (
    Find,
    Promoted,
    Unreadable,
    Value,
    converter_of,
    finder,
    promoted,
    text_of,
)
from seriatim.pipeline.bodies.xml_paths import document_reader, xml_lookup
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files.source import column_of
from seriatim.spark.receive.promotion import from_python

#: The columns of one row that paths read, by name, as Arrow gives their values.
Columns = Mapping[str, Any]


@dataclass(slots=True)
class _RowReading:
    """One row while it is read. `document`: the content of its body; None: it has no body, or the body can't be read."""

    document: Any
    columns: Columns
    opened: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RowPaths:
    """Reads a row: its body, and the columns that properties may be found in."""

    promote: tuple[Promotion, ...]
    namespaces: Mapping[str, str] = field(default_factory=dict)
    #: Whether a blank body counts as no body. A row without a body isn't a fault: properties in the body are null. If the body can't
    #: be read, properties in columns are found nevertheless.
    blank: bool = False

    def columns(self) -> tuple[str, ...]:
        """The columns that are read, each once."""
        columns = [column_of(path)[0] for item in self.promote if item.told_by is None for path in item.paths]
        return tuple(dict.fromkeys(name for name in columns if name is not None))

    def reader(self) -> Callable[[bytes | None, Columns], Promoted]:
        """A function from a row's body and columns to the promoted values. It raises nothing."""
        document_of = self._document_reader()
        finds = [self._finder(item) for item in self.promote]
        blank = self.blank

        def read(body: bytes | None, columns: Columns) -> Promoted:
            document, problem = None, None
            if body is not None and document_of is not None and not (blank and not body.strip()):
                try:
                    document = document_of(body)
                except Unreadable as error:
                    problem = str(error)
            if problem is None:
                return promoted(finds, _RowReading(document, columns))
            # An envelope would report the same of a missing document and of an unreadable one.
            values, more = promoted(
                [(lambda _: None) if item.told_by else find for item, find in zip(self.promote, finds, strict=True)],
                _RowReading(None, columns),
            )
            return values, problem if more is None else f"{problem}; {more}"

        return read

    def _document_reader(self) -> Callable[[bytes], Any] | None:
        inside = [
            (item, path)
            for item in self.promote
            for path in item.paths
            if item.told_by is not None or column_of(path)[0] is None
        ]
        by_xpath = {item.told_by is None and not path.startswith("$") for item, path in inside}
        if len(by_xpath) > 1:
            raise UsageError("JSON paths and XPath can't be combined for one body")
        if not by_xpath:
            return None
        if by_xpath == {True}:
            return document_reader()
        read = json_reader()
        return lambda body: read(text_of(body))

    def _finder(self, item: Promotion) -> Find:
        lookups = [self._lookup(item, path) for path in item.paths]
        return finder(item.name, lookups, from_python(converter_of(item.name, item.type)))

    def _lookup(self, item: Promotion, path: str) -> Find:
        if item.told_by is not None:
            known_lookup = lookup_of(item.told_by, path)
            return lambda row: known_lookup(row.document)
        column, inner = column_of(path)
        if column is None:
            into = json_lookup(path) if path.startswith("$") else xml_lookup(item, path, self.namespaces)
            return lambda row: None if row.document is None else into(row.document)
        name = column
        if inner is None:
            return lambda row: _readable(item.name, name, row.columns[name])
        look, read = json_lookup(inner), json_reader()

        def lookup(row: _RowReading) -> Value:
            if name not in row.opened:
                row.opened[name] = _opened(item.name, name, row.columns[name], read)
            return look(row.opened[name])

        return lookup


def _readable(item: str, column: str, value: Any) -> Any:
    if isinstance(value, Unreadable):  # Python can't have what Arrow has
        raise Unreadable(f"{item}: the column {column} has {value}")
    return value


def _opened(item: str, column: str, value: Any, read: Callable[[str], Any]) -> Any:
    """The JSON in a column. Raises `Unreadable`."""
    value = _readable(item, column, value)
    try:
        if isinstance(value, bytes):
            value = text_of(value)
        if not isinstance(value, str):
            return value  # null; or a struct, which is read as if it were JSON
        return read(value) if value.strip() else None
    except Unreadable as error:
        raise Unreadable(f"{item}: the column {column} is {error}") from error
