"""XML: properties by XPath, and elements that become messages of their own.

A document is a stranger's. One with a DOCTYPE is refused, whatever is in it: so there are no entities to expand, no
external ones to fetch, no DTD. The network is never asked. Text may be as long as a body; nesting ends at 2,048.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from lxml import etree

from seriatim.pipeline.declaration import Promotion
from seriatim.pipeline.xpath import compiled
from seriatim.spark.values import Unreadable, Value, converted, converter, shortened

__all__ = ["XmlElements", "XmlPaths"]

_CHUNK = 4096


@dataclass(frozen=True, slots=True)
class XmlPaths:
    """Reads an XML document; paths begin at its root element.

    An element counts as the text in it. What isn't found is null, and so is what is empty; several finds make the
    document unreadable. White space around values that are not strings is left out.
    """

    promote: tuple[Promotion, ...]
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def reader(self) -> Callable[[bytes], list[Value]]:
        """A function from a body to the promoted values; it raises `Unreadable`. Raises `UsageError`: a wrong path."""
        wanted = [
            (item.name, compiled(item.path, self.namespaces), item.type, converter(item.type)) for item in self.promote
        ]
        root_of = document_reader()

        def read(body: bytes) -> list[Value]:
            root = root_of(body)
            values = []
            for name, find, kind, convert in wanted:
                value = _only(name, _found(name, find, root))
                if isinstance(value, str) and kind != "string":
                    value = value.strip()
                values.append(None if value is None or value == "" else converted(name, convert, value))
            return values

        return read


@dataclass(frozen=True, slots=True)
class XmlElements:
    """Takes a document apart: the elements that a path finds, in document order, each with its namespaces."""

    path: str
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def splitter(self) -> Callable[[bytes], list[bytes]]:
        """A function from a body to those of its parts; it raises `Unreadable`. Raises `UsageError`: a wrong path."""
        find, root_of = compiled(self.path, self.namespaces), document_reader()

        def split(body: bytes) -> list[bytes]:
            found = _found("split", find, root_of(body))
            if not isinstance(found, list) or not all(isinstance(one, etree._Element) for one in found):  # noqa: SLF001 - lxml's only name for it
                raise Unreadable(f"split: {self.path} finds values, not elements")
            parts = [
                etree.tostring(one, encoding="utf-8", with_tail=False) for one in found if isinstance(one.tag, str)
            ]
            if not parts:
                raise Unreadable(f"split: {self.path} finds no element")
            return parts

        return split


def document_reader() -> Callable[[bytes], etree._Element]:
    """A function from a body to the root element of its document; it raises `Unreadable`."""
    # Without `huge_tree` libxml2 stops at 10 MB of text and 256 levels, and is safe with entities that multiply.
    parser, large = _parser(), _parser(huge=True)

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


def _parser(*, huge: bool = False, target: Any = None) -> etree.XMLParser:
    return etree.XMLParser(resolve_entities=False, load_dtd=False, no_network=True, huge_tree=huge, target=target)


_DOCTYPE = "the document has a DOCTYPE, which is refused: it can hold entities that multiply or read files"


class _Seen(Exception):
    """Enough was seen of a document; the text says what."""


class _Prolog:
    """A parser's target that ends at the DOCTYPE or at the first element, whichever comes first."""

    def doctype(self, *_: object) -> None:
        raise _Seen("doctype")

    def start(self, *_: object) -> None:
        raise _Seen("element")

    def close(self) -> None:
        return None


def _has_doctype(body: bytes) -> bool:
    """Asks the parser itself, before it reads what the DOCTYPE declares."""
    parser = _parser(huge=True, target=_Prolog())
    try:
        for first in range(0, len(body), _CHUNK):
            parser.feed(body[first : first + _CHUNK])
    except _Seen as seen:
        return str(seen) == "doctype"
    except etree.XMLSyntaxError:
        return False
    return False


def _found(name: str, find: etree.XPath, root: etree._Element) -> Value:
    try:
        return find(root)
    except etree.XPathError as error:
        raise Unreadable(f"{name}: {find.path} can't be looked up: {error}") from error


def _only(name: str, found: Value) -> Value:
    """The one value among what a path found; an element is its text."""
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
