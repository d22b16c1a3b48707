"""`Listing`: what a list may be filtered by, said once.

The fields of a listing carry their text and kind. From them come the parameters of the statement, the function in `operations` with its
help, the options of the command, the form of the console, and the reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from fnmatch import translate
from functools import lru_cache
from typing import Any, Generic, TypeVar

from seriatim.errors import UsageError, is_whole, shown
from seriatim.kernel.values.time import OutOfRange, micros
from seriatim.pipeline.text.storable import checked_text

#: A moment, or how long ago it was.
When = float | str | datetime
_ESCAPED = {"%": r"\%", "_": r"\_", "\\": r"\\"}
_MOST = 100_000
_LARGEST = 2**63 - 1


class FilterKind:
    """What a filter takes; by itself, any value."""

    #: What stands for a value in help (empty: the name of the filter), an example of a value, and what help says behind the filter's text.
    metavar, example, suffix = "", "", ""
    #: Whether people are offered it: as an option, and in a form.
    for_people = True

    def taken(self, _: str, value: Any) -> Any:
        """The value as a statement takes it; raises `UsageError`. The first argument is the name of the filter."""
        return value

    def parameters(self, name: str, value: Any) -> dict[str, Any]:
        return {name: None if value is None else self.taken(name, value)}

    def fits(self, _name: str, _wanted: Any, _its: Any) -> bool:
        """Whether the value of a row is as it is wanted, for lists that no statement reads; where nothing is filtered: yes."""
        return True

    def read(self, name: str, text: str) -> Any:
        """The value from the text of a form or an address."""
        self.taken(name, text)
        return text


class Text(FilterKind):
    """Text that has to be equal; `what` it is, in errors."""

    def __init__(self, what: str = "text") -> None:
        self.what = what

    def taken(self, _: str, value: Any) -> Any:
        """The text, if PostgreSQL can store it."""
        return checked_text(value, self.what)

    def fits(self, _: str, wanted: Any, its: Any) -> bool:
        return bool(wanted == its)


class Queue(Text):
    metavar = "QUEUE"


class Pattern(Text):
    metavar, example, suffix = "PATTERN", "c*", "; * stands for any text, ? for one character"

    def taken(self, name: str, value: Any) -> Any:
        """A pattern of SQL's ``LIKE``."""
        return fitting(super().taken(name, value))

    def fits(self, _: str, wanted: str, its: str) -> bool:
        return bool(_compiled(wanted).match(its))


class Containing(Text):
    """A part of a text; case is ignored."""

    metavar, suffix = "TEXT", "; case is ignored"

    def taken(self, name: str, value: Any) -> Any:
        """A pattern of SQL's ``LIKE``."""
        return containing(super().taken(name, value))

    def fits(self, _: str, wanted: str, its: str | None) -> bool:
        return wanted.casefold() in (its or "").casefold()


class Period(FilterKind):
    """A period, in seconds or as text such as ``"5m"``."""

    metavar, example, suffix = "PERIOD", "7d", ", such as {example}"

    def taken(self, _: str, value: Any) -> timedelta:
        if (length := micros(value)) < 0:
            raise UsageError(f"a period can't be {shown(value, 60)}", remedy="write it without a sign")
        return timedelta(microseconds=length)

    def fits(self, name: str, wanted: Any, its: datetime | None) -> bool:
        """Whether a moment was longer ago."""
        return its is not None and its <= datetime.now().astimezone() - self.taken(name, wanted)


class Moment(FilterKind):
    """A moment: a datetime, ISO text, or how long ago it was; the field ``until`` takes what was before it."""

    metavar = "TIME"

    def __init__(self, example: str, suffix: str) -> None:
        self.example, self.suffix = example, suffix

    def taken(self, name: str, value: Any) -> datetime | timedelta:
        """The moment, or the period since then, by the database's clock."""
        return _moment(name, value)

    def parameters(self, name: str, value: Any) -> dict[str, Any]:
        """A moment, or a period before now."""
        found = None if value is None else self.taken(name, value)
        is_ago = isinstance(found, timedelta)
        return {name: None if is_ago else found, f"{name}_ago": found if is_ago else None}

    def fits(self, name: str, wanted: Any, its: datetime) -> bool:
        """Whether a moment is on that side, by this machine's clock."""
        found = self.taken(name, wanted)
        bound = datetime.now().astimezone() - found if isinstance(found, timedelta) else found
        return its < bound if name == "until" else its >= bound


class Choice(FilterKind):
    """One of some values; of `many` several may be given. `words`: what people read for values that are codes."""

    def __init__(
        self, values: Iterable[str], what: str, *, many: bool = False, remedy: str = "", words: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.what, self.values, self.many = what, tuple(map(str, values)), many
        self.words, self.aliases = words or {}, aliases or {}
        self.remedy = remedy or f"one of {', '.join((*self.values, *self.aliases))}"
        self.suffix = "; may be repeated" if many else ""

    def taken(self, _: str, value: Any) -> Any:
        several = value if self.many and not isinstance(value, str) else [value]
        if not isinstance(several, Iterable):
            several = [several]
        found = [self.aliases.get(one, one) if isinstance(one, str) else one for one in several]
        for one in found:
            if one not in self.values:
                raise UsageError(f"{shown(one)} is not {self.what}", remedy=self.remedy)
        return sorted(found) or None if self.many else found[0]

    def fits(self, name: str, wanted: Any, its: Any) -> bool:
        found = self.taken(name, wanted)
        return found is None or its in found if self.many else its == found

    def read(self, _: str, text: str) -> Any:
        return text


class Flag(FilterKind):
    def read(self, _: str, text: str) -> bool:
        return bool(text)


class Whole(FilterKind):
    def taken(self, name: str, value: Any) -> Any:
        if not is_whole(value, -_LARGEST, _LARGEST):
            raise UsageError(f"{name} can't be {shown(value, 60)}", remedy="a whole number")
        return value


class Limit(Whole):
    """How many rows there are at most; `shown`: what commands say where the function has no limit."""

    metavar = "N"

    def __init__(self, noun: str, most: int, least: int, shown: int | None) -> None:
        self.noun, self.most, self.least, self.shown = noun, most, least, shown

    def taken(self, _: str, value: Any) -> Any:
        if not is_whole(value, self.least, self.most):
            far = f"an integer from {self.least} to {self.most:,}"
            raise UsageError(
                f"cannot list {shown(value)} {self.noun}",
                remedy=far if self.most < _LARGEST else f"a whole number from {self.least}",
            )
        return value


class PropertyValues(FilterKind):
    """Values of properties, by name. A number fits however it is written."""

    metavar, suffix = "NAME=VALUE", "; may be repeated. A number fits however it is written"

    def parameters(self, _: str, value: Mapping[str, object] | None) -> dict[str, Any]:
        found = {
            checked_text(name, "the name of a property"): checked_text(_as_text(one), f"the property {name!r}")
            for name, one in (value or {}).items()
        }
        return {"names": list(found) or None, "of_values": list(found.values()) or None}


class Place(Whole):
    """Where a page goes on: behind the last row of the page before. `of`: the place of a row: a number, or a tuple. `columns`: the
    parameters of a statement for a tuple; none: it is a number. `reads`: what makes the values of a tuple from those in a text. `metavar`:
    what stands for it in help; empty: commands have no such option.
    """

    def __init__(
        self, of: Callable[[Any], Any], columns: Sequence[str], reads: Sequence[Callable[[Any], Any]], metavar: str
    ) -> None:
        self.of, self.columns, self.reads, self.metavar = of, columns, reads, metavar
        self.for_people = bool(metavar)

    def parameters(self, name: str, value: Any) -> dict[str, Any]:
        """The number, or each value of a tuple."""
        if not self.columns:
            return super().parameters(name, value)
        return dict(zip(self.columns, value or [None] * len(self.columns), strict=True))

    def query(self, name: str, place: Any) -> dict[str, str]:
        values = zip(self.columns, place, strict=True) if self.columns else [(name, place)]
        return {column: one.isoformat() if isinstance(one, datetime) else str(one) for column, one in values}

    def placed(self, name: str, query: Mapping[str, str]) -> Any:
        """The place in the query of an address; None: it begins at the beginning."""
        if not self.columns:
            return whole(query[name], name) if query.get(name) else None
        if not all(column in query for column in self.columns):
            return None
        try:
            return tuple(reads(query[column]) for reads, column in zip(self.reads, self.columns, strict=True))
        except ValueError:
            raise UsageError(f"the place {shown(str(query), 60)} can't be", remedy="begin the list anew") from None


class Given(FilterKind):
    """A value that only programs give; `check` raises `UsageError`."""

    for_people = False

    def __init__(self, check: Callable[[Any], object]) -> None:
        self.check = check

    def taken(self, _: str, value: Any) -> Any:
        self.check(value)
        return list(value) if isinstance(value, Collection) and not isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a list.

    Args:
        text: what it leaves, as it stands behind "only": ``faults in this queue``; or a whole sentence.
        kind: what it takes.
        name: its name as an option and in addresses; empty: that of the field.
        label: its name in a form; empty: its name, in words.
        example: a value, for a form; empty: that of its kind.
        of: the field of a row that it is about, where no statement reads the rows; empty: the field of its name.
    """

    text: str
    kind: FilterKind
    name: str = ""
    label: str = ""
    example: str = ""
    of: str = ""

    @property
    def help(self) -> str:
        return (
            self.text
            if self.text[:1].isupper()
            else f"Only {self.text}{self.kind.suffix.format(example=self.example or self.kind.example)}."
        )


@dataclass(frozen=True, slots=True)
class Listing:
    """What of a list is wanted: its subclasses are the lists, and their fields the filters."""

    def __post_init__(self) -> None:
        self.parameters()

    def parameters(self) -> dict[str, Any]:
        """The parameters of a statement, which have the names of the fields. Raises `UsageError`: a value can't be."""
        found: dict[str, Any] = {}
        for name, one in filters_of(type(self)).items():
            found |= one.kind.parameters(name, getattr(self, name))
        return found

    def fits(self, row: object) -> bool:
        """Whether a row is wanted, of a list that no statement reads."""
        return all(
            one.kind.fits(name, wanted, getattr(row, one.of or name, None))
            for name, one in filters_of(type(self)).items()
            if (wanted := getattr(self, name)) is not None
        )


def filters_of(listing: Any) -> Mapping[str, Filter]:
    return {one.name: one.metadata["filter"] for one in fields(listing) if "filter" in one.metadata}


def _field(text: str, kind: FilterKind, default: object = None, **more: str) -> Any:
    return field(default=default, metadata={"filter": Filter(text, kind, **more)})


def queue(what: str, **more: str) -> Any:
    return _field(what, Queue("a queue's name"), **more)


def text(what: str, *, noun: str = "text", **more: str) -> Any:
    """A filter by text that has to be equal; `noun`: what the text is, in errors."""
    return _field(what, Text(noun), **more)


def group(what: str, **more: str) -> Any:
    return text(what, noun="a group's key", **more)


def key(what: str, **more: str) -> Any:
    return _field(what, Pattern("a pattern of keys"), of="group", **more)


def error(what: str, **more: str) -> Any:
    """The filter by a part of an error's text."""
    return _field(what, Containing(), label="Error text", **more)


def error_class(what: str) -> Any:
    return _field(f"{what}, such as ValueError", Text(), example="ValueError")


def period(what: str, **more: str) -> Any:
    return _field(what, Period(), **more)


def since(what: str, **more: str) -> Any:
    """The filter by the beginning of a range of time."""
    suffix = " from this time on: such as '2026-03-01 14:30' (local time, unless it says its zone), or how long ago, such as 2h"
    return _field(what, Moment("2h, or 2026-03-01 14:30", suffix), of="at", **more)


def until(what: str, **more: str) -> Any:
    """The filter by the end of a range of time."""
    return _field(what, Moment("30m, or 2026-03-01 15:00", " before this time, likewise"), of="at", **more)


def choice(
    what: str, values: Iterable[str], noun: str, *, many: bool = False, remedy: str = "", words: Mapping[str, str] | None = None,
    aliases: Mapping[str, str] | None = None, **more: str,
) -> Any:  # fmt: skip
    """A filter by one of some values, or by several; `noun`: what a value is, in errors."""
    return _field(what, Choice(values, noun, many=many, remedy=remedy, words=words, aliases=aliases), **more)


def flag(what: str, **more: str) -> Any:
    return _field(what, Flag(), False, **more)


def properties(what: str) -> Any:
    return _field(f"{what} with this value of a property", PropertyValues(), name="property")


def limit(noun: str, default: int | None = 100, *, most: int = _MOST, least: int = 1, shown: int | None = None) -> Any:
    """The largest number of rows; `noun`: what is listed."""
    return _field("List at most this many.", Limit(noun, most, least, shown), default)


def place(
    of: Callable[[Any], Any], *columns: str, what: str = "", reads: Sequence[Callable[[Any], Any]] = (), metavar: str = "",
    default: Any = None,
) -> Any:  # fmt: skip
    told = what or "Go on with a list: behind the last row of the page before."
    return _field(told, Place(of, columns, reads or (storable,) * len(columns), metavar), default)


def given(what: str, default: object = None, check: Callable[[Any], object] = id) -> Any:
    """A value that only programs give; with the default `dataclasses.MISSING` it has to be given."""
    return _field(what, Given(check), default)


def fitting(glob: str) -> str:
    """Convert a pattern with ``*`` and ``?`` to a pattern of SQL's ``LIKE``."""
    return "".join({"*": "%", "?": "_"}.get(one, _ESCAPED.get(one, one)) for one in glob)


def containing(part: str) -> str:
    """A pattern of SQL's ``LIKE`` for texts that contain this text."""
    return f"%{''.join(_ESCAPED.get(one, one) for one in part)}%"


def whole(text: str, name: str = "a place") -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > 19:
        raise UsageError(f"{name} can't be {shown(text, 60)}", remedy="a whole number")
    return int(text)


def storable(text: str) -> str:
    """A text that PostgreSQL can store."""
    return checked_text(text, "a text")


@lru_cache(64)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob.replace("[", "[[]")))


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _moment(what: str, value: When) -> datetime | timedelta:
    if isinstance(value, datetime):
        return value.astimezone()
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip()).astimezone()
        except (ValueError, OverflowError, OSError):
            pass
    try:
        length = micros(value)
    except OutOfRange as error:
        raise UsageError(f"{what}: {error.what}", remedy=error.remedy) from error
    except UsageError as error:
        raise UsageError(
            f"{what} can't be {shown(value)}",
            remedy='write a time such as "2026-03-01 14:30", or how long ago: "2h", "7d"',
        ) from error
    if length < 0:
        raise UsageError(
            f"{what} can't be {shown(value)}", remedy="a period counts back from now: write it without a sign"
        )
    return timedelta(microseconds=length)


_Row = TypeVar("_Row")
_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row, _Place]):
    """A page of a list. `following`: where the next page begins; None: nowhere. `read`: how many rows were read at least."""

    rows: list[_Row]
    following: _Place | None
    read: int


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often an error is in a list.

    Args:
        error: the class of the error; for what no handler failed at, the reason.
        count: how often.
        example: the newest one's text; None if there is none.
        last: the time of the newest one; None if it isn't known.
    """

    error: str
    count: int
    example: str | None
    last: datetime | None
