"""XSD: check XML documents against a schema that is one text. Nothing is fetched, for the schema or for a document."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from lxml import etree

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.property_values import Unreadable, shortened
from seriatim.pipeline.bodies.xml_paths import document_reader
from seriatim.pipeline.bodies.xsd_patterns import check_pattern

_XSD = "{http://www.w3.org/2001/XMLSchema}"
_OUTSIDE = tuple(f"{_XSD}{name}" for name in ("import", "include", "redefine", "override"))


def xsd(text: str) -> Callable[[etree._Element], None]:
    """Return a function that checks a root element; it raises `Unreadable`, with the first violation."""
    try:
        root = document_reader(encoding="utf-8")(text.encode())
    except Unreadable as error:
        raise UsageError(f"the schema can't be read: {error}") from error
    except UnicodeEncodeError:
        raise UsageError("the schema can't be read: it contains half a surrogate pair") from None
    for element in root.iter(*_OUTSIDE):
        name = etree.QName(element).localname
        raise UsageError(
            f"the schema has xs:{name} in line {element.sourceline}, which is refused",
            remedy="write all into one schema",
        )
    for element in root.iter(f"{_XSD}pattern"):
        try:
            check_pattern(element.get("value") or "")
        except UsageError as error:
            raise UsageError(f"{error.what}, in line {element.sourceline}", remedy=error.remedy) from error
    try:
        schema = etree.XMLSchema(root)
    except etree.XMLSchemaParseError as error:
        raise UsageError(f"the schema is not XSD: {shortened(str(error), 300)}") from error
    # The log of errors belongs to the schema, not to a call.
    lock = Lock()

    def check(document: etree._Element) -> None:
        with lock:
            try:
                schema.assertValid(document)
            except etree.DocumentInvalid as error:
                raise Unreadable(f"not valid: {shortened(str(error), 300)}") from error
            except etree.LxmlError as error:  # libxml2 has bounds of its own
                raise Unreadable(f"it can't be told whether it is valid: {shortened(str(error), 300)}") from error

    return check
