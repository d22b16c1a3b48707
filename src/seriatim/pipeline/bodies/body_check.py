"""Read and check bodies: none, empty, well-formed or valid JSON or XML.

Bodies and schemas are untrusted. References to anything outside are refused, and nothing is ever fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal

from seriatim.errors import InvariantBroken, UsageError
from seriatim.pipeline.bodies.json_paths import json_reader
from seriatim.pipeline.bodies.property_values import Unreadable, Value, text_of
from seriatim.pipeline.bodies.xml_paths import document_reader
from seriatim.pipeline.bodies.xsd import xsd

Format = Literal["json", "xml"]

#: The form in which a body that is checked so is read.
FORMATS: Mapping[str, Format | None] = {
    "none": None,
    "empty": None,
    "well_formed_json": "json",
    "valid_json": "json",
    "well_formed_xml": "xml",
    "valid_xml": "xml",
}
VALIDATIONS = tuple(FORMATS)
#: The checks that need a schema.
WITH_SCHEMA = frozenset({"valid_json", "valid_xml"})


# A schema is compiled where it is declared and once more where it is used: in one process only once.
@lru_cache(maxsize=256)
def body_reader(validation: str, schema: str | None, format_: Format | None) -> Callable[[bytes], Value]:
    """Return a function from a body to its document (None: it isn't read); it raises `Unreadable`, with the fault."""
    match validation, format_:
        case ("valid_json", "json") if schema is not None:
            return _checked(_json(), _usable_check(validation, schema))
        case ("valid_xml", "xml") if schema is not None:
            return _checked(document_reader(), _usable_check(validation, schema))
        case ("none" | "well_formed_json", "json"):
            return _json()
        case ("none" | "well_formed_xml", "xml"):
            return document_reader()
        case ("empty", None):
            return _empty
        case ("none", None):
            return lambda _: None
    raise InvariantBroken(f"{validation} can't be combined with {format_}")


def schema_check(validation: str, schema: str) -> Callable[[Value], None]:
    """Return a function that checks a document against a schema; it raises `Unreadable`. Arguments as for `body_reader`."""
    if validation == "valid_xml":
        return xsd(schema)
    # Its import takes longer than that of NumPy, and `import seriatim` imports this module.
    from seriatim.pipeline.bodies.json_schema import json_schema  # noqa: PLC0415

    return json_schema(schema)


def _usable_check(validation: str, schema: str) -> Callable[[Value], None]:
    """Like `schema_check`, but also for a stored schema that today's rules refuse."""
    try:
        return schema_check(validation, schema)
    except UsageError as error:
        what = f"the type's schema can't be used, define it again: {error}"

    def refuse(_: Value) -> None:
        raise Unreadable(what)

    return refuse


def _json() -> Callable[[bytes], Value]:
    document_of = json_reader()
    return lambda body: document_of(text_of(body))


def _checked(read: Callable[[bytes], Value], check: Callable[[Value], None]) -> Callable[[bytes], Value]:
    def read_and_check(body: bytes) -> Value:
        document = read(body)
        check(document)
        return document

    return read_and_check


def _empty(body: bytes) -> None:
    if body:
        raise Unreadable(f"the body has {len(body):,} bytes and should be empty")
