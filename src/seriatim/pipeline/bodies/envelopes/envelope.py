"""One form of envelope, and readers for documents of any form: words, numbers, positions, timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import whole_number
from seriatim.pipeline.bodies.property_values import Unreadable, Value, shortened
from seriatim.pipeline.declared.promotion import Promotion

#: A JSON object.
Document = Mapping[str, Any]
#: A function that finds a value in a document; None: it is absent. Raises `Unreadable`.
Read = Callable[[Document], Value]


@dataclass(frozen=True, slots=True)
class Update:
    """An update of one row, in three forms: the update itself, the delete of the old row, and the insert of the new one."""

    update: Document
    delete: Document
    insert: Document


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A larger number of seconds is one of milliseconds.
_MOST_SECONDS = 100_000_000_000
_LOG_PLACE = re.compile(r"[^:]*?\.?(\d+):(\d+)", re.ASCII)
# The most digits of a number for a moment.
_MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Envelope:
    title: str
    #: Its properties, by name: the type, and the function that finds the value in a document.
    properties: Mapping[str, tuple[str, Read]]
    #: Names of which a document in this form has at least one.
    marks: frozenset[str]
    #: The name under which a document may have a list of rows; None: it has one row.
    rows: str | None = None
    #: A function that finds the updates in a document with the former rows; None: the form never has them.
    updates: Callable[[Document], list[Update]] | None = None
    #: Whether an update tells all of the former row; else a former value that is absent or null isn't told.
    tells_former: bool = False
    #: A text that the body of each update has.
    hint: str = ""

    def promotions(self, name: str, *, whole: bool = False) -> tuple[Promotion, ...]:
        return tuple(Promotion(one, one, kind, whole, name) for one, (kind, _) in self.properties.items())

    def of(self, document: Any) -> Document | None:
        """Return the document itself, without wrappers; None: a tombstone. Raises `Unreadable`."""
        found = document
        while (name := self._wrapper(found)) is not None:
            found = found[name]
        if found is not None and not isinstance(found, dict):
            raise Unreadable(f"op: the body is {_kind(found)}, and {self.title} writes objects")
        return found

    def within(self, document: Any, change: Document) -> Any:
        name = self._wrapper(document)
        return change if name is None else {**document, name: self.within(document[name], change)}

    def _wrapper(self, document: Any) -> str | None:
        """Return the name under which a wrapper has its content; None: the document is no wrapper."""
        if not isinstance(document, dict) or self.marks & document.keys():
            return None
        if "payload" in document:
            return "payload"
        return "value" if "value" in document and "key" in document else None


def _kind(value: object) -> str:
    match value:
        case list():
            return "a list"
        case bool():
            return "a boolean"
        case str():
            return "text"
        case dict():
            return "an object"
    return "a number"


def first(document: Document, *names: str) -> Value:
    """Return the first value that a document has under one of several names."""
    return next((document[name] for name in names if document.get(name) is not None), None)


def named(*names: str) -> Read:
    """Return a function that finds the result of `first`."""
    return lambda document: first(document, *names)


def word(who: str, said: object, words: Mapping[str, str]) -> str:
    """Return the common word for an operation in the words of `who`. Raises `Unreadable` if there is none."""
    found = words.get(said) if isinstance(said, str) else None
    if found is None:
        # Lists and objects aren't written out: they may be nested too deeply for that.
        told = shortened(repr(said)) if isinstance(said, str | int | Decimal) else _kind(said)
        raise Unreadable(f"op: {told} is no operation of {who}'s")
    return found


def whole(value: Value) -> int | None:
    """Return a number of 64 bits, also of text; None: it is something else."""
    number = whole_number(value)
    return None if isinstance(number, Reason) else number


def log_position(text: str) -> int | None:
    """Return a position in MySQL's binary log (``mysql-bin.000003:154``) as one number: the number of the file, then the offset in it."""
    place = _LOG_PLACE.fullmatch(text) if len(text) <= 300 else None
    return None if place is None else packed(int(place[1]), int(place[2]))


def packed(high: int, low: int) -> int | None:
    """Return two numbers, of 31 and of 32 bits, as one that sorts like them; None: they are larger."""
    return (high << 32) | low if 0 <= high < 2**31 and 0 <= low < 2**32 else None


def moment(value: Value, micros: int) -> Value:
    """Return microseconds since 1970 as ISO 8601; other values stay as they are."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value
    number = Decimal(value)
    # An exponent is a number of that many digits: it is checked before any arithmetic.
    if number.adjusted() <= _MOST_DIGITS:
        try:
            return (_EPOCH + timedelta(microseconds=int(number * micros))).isoformat()
        except OverflowError:
            pass
    raise Unreadable(f"happened_at: {shortened(str(value))} is no moment")


def seconds_or_millis(name: str) -> Read:
    """Read a time in seconds or milliseconds: Maxwell has seconds for rows and milliseconds for DDL; tools like Canal differ, too."""

    def find(change: Document) -> Value:
        value = change.get(name)
        if isinstance(value, int | Decimal) and -_MOST_SECONDS < value < _MOST_SECONDS:
            return moment(value, 1_000_000)
        return moment(value, 1_000)

    return find


def is_read(op: Read) -> Read:
    """Return a function that finds whether an operation is ``read``; null if there is no operation."""

    def find(change: Document) -> Value:
        try:
            return op(change) == "read"
        except Unreadable:  # reported by `op`
            return None

    return find
