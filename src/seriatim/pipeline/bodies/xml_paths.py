"""XML: a body to its document, and properties by XPath.

Documents are untrusted. A document with any DOCTYPE is refused: so there are no entities to expand, no
external entities to fetch, no DTD. The network is never used. Text may be as long as a body; nesting is limited to
2,048.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from lxml import etree

from seriatim.pipeline.bodies.property_values import (
    Find,
    Promoted,
    Unreadable,
    Value,
    converter_of,
    finder,
    promoted,
    shortened,
)
from seriatim.pipeline.bodies.xpath import compiled
from seriatim.pipeline.declared.promotion import Promotion

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class XmlPaths:
    """Reads an XML document; paths begin at its root element. The value of an element is its text. A value that isn't found, or is empty,
    is null; several values are a problem. White space around values that are not strings is removed.
    """

    promote: tuple[Promotion, ...]
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def reader(self) -> Callable[[bytes], Promoted]:
        """Return a function from a body to the promoted values; it raises `Unreadable` if the body is no XML."""
        finds = [find for _, find in self.finders()]
        root_of = document_reader()
        return lambda body: promoted(finds, root_of(body))

    def finders(self) -> list[tuple[str, Find]]:
        """Return by name the functions that find promoted values below a root; they raise `Unreadable`. Raises `UsageError` for a wrong
        path.
        """
        return [(item.name, _finder(item, self.namespaces)) for item in self.promote]


def _finder(item: Promotion, namespaces: Mapping[str, str]) -> Find:
    lookups = [xml_lookup(item, path, namespaces) for path in item.paths]
    return finder(item.name, lookups, converter_of(item.name, item.type))


def xml_lookup(item: Promotion, path: str, namespaces: Mapping[str, str]) -> Find:
    """Return a function that finds the value of a property at one of its paths. Raises `UsageError` for a wrong path."""
    name, find, plain = item.name, compiled(path, namespaces), item.type == "string"

    def lookup(root: etree._Element) -> Value:
        value = _only(name, found(name, find, root))
        if isinstance(value, str) and not plain:
            value = value.strip()
        return None if value == "" else value

    return lookup


def document_reader(*, encoding: str | None = None) -> Callable[[bytes], etree._Element]:
    """Return a function from a body to the root element of its document; it raises `Unreadable`."""
    # Without `huge_tree` libxml2 stops at 10 MB of text and 256 levels, and is safe with entities that multiply.
    parser, large = _parser(encoding=encoding), _parser(huge=True, encoding=encoding)

    def read(body: bytes) -> etree._Element:
        try:
            root = etree.fromstring(body, parser)
        except etree.XMLSyntaxError:
            if _has_doctype(body):
                raise Unreadable(_DOCTYPE) from None
            try:
                return etree.fromstring(body, large)
            except etree.XMLSyntaxError as error:
                raise Unreadable(f"not XML: {_told(error)}") from error
        if root.getroottree().docinfo.internalDTD is not None:
            raise Unreadable(_DOCTYPE)
        return root

    return read


def _parser(*, huge: bool = False, target: Any = None, encoding: str | None = None) -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=huge, target=target, encoding=encoding
    )


_DOCTYPE = "the document has a DOCTYPE, which is refused: it can hold entities that multiply or read files"


class _Seen(Exception):
    """Raised when enough of a document was read; the text has the result."""


class _Prolog:
    """A parser target that ends at the DOCTYPE or at the first element."""

    def doctype(self, *_: object) -> None:
        raise _Seen("doctype")

    def start(self, *_: object) -> None:
        raise _Seen("element")

    def close(self) -> None:
        return None


def _has_doctype(body: bytes) -> bool:
    """Return whether there is a DOCTYPE, found by the parser itself before it reads the declarations."""
    parser = _parser(huge=True, target=_Prolog())
    try:
        for first in range(0, len(body), _CHUNK):
            parser.feed(body[first : first + _CHUNK])
    except _Seen as seen:
        return str(seen) == "doctype"
    except etree.XMLSyntaxError:
        return False
    return False


def found(name: str, find: etree.XPath, root: etree._Element) -> Value:
    """Return the value that a path finds below a root, for the property `name`. Raises `Unreadable`."""
    try:
        return find(root)
    except etree.XPathError as error:
        raise Unreadable(f"{name}: {find.path} can't be looked up: {error}") from error


def _only(name: str, found: Value) -> Value:
    if isinstance(found, list):
        if len(found) > 1:
            raise Unreadable(f"{name}: finds {len(found)} values")
        found = found[0] if found else None
    if isinstance(found, etree._Element):  # noqa: SLF001 - lxml's only name for it
        return _TEXT(found)
    if isinstance(found, float):  # XPath's only kind of number
        return (
            Decimal(repr(found)) if math.isfinite(found) and found % 1 else int(found) if math.isfinite(found) else None
        )
    return found


_TEXT = etree.XPath("string(.)", smart_strings=False)


def _told(error: etree.XMLSyntaxError) -> str:
    return shortened(str(error).removesuffix(f" (<string>, line {error.lineno})"), 200)
