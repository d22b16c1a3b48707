"""Promote properties of rows of CSV, and by the user's functions: one row of text in, the promoted values or a reason out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seriatim.pipeline.bodies.property_values import (
    Converter,
    Find,
    Promoted,
    Unreadable,
    as_in_json,
    converter_of,
    finder,
    promoted,
    shortened,
    text_of,
)
from seriatim.pipeline.declared.function import Function
from seriatim.pipeline.declared.promotion import Promotion


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The separators and quotes of fields. A quote inside quotes is doubled, unless there is an `escape`."""

    separator: str = ","
    quote: str = '"'
    escape: str | None = None

    def fields(self, text: str) -> list[str]:
        try:
            rows = list(
                csv.reader(
                    [text],
                    delimiter=self.separator,
                    quotechar=self.quote,
                    escapechar=self.escape,
                    doublequote=self.escape is None,
                    strict=True,
                )
            )
        except csv.Error as error:
            raise Unreadable(f"not CSV: {error}") from error
        return rows[0] if rows else []


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """Reads a CSV line; the columns are found by name in the file's own header. An empty field is null. Numbers, booleans and timestamps
    are checked as in JSON text. At least one of a property's columns has to exist.
    """

    promote: tuple[Promotion, ...]
    dialect: CsvDialect = CsvDialect()

    def header(self, body: bytes) -> list[str]:
        """The names in a header line. Raises `Unreadable`."""
        return [name.strip() for name in self.dialect.fields(text_of(body))]

    def reader(self, header: Sequence[str]) -> Callable[[bytes], Promoted]:
        """A function from a line to the promoted values under that header; it raises `Unreadable` for a line that can't be read."""
        csv.field_size_limit(2**31 - 1)
        width = len(header)
        places = {name: place for place, name in reversed(list(enumerate(header)))}
        absent = [" or ".join(item.paths) for item in self.promote if not places.keys() & set(item.paths)]
        finds = [
            finder(
                item.name,
                [_field(places[path]) for path in item.paths if path in places],
                converter_of(item.name, item.type),
            )
            for item in self.promote
        ]

        def read(body: bytes) -> Promoted:
            fields = self.dialect.fields(text_of(body))
            if absent:
                raise Unreadable(f"the header has no column {', '.join(absent)}")
            if len(fields) != width:
                raise Unreadable(f"{len(fields)} fields where the header has {width}")
            return promoted(finds, fields)

        return read


def _field(place: int) -> Find:
    return lambda fields: fields[place] or None


@dataclass(frozen=True, slots=True)
class Returned:
    """Reads a body with a user's function, which returns the values by name. A missing name is null. If the function raises, its message is
    unreadable, with the text of the exception.
    """

    function: Function
    promote: tuple[Promotion, ...]

    def reader(self) -> Callable[[bytes], Promoted]:
        """A function from a body to the promoted values; it raises `Unreadable` if the user's function fails."""
        call, name = self.function.load(), self.function.name
        finds = [
            finder(item.name, [_item(path) for path in item.paths], from_python(converter_of(item.name, item.type)))
            for item in self.promote
        ]

        def read(body: bytes) -> Promoted:
            try:
                answer = call(body)
            except (Exception, SystemExit) as error:
                raise failed(name, error) from error
            if not isinstance(answer, Mapping):
                raise Unreadable(f"{name}: returned {type(answer).__name__}, not a mapping from names to values")
            return promoted(finds, answer)

        return read


def _item(name: str) -> Find:
    return lambda node: node.get(name)


def failed(function: str, error: BaseException) -> Unreadable:
    """The reason for a body at which a user's function raises."""
    text = " ".join(str(error).split())
    return Unreadable(f"{function}: {type(error).__name__}: {shortened(text, 300)}".removesuffix(": "))


def from_python(convert: Converter) -> Converter:
    return lambda value: convert(as_in_json(value))
