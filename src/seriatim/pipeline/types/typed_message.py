"""Messages by their types: typed properties from contexts and bodies, and the faults of a message.

A message's property is the value in its context, or else the value that its type finds in the body. Paths, schemas and
conversions are prepared once for each type, not for each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType

from seriatim.errors import UsageError, shown
from seriatim.kernel.filters.filter import Type, type_from
from seriatim.pipeline.bodies.body_check import body_reader
from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Converter, Unreadable, Value, converted, problem_text
from seriatim.pipeline.bodies.xml_paths import XmlPaths
from seriatim.pipeline.declared.location import checked_location
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.types.box_properties import OWN, TRACE, UNIQUE_KEY, property_types
from seriatim.pipeline.types.message import Message, Property
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.python_values import given_converter, kept, without_nul
from seriatim.pipeline.types.sent_by import LINK
from seriatim.pipeline.types.taken_from import SOURCE

#: The reserved properties that a context may give; the box gives the others, or they are fields of the message.
_GIVEN = frozenset({"correlation_id", "location", "parent_id", "part", "parts", "to", UNIQUE_KEY, *TRACE, *SOURCE})


@dataclass(frozen=True, slots=True)
class Typed:
    """A batch of messages, read by their types."""

    #: The messages; the other lists have an item for each of them.
    messages: Sequence[Message]
    #: Their properties, each of its type (`str`, `int`, `float`, `Decimal`, `bool`, `datetime` in UTC, None); a promoted property that
    #: the body doesn't have is left out. Empty if there is a problem.
    contexts: Sequence[Mapping[str, Property]]
    #: The reason why a message is invalid; None if it is valid. Text without NUL, at most about 1,000 characters.
    problems: Sequence[str | None]
    #: The rows of messages without problem whose types are unknown: their properties keep the types with which they were given.
    undeclared: Sequence[int]
    #: Whether the messages may carry the origin that a session has given them.
    carried: bool = False


class MessageTypes:
    """The prepared message types of a box; never changes, so threads may share it."""

    def __init__(self, types: Iterable[MessageType]) -> None:
        self._known = known = tuple(types)
        written = property_types(known)
        #: The properties that filters and queues may name, with their types: the properties that the types declare, and the reserved
        #: properties.
        self.properties: Mapping[str, Type] = MappingProxyType(
            {name: type_from(kind) for name, kind in written.items()}
        )
        self._by_name: dict[str, _Reader] = {}
        for one in known:
            if one.name in self._by_name:
                raise UsageError(f"two message types are named {one.name!r}", remedy="give one of them another name")
            self._by_name[one.name] = _Reader(one, _OWN)

    @cached_property
    def _carrying(self) -> Mapping[str, _Reader]:
        return {one.name: _Reader(one, _CARRIED) for one in self._known}

    def typed(self, messages: Sequence[Message], *, carried: bool = False) -> Typed:
        """Read a batch. The faults of invalid messages are among the problems; nothing is raised for them."""
        contexts: list[Mapping[str, Property]] = []
        problems: list[str | None] = []
        undeclared: list[int] = []
        readers, own = (self._carrying, _CARRIED) if carried else (self._by_name, _OWN)
        for row, message in enumerate(messages):
            reader = readers.get(message.type)
            context: Mapping[str, Property] = {}
            problem = None
            try:
                if reader is not None:
                    context = reader.context(message)
                else:
                    context = _kept(message, own)
                    undeclared.append(row)
            except Unreadable as error:
                problem = problem_text(str(error))
            contexts.append(context)
            problems.append(problem)
        return Typed(messages, contexts, problems, undeclared, carried)


class _Reader:
    """Reads messages of one type. `own`: the reserved properties that they may have."""

    def __init__(self, kind: MessageType, own: Mapping[str, Converter]) -> None:
        self._type = kind.name
        self._written = kind.types()
        self._converters = dict(own) | {name: given_converter(written) for name, written in self._written.items()}
        self._read = body_reader(kind.validation, kind.schema, kind.format())
        self._checked = kind.validation != "none"
        paths = JsonPaths(kind.promotions()) if kind.format() == "json" else None
        self._finders: list[tuple[str, Callable[[Value], Value]]] = (
            paths.finders() if paths else XmlPaths(kind.promotions(), kind.namespaces).finders()
        )

    def context(self, message: Message) -> dict[str, Property]:
        """The typed properties. Raises `Unreadable` with the fault of the message."""
        given = message.context
        context: dict[str, Property] = {}
        converters, name = self._converters, ""
        try:
            for name, value in given.items():
                if (convert := converters.get(name)) is None:
                    raise self._undeclared(given)
                context[name] = None if value is None else convert(value)
        except (ValueError, ArithmeticError) as error:
            raise self._misfit(name, Unreadable(f"{name}: {error}")) from error
        wanted = [finder for finder in self._finders if finder[0] not in given] if given else self._finders
        if wanted or self._checked:
            self._promote(message.body, wanted, context)
        return context

    def _promote(
        self, body: bytes, wanted: Sequence[tuple[str, Callable[[Value], Value]]], context: dict[str, Property]
    ) -> None:
        """Put the requested promoted properties into a context. Raises `Unreadable`."""
        try:
            document = self._read(body)
        except Unreadable as error:
            raise Unreadable(f"body: {error}") from error
        for name, find in wanted:
            try:
                value = find(document)
                if value is not None:
                    context[name] = converted(name, without_nul, value)
            except Unreadable as error:
                raise self._misfit(name, error) from error

    def _misfit(self, name: str, error: Unreadable) -> Unreadable:
        return Unreadable(f"property {error} (its type is {self._written.get(name) or OWN[name]})")

    def _undeclared(self, given: Mapping[str, Property]) -> Unreadable:
        unknown = [name for name in given if name not in self._converters]
        name = unknown[0]
        if name in OWN:
            return _not_given(name)
        others = f" and {len(unknown) - 1:,} others" if unknown[1:] else ""
        return Unreadable(f"type {self._type!r} declares no property {shown(name, 60)}{others}")


def _kept(message: Message, own: Mapping[str, Converter]) -> dict[str, Property]:
    """The properties of a message of unknown type. Raises `Unreadable`."""
    context: dict[str, Property] = {}
    name = ""
    try:
        for name, value in message.context.items():
            if (convert := own.get(name, kept)) is kept:
                _check_name(name)
            context[name] = None if value is None else convert(value)
    except (ValueError, ArithmeticError) as error:
        raise Unreadable(f"property {name if isinstance(name, str) else shown(name)}: {error}") from error
    return context


# The same few names again and again.
@lru_cache(maxsize=10_000)
def _check_name(name: object) -> None:
    """Check the name of an undeclared property. Raises `Unreadable`."""
    if name in OWN:
        raise _not_given(str(name))
    try:
        checked_name(name, "a property's name")
    except UsageError as error:
        raise Unreadable(f"{shown(name, 60)} is not a property's name ({error.remedy})") from error


def _not_given(name: str) -> Unreadable:
    return Unreadable(f"property {name!r} can't be given: it is a field of the message, or the box gives it")


def _location(value: Value) -> str:
    try:
        return checked_location(value)
    except UsageError as error:
        raise ValueError(f"{shown(value, 60)} is not a location's name") from error


_OWN: dict[str, Converter] = {name: given_converter(OWN[name]) for name in sorted(_GIVEN)} | {"location": _location}
#: And the properties of messages that may carry an origin, or came over a link.
_CARRIED: Mapping[str, Converter] = _OWN | {name: given_converter(kind) for name, kind in {**ORIGIN, **LINK}.items()}
