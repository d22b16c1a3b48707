"""A declaration is a table of fields. A field's kind checks its value, and says how a file gives it and how a box stores it.

Rules between fields are code of the declaration. A new plain field is one line of its class: the checks, the readers of files, the
stored form and the pages of the reference go by the table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from enum import Flag, auto
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from seriatim.errors import Argument, UsageError, is_whole, shown
from seriatim.kernel.values.time import micros, seconds

DAY_S = 86_400
#: The longest period that a box takes: twice that, seconds as floats would still be exact to the microsecond.
LONGEST_DAYS = 10_000

Stored = TypeVar("Stored")
Written = TypeVar("Written")
Of = TypeVar("Of", bound="Declaration")
Function = TypeVar("Function", bound=Callable[..., Any])

if TYPE_CHECKING:

    class Plain(Generic[Stored, Written]):
        """The type of a field whose value may be given in a plainer form, which is converted."""

        def __get__(self, of: object, kind: type | None = None) -> Stored: ...
        def __set__(self, of: object, value: Stored | Written) -> None: ...
else:
    Plain = Mapping


class For(Flag):
    #: A destination of a pipeline.
    PIPELINE = auto()
    #: A queue of a message box.
    BOX = auto()
    #: A queue of another box.
    REMOTE = auto()
    #: A queue of two regions, in each of the two boxes.
    REGIONAL = auto()
    EVERY = PIPELINE | BOX | REMOTE | REGIONAL


class Wrong(Exception):
    """A value that a field doesn't take: the remedy; and what is wrong, if that isn't "… can't be …", behind the name of the field."""

    def __init__(self, remedy: str, what: str = "", *, bare: bool = False) -> None:
        super().__init__(remedy)
        self.remedy, self._what, self._bare = remedy, what, bare

    def of(self, name: str, written: str) -> str:
        """Return what is wrong with a field; `written`: its value as a file or a program writes it."""
        if not self._what:
            return f"{name} can't be {written}"
        return self._what if self._bare else f"{name}: {self._what}"

    @property
    def says(self) -> bool:
        return bool(self._what)


@dataclass(frozen=True)
class Kind:
    def check(self, value: Any) -> Any:
        """The value as the field keeps it; raises `Wrong`."""
        return value

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: value}

    def restored(self, key: str, stored: Mapping[str, Any]) -> Any:
        return stored[key]

    def keys(self, key: str) -> tuple[str, ...]:
        return (key,)

    def behind(self, inner: Row) -> str:
        """The name of a field of the value, as it stands behind that of the value."""
        return ""


@dataclass(frozen=True)
class Whole(Kind):
    """A whole number. `zero`: 0 is None, for which the field has a meaning."""

    least: int
    most: int
    zero: bool = False

    def check(self, value: Any) -> Any:
        if value is None and self.zero:
            return None
        if not is_whole(value, self.least, self.most):
            raise Wrong(f"a whole number from {self.least:,} to {self.most:,}")
        return None if self.zero and value == 0 else value


@dataclass(frozen=True)
class Number(Kind):
    least: float
    most: float

    def check(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.least <= value <= self.most:
            raise Wrong(f"a number from {self.least} to {self.most}")
        return float(value)


@dataclass(frozen=True)
class Period(Kind):
    """A period, kept in seconds; `bounds`: the remedy's words for the bounds."""

    least_s: float = 0.0
    most_s: float = LONGEST_DAYS * DAY_S
    bounds: str = f"from 0 to {LONGEST_DAYS:,} days"

    @classmethod
    def above_0(cls) -> Self:
        return cls(0.000_001, bounds=f"more than 0 and at most {LONGEST_DAYS:,} days")

    def check(self, value: Any) -> Any:
        try:
            period = micros(value)
        except UsageError as error:
            raise Wrong(error.remedy, error.what) from error
        if not micros(self.least_s) <= period <= micros(self.most_s):
            raise Wrong(self.bounds)
        return seconds(period)


@dataclass(frozen=True)
class Flagged(Kind):
    def check(self, value: Any) -> Any:
        if not isinstance(value, bool):
            raise Wrong("True or False")
        return value


@dataclass(frozen=True)
class Choice(Kind):
    words: Collection[str]

    def check(self, value: Any) -> Any:
        if not isinstance(value, str) or value not in self.words:
            raise Wrong(f"one of {', '.join(self.words)}")
        return value


@dataclass(frozen=True)
class Text(Kind):
    """Text that isn't empty. `further`: what else has to be right of it; `remedy`: an example."""

    remedy: str = "text, not empty"
    blank: bool = True
    further: Callable[[str], object] | None = None

    def check(self, value: Any) -> Any:
        if not isinstance(value, str) or not (value if self.blank else value.strip()):
            raise Wrong(self.remedy)
        if self.further is not None:
            try:
                self.further(value)
            except UsageError as error:
                raise Wrong(error.remedy, error.what, bare=True) from None
        return value


@dataclass(frozen=True)
class Texts(Kind):
    """A list of texts, each kept once. `of`: the kind of each; `one`: a text may stand for a list of it; `once`: none comes twice."""

    of: Kind = field(default_factory=Text)
    remedy: str = "a list of names"
    one: bool = False
    least: int = 0
    once: bool = False

    def check(self, value: Any) -> Any:
        listed = (value,) if self.one and isinstance(value, str) else value
        if isinstance(listed, str) or not isinstance(listed, Sequence) or len(listed) < self.least:
            raise Wrong(self.remedy)
        for one in listed:
            try:
                self.of.check(one)
            except Wrong as wrong:
                raise wrong if wrong.says else Wrong(self.remedy) from None
        if self.once and len(set(listed)) < len(listed):
            raise Wrong("name each once", "one is named twice")
        return tuple(dict.fromkeys(listed))

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: None if value is None else list(value)}


@dataclass(frozen=True)
class Value(Kind):
    """A declaration in another one, stored with the keys of its fields. `plain`: a plain value stands for its first field. `always`: None
    is the declaration without arguments, as where the field has such a default.
    """

    kind: type[Declaration]
    example: str
    plain: bool = True
    always: bool = False

    def check(self, value: Any) -> Any:
        if isinstance(value, self.kind):
            return value
        if value is None and self.always:
            return self.kind()
        if not self.plain or isinstance(value, Mapping | Declaration):
            raise Wrong(f"such as {self.example}")
        rows(self.kind)[0].kind.check(value)
        return self.kind(value)  # type: ignore[call-arg] # a dataclass

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {
            key: one
            for row in rows(self.kind)
            for key, one in row.kind.stored(row.key, row.default if value is None else getattr(value, row.name)).items()
        }

    def restored(self, key: str, stored: Mapping[str, Any]) -> Any:
        first = rows(self.kind)[0]
        if not self.always and first.key in stored and stored[first.key] is None:
            return None
        return from_stored(self.kind, {one: stored[one] for one in keys_of(self.kind) if one in stored})

    def keys(self, key: str) -> tuple[str, ...]:
        return tuple(keys_of(self.kind))

    def behind(self, inner: Row) -> str:
        return "" if self.plain and inner is rows(self.kind)[0] else f".{inner.name}"


@dataclass(frozen=True)
class Row:
    """A field in the table of a declaration: its name, its kind, its key in stored declarations, its engines, its default, and
    the keys of its value.
    """

    name: str
    kind: Kind
    key: str
    engines: For
    of: Field[Any]
    keys: tuple[str, ...]

    @property
    def is_required(self) -> bool:
        return self.of.default is MISSING and self.of.default_factory is MISSING

    @property
    def default(self) -> Any:
        """The value of a field that isn't given, or whose declaration is None; None for one that has to be given."""
        if self.of.default_factory is not MISSING:
            return self.of.default_factory()
        return None if self.of.default is MISSING else self.of.default


def takes(
    kind: Kind, default: Any = MISSING, *, factory: Any = MISSING, key: str = "", engines: For = For.BOX, **options: Any
) -> Any:
    """A field of a declaration; `key`: its key in stored declarations, if that isn't its name."""
    given = {"default": default} if factory is MISSING else {"default_factory": factory}
    if isinstance(kind, Value):
        kind = replace(kind, always=factory is not MISSING)
    return field(**given, metadata={"kind": kind, "key": key, "engines": engines}, **options)


def rows(kind: type[Declaration]) -> tuple[Row, ...]:
    return _table(cast("Any", kind))


@cache
def _table(kind: Any) -> tuple[Row, ...]:
    found = []
    for one in fields(kind):
        its, key = one.metadata["kind"], one.metadata["key"] or one.name
        found.append(Row(one.name, its, key, one.metadata["engines"], one, its.keys(key)))
    return tuple(found)


def folded(kind: type[Declaration], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a declaration, in which a field of a value may stand by its own key: ``attempts=3`` for ``retry=Retry(attempts=3)``.
    These are the keys of the stored form, and of files; they save a name where one field is all that is said.
    """
    given = dict(named)
    for row in rows(kind):
        if not isinstance(row.kind, Value):
            continue
        first, *_ = inner = rows(row.kind.kind)
        apart = {one.name: given.pop(one.key) for one in inner if one.key != row.name and one.key in given}
        if not apart:
            continue
        value = given.get(row.name, row.default)
        if isinstance(value, row.kind.kind):
            given[row.name] = replace(cast("Any", value), **apart)
        else:
            given[row.name] = row.kind.kind(**({} if value is None else {first.name: value}) | apart)
    return given


def fields_apart(kind: type[Declaration]) -> Callable[[Function], Function]:
    """Decorate a function that takes the fields of a declaration: fields of their values may be given by their own keys."""

    def decorated(function: Function) -> Function:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            return function(*given, **folded(kind, named))

        return cast("Function", called)

    return decorated


class Declaration:
    """The base of declarations: dataclasses whose fields are made by `takes`."""

    __slots__ = ()
    #: What it is, before its name in errors; empty: they name its class.
    _noun: ClassVar[str] = ""

    @classmethod
    def arguments(cls, given: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
        """All arguments by their names; a field of a value may be given by its own key (see `folded`)."""
        return folded(cls, {**dict(zip([row.name for row in rows(cls)], given, strict=False)), **named})

    def __post_init__(self) -> None:
        self._check_fields()

    def _check_fields(self) -> None:
        """Check each field by its kind, in their order, and keep its value as the kind does."""
        for row in rows(type(self)):
            given = getattr(self, row.name)
            if given is None and row.of.default is None:
                continue
            try:
                kept = row.kind.check(given)
            except Wrong as wrong:
                raise self._wrong(row.name, wrong.of(row.name, shown(given)), wrong.remedy) from None
            if kept is not given:
                object.__setattr__(self, row.name, kept)

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        where = f"{self._noun} {getattr(self, 'name', None)!r}" if self._noun else type(self).__name__
        return UsageError(what, where=where, remedy=remedy, argument=argument)


@dataclass(frozen=True)
class Leaf:
    """A field of a declaration, or of a declaration in it: its name with its path, and its value, of the declaration and by default."""

    path: str
    row: Row
    value: Any
    default: Any

    @property
    def is_given(self) -> bool:
        return bool(self.value != self.default)


def leaves(of: Declaration) -> Iterator[Leaf]:
    """The fields of a declaration; in place of a declaration in it, the fields of that one."""
    for row in rows(type(of)):
        value, default = getattr(of, row.name), row.default
        if not isinstance(row.kind, Value):
            yield Leaf(row.name, row, value, default)
            continue
        for inner in rows(row.kind.kind):
            its, plain = (inner.default if one is None else getattr(one, inner.name) for one in (value, default))
            yield Leaf(row.name + row.kind.behind(inner), inner, its, plain)


def to_stored(of: Declaration) -> dict[str, Any]:
    """A declaration as a flat mapping of JSON values, by the keys of its fields."""
    return {
        key: value for row in rows(type(of)) for key, value in row.kind.stored(row.key, getattr(of, row.name)).items()
    }


def from_stored(kind: type[Of], stored: Mapping[str, Any]) -> Of:
    """The declaration of a mapping that `to_stored` made; a field that it doesn't have yet has its default. Raises `UsageError`: it has a
    key of no field; or the declaration refuses a value.
    """
    if unknown := stored.keys() - keys_of(kind):
        raise UsageError(f"{min(unknown)} is unknown here")
    given = {
        row.name: row.kind.restored(row.key, stored)
        for row in rows(kind)
        if row.is_required or any(key in stored for key in row.keys)
    }
    return kind(**given)


def keys_of(kind: type[Declaration]) -> Mapping[str, str]:
    """The keys of a stored declaration; for each the name of its field, with that of the field with it: ``retry.delay``, but ``keep``
    for what a plain value says.
    """
    return _keys(cast("Any", kind))


@cache
def _keys(kind: Any) -> Mapping[str, str]:
    return {
        key: row.name + row.kind.behind(inner)
        for row in rows(kind)
        for inner in (rows(row.kind.kind) if isinstance(row.kind, Value) else [row])
        for key in inner.kind.keys(inner.key)
    }
