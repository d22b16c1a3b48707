"""Read a declaration from a section of a file, by the table of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, TypeVar

from seriatim.errors import UsageError
from seriatim.kernel.fields import (
    Choice,
    Declaration,
    Flagged,
    For,
    Kind,
    Period,
    Text,
    Texts,
    Value,
    Whole,
    Wrong,
    rows,
)
from seriatim.kernel.groups.numbers import Sequence
from seriatim.pipeline.declared.activation import Activation, OfActivation
from seriatim.pipeline.declared.kinds import ByType, Name, OfSequence
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE, Group
from seriatim.pipeline.files.policy import read_policy
from seriatim.pipeline.text.document import Items, Scalar, Table
from seriatim.pipeline.text.section import Section, in_yaml

_Declared = TypeVar("_Declared", bound=Declaration)


def read_declared(
    section: Section, kind: type[_Declared], given: Mapping[str, Any] | None = None, engines: For = For.BOX | For.REMOTE
) -> _Declared | None:
    """The declaration in a section, whose keys are its fields; None if it is wrong, which is reported. Arguments as for `read_fields`."""
    return made(section, kind, read_fields(section, kind, given, engines))


def read_fields(
    section: Section,
    kind: type[Declaration],
    given: Mapping[str, Any] | None = None,
    engines: For = For.BOX | For.REMOTE,
    later: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The values of the fields in a section; None where there is none, or it is wrong, which is reported. `section`: the section. `kind`:
    the class of the declaration. `given`: the values of fields that are read already. `engines`: the fields that may be given are those
    that one of these obeys. `later`: keys that a later version knows.
    """
    values = dict(given or {})
    for row in rows(kind):
        if row.name not in values and row.engines & engines:
            values[row.name] = _read(section, row.name, row.kind, required=row.is_required, engines=engines)
    section.finish(later)
    return values


def made(section: Section, kind: type[_Declared], values: Mapping[str, Any]) -> _Declared | None:
    """The declaration with these values; None if one is wrong or missing, which is reported."""
    needed = {row.name for row in rows(kind) if row.is_required}
    if any(value is None and (section.has(name) or name in needed) for name, value in values.items()):
        return None
    try:
        return kind(**{name: value for name, value in values.items() if value is not None})
    except UsageError as error:
        section.refuse(error)
        return None


def _read(section: Section, key: str, kind: Kind, *, required: bool, engines: For) -> Any:
    """The value of a key; None if there is none, or it is wrong, which is reported."""
    if isinstance(kind, Value):
        return _value(section, key, kind, required=required, engines=engines)
    reader = next((_READERS[one] for one in type(kind).__mro__ if one in _READERS), None)
    if reader is not None and not required:
        return reader(section, key, kind)
    if required and isinstance(kind, Text | Name):
        return section.text(key, required=True)
    return _checked(section, key, kind, required=required)


def _value(section: Section, key: str, kind: Value, *, required: bool, engines: For) -> Any:
    """A declaration in the section: a mapping of its fields, or the plain value of its first field; and fields that stand beside it."""
    apart = _apart(section, key, kind.kind, engines)
    if isinstance(section.tree(key), Table):
        found = _inner(section, key, kind, engines)
        if found is None or not apart:
            return found
        making: Callable[..., Any] = partial(replace, found)
    else:
        first = rows(kind.kind)[0]
        if not kind.plain and section.has(key):
            section.section(key, such=f"{{{first.name}: {_fitting(section, key, first.kind)}}}")  # it is none
            return None
        plain = _read(section, key, first.kind, required=required, engines=engines)
        if not apart or (plain is None and (required or section.has(key))):
            return plain
        making = partial(kind.kind, **({} if plain is None else {first.name: plain}))
    try:
        return making(**apart)
    except UsageError as error:
        section.refuse(error)
        return None


def _fitting(section: Section, key: str, kind: Kind) -> str:
    """The value of a key as the file has it, if it is one of this kind; else an ellipsis."""
    value = section.tree(key)
    try:
        kind.check(value.value if isinstance(value, Scalar) else None)
    except Wrong:
        return "…"
    return section.written(key)


def _inner(section: Section, key: str, kind: Value, engines: For) -> Any:
    inner = section.section(key)
    if inner is None:
        return None
    whole = inner.flag("whole_queue") if kind.kind is Group and inner.has("whole_queue") else None
    found = read_declared(inner, kind.kind, {"by": WHOLE_QUEUE} if whole else None, engines)
    if whole is False:
        section.fault(key, f"{section.full(key)} must be a property's name, or {{whole_queue: true}}")
        return None
    return found


def _apart(section: Section, key: str, kind: type[Declaration], engines: For) -> dict[str, Any]:
    """The fields of a value that stand beside it by their own keys, as in `folded`."""
    return {
        row.name: value
        for row in rows(kind)
        if row.key != key and row.engines & engines and section.has(row.key)
        if (value := _read(section, row.key, row.kind, required=False, engines=engines)) is not None
    }


def _checked(section: Section, key: str, kind: Kind, *, required: bool) -> Any:
    """A single value, checked by its kind alone."""
    value = section.plain(key, required=required)
    if value is None:
        return None
    try:
        return kind.check(value)
    except Wrong as wrong:
        section.fault(key, wrong.of(section.full(key), in_yaml(value)), wrong.remedy)
    except UsageError as error:
        section.fault(key, error.what, error.remedy)
    return None


def _period(section: Section, key: str, kind: Period) -> float | None:
    return None if section.duration_s(key) is None else _checked(section, key, kind, required=False)


def _by_type(section: Section, key: str) -> Any:
    """Whether each type is ordered by itself, or the policies of single types."""
    if not isinstance(section.tree(key), Table):
        return section.flag(key)
    inner = section.section(key)
    if inner is None:
        return None
    found = {}
    for kind in inner.names():
        policy = inner.section(kind)
        found[kind] = None if policy is None else read_policy(policy)[1]
        if policy is not None:
            policy.finish()
    return None if None in found.values() else found


def _sequence(section: Section, key: str) -> str | Sequence | None:
    """The property of a number, or a mapping of what the numbers mean."""
    if not isinstance(section.tree(key), Table):
        return section.text(key)
    inner = section.section(key)
    if inner is None:
        return None
    given: dict[str, Any] = {}
    for one in fields(Sequence):
        inner.known(one.name)
        if inner.has(one.name):
            several = one.name == "by" and isinstance(inner.tree("by"), Items)
            given[one.name] = inner.texts("by") if several else inner.plain(one.name)
    inner.finish()
    if None in given.values():
        return None  # reported
    try:
        return Sequence(**given)
    except UsageError as error:
        inner.refuse(error)
        return None


def _port(activation: Section) -> dict[str, Any]:
    """A port as text; its ``${NAME}`` aren't replaced here, because the values may be passwords."""
    return {"port": activation.unreplaced("port", "who works")} if activation.has("port") else {}


def _activation(section: Section, key: str) -> Activation | None:
    inner = section.section(key)
    return None if inner is None else read_declared(inner, Activation, _port(inner))


#: How a file gives a value that isn't required, by its kind; any other is a single value that its kind checks.
_READERS: Mapping[type[Kind], Callable[[Section, str, Any], Any]] = {
    Whole: lambda section, key, kind: section.whole(key, kind.least, kind.most),
    Choice: lambda section, key, kind: section.choice(key, kind.words),
    Flagged: lambda section, key, _: section.flag(key),
    Period: _period,
    Texts: lambda section, key, _: section.texts(key),
    Text: lambda section, key, _: section.text(key),
    Name: lambda section, key, _: section.text(key),
    OfActivation: lambda section, key, _: _activation(section, key),
    OfSequence: lambda section, key, _: _sequence(section, key),
    ByType: lambda section, key, _: _by_type(section, key),
}
