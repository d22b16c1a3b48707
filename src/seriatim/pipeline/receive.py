"""The ``receive`` part of a pipeline file: locations, their sources and the properties promoted there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from seriatim.pipeline.declaration import Promotion, Receive, Source
from seriatim.pipeline.document import Table
from seriatim.pipeline.paths import FILE_FORMATS, Paths, file_format
from seriatim.pipeline.section import Section, likely

__all__ = ["LATER", "RESERVED", "Properties", "receive"]

#: Keys of the file's language that later versions understand, wherever they stand.
LATER = {
    "dialogs": "dialogs between services",
    "process": "a function of yours",
    "service": "services and dialogs",
    "split": "taking messages apart",
    "stamp": "tickets",
}

#: Columns that seriatim adds or may add: no property is called so, in any mixture of capitals.
#: ``type`` may be promoted: it then says the message's type.
RESERVED = frozenset(
    {
        *(
            "body",
            "content_type",
            "context",
            "correlation_id",
            "message_id",
            "parent_id",
            "part",
            "parts",
            "received_at",
        ),
        *("epoch", "location", "ticket"),
        *("destination", "disposition", "group", "late", "ordinal", "reason", "sequence", "to"),
    }
)

_TYPES = ("string", "long", "double", "boolean", "timestamp")
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
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
_JSON_PATH = re.compile(r"\$(?:\.[^.\[\]\s*?'\"]+|\[\d+\]|\['[^'?]+'\])+")


@dataclass(frozen=True, slots=True)
class Properties:
    """What the locations promote: per location the type of each property; `whole`: none was left out for a fault."""

    by_location: Mapping[str, Mapping[str, str]]
    whole: bool

    def type_of(self, name: str) -> str | None:
        """The property's type, None where no location promotes it."""
        return next((types[name] for types in self.by_location.values() if name in types), None)

    def names(self) -> set[str]:
        """Every property that any location promotes."""
        return {name for types in self.by_location.values() for name in types}

    def without(self, name: str) -> list[str]:
        """The locations that don't promote it."""
        return [location for location, types in self.by_location.items() if name not in types]


def receive(pipeline: Section, paths: Paths) -> tuple[tuple[Receive, ...], Properties]:
    """Read all locations."""
    received: list[Receive] = []
    titles: set[str] = set()
    types: dict[str, str] = {}
    whole = True
    for section in pipeline.sections("receive"):
        location = section.text("location", required=True)
        if location is not None and (location in titles or len(location) > 128):
            what = (
                f"location {location!r} is given twice"
                if location in titles
                else "a location has at most 128 characters"
            )
            section.fault("location", what)
        titles.add(location or "")
        source = _source(section, paths)
        promote = _promote(section, source.format if source else None, types)
        section.finish(LATER)
        if location is not None and source is not None and promote is not None:
            received.append(Receive(location, source, promote))
        else:
            whole = False
    by_location = {entry.location: {one.name: one.type for one in entry.promote} for entry in received}
    return tuple(received), Properties(by_location, whole and bool(received))


def _source(location: Section, paths: Paths) -> Source | None:
    section = location.section("source", required=True)
    if section is None:
        return None
    kind = file_format(section)
    path = paths.source(section, "path")
    schema = section.text("schema")
    if schema is not None and kind == "json":
        section.fault("schema", "JSON is read line by line and takes no schema", "promote what you need, with its type")
    options = section.options("options")
    section.finish()
    return Source(kind, path, options, schema) if kind and path else None


def _promote(location: Section, kind: str | None, types: dict[str, str]) -> tuple[Promotion, ...] | None:
    section = location.section("promote")
    if section is None:
        return None if location.has("promote") else ()
    promotions = [_promotion(section, name, kind) for name in section.names()]
    seen: dict[str, str] = {}
    for promotion in filter(None, promotions):
        name, folded = promotion.name, promotion.name.casefold()
        if folded in seen:
            what = (
                f"the properties {seen[folded]!r} and {name!r} differ only in capitals, which Spark doesn't tell apart"
            )
            section.fault(name, what)
        seen.setdefault(folded, name)
        before = types.setdefault(folded, promotion.type)
        if before != promotion.type:
            section.fault(name, f"property {name!r} is {promotion.type} here and {before} at another location")
    good = tuple(promotion for promotion in promotions if promotion is not None)
    return good if len(good) == len(promotions) else None


def _promotion(section: Section, name: str, kind: str | None) -> Promotion | None:
    usable = _usable_name(section, name)
    inner, path_key = section, name
    fitting: str | None = "string"
    nested = section.section(name) if isinstance(section.tree(name), Table) else None
    if nested is not None:
        inner, path_key = nested, "path"
        fitting = _type(inner, inner.text("type") or "string")
    path = inner.text(path_key, required=True)
    if nested is not None:
        nested.finish()
    if name == "type" and fitting not in (None, "string"):
        inner.fault("type", "the message's type is a string", "leave its type out")
        return None
    if path is None or fitting is None or not usable:
        return None
    return Promotion(name, path, fitting) if _path_fits(inner, path_key, path, kind) else None


def _usable_name(section: Section, name: str) -> bool:
    place = section.key_place(name)
    if name.casefold() in RESERVED or (name.casefold() == "type" and name != "type"):
        section.problems.add(place, f"{name!r} is a column of seriatim's own", "give the property another name")
    elif not name.isidentifier() or name.startswith("_") or len(name) > 128:
        rule = "letters, digits and underscores, beginning with a letter, at most 128"
        section.problems.add(place, f"{name!r} can't be a property's name", rule)
    else:
        return True
    return False


def _type(section: Section, written: str) -> str | None:
    if written in _TYPES:
        return written
    decimal = _DECIMAL.fullmatch(written)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
        section.fault("type", f"{written!r}: the precision is 1 to 38 digits, the scale at most the precision")
    elif written.startswith("decimal"):
        section.fault("type", f"{written!r} is not a type", "write decimal(precision,scale), e.g. decimal(12,2)")
    else:
        meant = _MEANT.get(written.casefold())
        known = (*_TYPES, "decimal(p,s)")
        section.fault(
            "type", f"{written!r} is not a type", f"did you mean {meant}?" if meant else likely(written, known)
        )
    return None


def _path_fits(section: Section, key: str, path: str, kind: str | None) -> bool:
    if kind == "json" and not _JSON_PATH.fullmatch(path):
        remedy = "write $.name, $.outer.inner, $.list[0] or $['a name']"
        section.fault(key, f"{path!r} is not a path into JSON", remedy)
        return False
    if kind in FILE_FORMATS and kind != "json" and path.startswith("$"):
        section.fault(key, f"{path!r}: {kind} has columns, not paths", "write the column's name")
        return False
    return True
