"""Properties of messages: their names, types and owners."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from seriatim.errors import UsageError, shown
from seriatim.pipeline.text.section import Section, likely
from seriatim.pipeline.types.origin import ORIGIN

#: What the parts of messages that were split have besides, and its types.
PARTS: Mapping[str, str] = {"parent_id": "string", "part": "long", "parts": "long"}

#: The names of every message's own fields: no property has one of them, in any mixture of capitals.
OF_MESSAGES = frozenset(
    {
        *("body", "content_type", "context", "correlation_id", "message_id", "parent_id", "part", "parts"),
        *("received_at", "epoch", "location", "ticket", "to"),
        *ORIGIN,
    }
)
#: And the columns that a pipeline adds. ``type`` may be promoted there: it then says the message's type.
RESERVED = OF_MESSAGES | {
    "destination",
    "disposition",
    "group",
    "incarnation",
    "late",
    "missing",
    "ordinal",
    "overlaps",
    "partial",
    "reason",
    "sequence",
}

_TYPES = ("string", "long", "double", "boolean", "timestamp")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_LONGEST_NAME = 128
_NAME_RULE = f"letters, digits and underscores, beginning with a letter, at most {_LONGEST_NAME}"
_MEANT = {
    "bigint": "long",
    "bool": "boolean",
    "date": "timestamp",
    "datetime": "timestamp",
    "float": "double",
    "int": "long",
    "integer": "long",
    "number": "long or decimal(p,s)",
    "str": "string",
    "text": "string",
}


@dataclass(frozen=True, slots=True)
class Properties:
    """The promoted properties: for each location the type of each property; `whole`: none was left out because of a fault. `splits`: there
    are parts of messages, and so their `PARTS`. `unstamped`: the locations without tickets. `faulty`: the names that locations with a fault
    promote; None: these aren't known.
    """

    by_location: Mapping[str, Mapping[str, str]]
    whole: bool
    splits: bool = False
    unstamped: tuple[str, ...] = ()
    faulty: frozenset[str] | None = frozenset()

    def is_unknown(self, name: str) -> bool:
        """Whether nothing can be said of a name that no location without a fault promotes: one with a fault may."""
        return self.faulty is None or name in self.faulty

    @property
    def unknown(self) -> Callable[[str], bool] | None:
        """`is_unknown`; None: no location has a fault."""
        return None if self.faulty == frozenset() else self.is_unknown

    def type_of(self, name: str) -> str | None:
        """Return the property's type; None if no location promotes it."""
        if self.splits and name in PARTS:
            return PARTS[name]
        return next((types[name] for types in self.by_location.values() if name in types), None)

    def names(self) -> set[str]:
        """Every property that any location promotes, and the properties of parts if there are any."""
        return {*(PARTS if self.splits else ()), *(name for types in self.by_location.values() for name in types)}

    def without(self, name: str) -> list[str]:
        """Return the locations that don't promote the property. That whole messages lack the properties of parts is no fault."""
        if self.splits and name in PARTS:
            return []
        return [location for location, types in self.by_location.items() if name not in types]


def checked_property(name: object, reserved: Collection[str] = RESERVED) -> str:
    if not isinstance(name, str):
        raise UsageError(f"{shown(name)} can't be the name of a property", remedy=_NAME_RULE)
    if name.casefold() in reserved or (name.casefold() == "type" and name != "type"):
        raise UsageError(
            f"{name!r} is the name of a column that seriatim adds", remedy="give the property another name"
        )
    if not name.isidentifier() or name.startswith("_") or len(name) > _LONGEST_NAME:
        raise UsageError(f"{shown(name)} can't be the name of a property", remedy=_NAME_RULE)
    return name


def checked_type(written: object) -> str:
    """Parse the `written` type of a property, without spaces."""
    if not isinstance(written, str):
        raise UsageError(f"{shown(written)} is not a type", remedy=f"one of {', '.join(_TYPES)}, decimal(p,s)")
    if written in _TYPES:
        return written
    decimal = _DECIMAL.fullmatch(written)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
        raise UsageError(f"{written!r}: the precision is 1 to 38 digits, the scale at most the precision")
    if written.startswith("decimal"):
        remedy = "write decimal(precision,scale), e.g. decimal(12,2)"
        if "(" in written and ")" not in written:  # YAML has cut it at its comma
            remedy = "inside { } put it in quotes: 'decimal(12,2)'"
        raise UsageError(f"{shown(written)} is not a type", remedy=remedy)
    meant = _MEANT.get(written.casefold())
    remedy = f"did you mean {meant}?" if meant else likely(written, (*_TYPES, "decimal(p,s)"))
    raise UsageError(f"{shown(written)} is not a type", remedy=remedy)


def usable_name(section: Section, name: str, reserved: Collection[str] = RESERVED) -> bool:
    """Whether a property may have the name of a key; if not, that is reported. Arguments as for `checked_property`."""
    try:
        checked_property(name, reserved)
    except UsageError as error:
        section.key_fault(name, error.what, error.remedy)
        return False
    return True


def property_type(section: Section, key: str, written: str) -> str | None:
    """The type of a property that is `written` under `key`; None if there is no such type, which is reported."""
    try:
        return checked_type(written)
    except UsageError as error:
        section.fault(key, error.what, error.remedy)
        return None
