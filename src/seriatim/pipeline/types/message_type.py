"""The message type: its properties, their paths in the body, and the check of bodies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seriatim.errors import UsageError, entry_of, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, Kind, takes
from seriatim.pipeline.bodies.body_check import FORMATS, VALIDATIONS, WITH_SCHEMA, Format, body_reader, schema_check
from seriatim.pipeline.bodies.json_paths import path_steps
from seriatim.pipeline.bodies.property_values import Unreadable, problem_text
from seriatim.pipeline.bodies.xpath import compiled, is_prefix
from seriatim.pipeline.declared.kinds import OwnName
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.types.properties import OF_MESSAGES, checked_property, checked_type

_WRITTEN = "a type, such as 'string', or {'type': 'long', 'path': '$.customer.id'}"


@dataclass(frozen=True)
class _Properties(Kind):
    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: {name: _plain(one) for name, one in value.items()}}


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class MessageType(Declaration):
    """The properties of the messages of one type, and the check of their bodies.

    Args:
        name: its name, compared byte for byte.
        properties: the type of each property, by the property's name: ``string``, ``long``, ``double``, ``decimal(p,s)``,
            ``boolean`` or ``timestamp``. ``{"type": …, "path": …}`` declares a promoted property: its value is read from
            the body by a JSON path (``$.customer.id``) or XPath. Of several paths, the first path with a value that is
            neither absent nor null counts. A message has no other properties, apart from the reserved properties.
        validation: the check of bodies: ``"none"``, ``"empty"``, ``"well_formed_json"``, ``"valid_json"``,
            ``"well_formed_xml"``, ``"valid_xml"``.
        schema: the text of the JSON Schema or XSD, for ``valid_json`` and ``valid_xml``. It must not refer to other files.
        namespaces: the prefixes that XPath may use, and what they stand for.

    Raises:
        UsageError: an invalid name, type, path or schema, or arguments that contradict each other. The
            error names the type and the property.
    """

    _noun = "message type"
    name: str = takes(OwnName("a message type's name"))
    properties: Mapping[str, str | Mapping[str, str | Sequence[str]]] = takes(_Properties(), factory=dict)
    validation: Literal["none", "empty", "well_formed_json", "valid_json", "well_formed_xml", "valid_xml"] = takes(
        Choice(VALIDATIONS), "none"
    )
    schema: str | None = takes(Kind(), None)
    namespaces: Mapping[str, str] = takes(Kind(), factory=dict)

    def __post_init__(self) -> None:
        self._check_fields()
        object.__setattr__(self, "namespaces", self._checked_namespaces())
        object.__setattr__(self, "properties", self._checked_properties())
        self._check_format()
        self._check_schema()

    @classmethod
    def as_stored(cls, **given: Any) -> MessageType:
        """The type that a box has stored. If its schema can't be used any more, no body is valid.

        Raises:
            UsageError: another part of the type is wrong.
        """
        schema, validation = given.pop("schema"), given.pop("validation")
        try:
            return cls(**given, schema=schema, validation=validation)
        except UsageError:
            if validation not in WITH_SCHEMA or not isinstance(schema, str) or not schema.strip():
                raise
        found = cls(**given, validation=f"well_formed_{FORMATS[validation]}")  # type: ignore[arg-type] # one of them
        object.__setattr__(found, "schema", schema)
        object.__setattr__(found, "validation", validation)
        return found

    def types(self) -> dict[str, str]:
        """The type of each property, by the property's name."""
        return {name: one if isinstance(one, str) else str(one["type"]) for name, one in self.properties.items()}

    def promotions(self) -> tuple[Promotion, ...]:
        """The properties that are found in the body."""
        return tuple(
            Promotion(name, one["path"] if isinstance(one["path"], str) else tuple(one["path"]), str(one["type"]))
            for name, one in self.properties.items()
            if not isinstance(one, str)
        )

    @property
    def checks_bodies(self) -> bool:
        """Whether the type may refuse a body."""
        return self.validation != "none" or self.format() is not None

    def violation(self, body: bytes) -> str | None:
        """The fault of a body; None if the body is valid."""
        try:
            body_reader(self.validation, self.schema, self.format())(body)
        except Unreadable as error:
            return problem_text(str(error))
        return None

    def format(self) -> Format | None:
        """The format of bodies; None if bodies aren't read."""
        return FORMATS[self.validation] or next((_format_of(one.paths[0]) for one in self.promotions()), None)

    def _checked_namespaces(self) -> dict[str, str]:
        if not isinstance(self.namespaces, Mapping):
            raise self._wrong(
                "namespaces", f"namespaces can't be {shown(self.namespaces, 80)}", "a mapping from prefixes to names"
            )
        for prefix, meant in self.namespaces.items():
            if not isinstance(prefix, str) or not is_prefix(prefix):
                raise self._wrong("namespaces", f"{shown(prefix)} is not a prefix", "letters, digits, '-', '_' and '.'")
            if not isinstance(meant, str) or not meant or "\0" in meant:
                raise self._wrong(
                    entry_of("namespaces", prefix),
                    f"the prefix {shown(prefix)} can't stand for {shown(meant)}",
                    "such as urn:orders",
                )
        return dict(self.namespaces)

    def _checked_properties(self) -> dict[str, str | dict[str, str | tuple[str, ...]]]:
        if not isinstance(self.properties, Mapping):
            raise self._wrong(
                "properties", f"properties can't be {shown(self.properties, 80)}", "a mapping from names to types"
            )
        found: dict[str, str | dict[str, str | tuple[str, ...]]] = {}
        folded: dict[str, str] = {}
        for name, written in self.properties.items():
            if name == "type":  # which a pipeline may promote; here it is a field of the message
                raise self._wrong(
                    "properties.type", "'type' is a field of every message", "give the property another name"
                )
            try:
                checked_property(name, OF_MESSAGES)
                found[name] = self._checked_property(written)
            except UsageError as error:
                raise self._wrong(
                    entry_of("properties", name), f"property {shown(name, 80)}: {error.what}", error.remedy
                ) from error
            if (other := folded.setdefault(name.casefold(), name)) != name:
                what = f"the properties {other!r} and {name!r} differ only in capitals, which Spark doesn't tell apart"
                raise self._wrong(entry_of("properties", name), what, "give one of them another name")
        return found

    def _checked_property(self, written: object) -> str | dict[str, str | tuple[str, ...]]:
        if isinstance(written, str):
            if written.startswith(("$", "/")):
                raise UsageError(
                    f"{shown(written)} is not a type", remedy=f"a path is given as {{'path': {shown(written)}}}"
                )
            return checked_type(written)
        if not isinstance(written, Mapping) or not {"type", "path"} >= written.keys() or not written:
            raise UsageError(f"{shown(written, 80)} says nothing about it", remedy=_WRITTEN)
        kind = checked_type(written.get("type", "string"))
        if "path" not in written:
            return kind
        given = written["path"]
        paths = tuple(given) if isinstance(given, list | tuple) else (given,)
        for path in paths:
            self._check_path(path)
        if not paths or len(set(paths)) < len(paths):
            raise UsageError(f"{given!r:.80} is not a list of different paths", remedy="[$.after.id, $.before.id]")
        return {"type": kind, "path": paths[0] if len(paths) == 1 else paths}

    def _check_path(self, path: object) -> None:
        if not isinstance(path, str) or not path or "\0" in path:
            raise UsageError(f"{path!r:.80} is not a path", remedy="such as $.customer.id or /order/customer/@id")
        if _format_of(path) == "json":
            path_steps(path)
        else:
            compiled(path, self.namespaces)

    def _check_format(self) -> None:
        formats = {_format_of(path) for one in self.promotions() for path in one.paths}
        if len(formats) > 1:
            raise self._wrong("properties", "some paths are JSON paths and others XPath", "a body is one or the other")
        if formats and self.validation == "empty":
            raise self._wrong(
                ("properties", "validation"), "bodies are empty, so nothing is found in them", "leave the paths out"
            )
        checked = FORMATS[self.validation]
        if checked is not None and formats - {checked}:
            raise self._wrong(
                ("validation", "properties"),
                f"validation is {self.validation}, and the paths are not for it",
                f"write paths for {checked}",
            )
        if self.namespaces and (self.format() == "json" or self.validation == "empty"):
            raise self._wrong("namespaces", "namespaces are for XPath", "leave them out")

    def _check_schema(self) -> None:
        if self.validation not in WITH_SCHEMA:
            if self.schema is not None:
                raise self._wrong(
                    ("schema", "validation"),
                    f"validation is {self.validation}, which takes no schema",
                    "valid_json or valid_xml takes one",
                )
            return
        if not isinstance(self.schema, str) or not self.schema.strip():
            raise self._wrong(("schema", "validation"), f"{self.validation} needs a schema", "give its text")
        try:
            schema_check(self.validation, self.schema)
        except UsageError as error:
            raise self._wrong("schema", error.what, error.remedy) from error


def _format_of(path: str) -> Format:
    return "json" if path.startswith("$") else "xml"


def _plain(declared: str | Mapping[str, Any]) -> Any:
    if isinstance(declared, str):
        return declared
    return {key: value if isinstance(value, str) else list(value) for key, value in declared.items()}
