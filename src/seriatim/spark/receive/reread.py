"""Read the body of one message again, outside of Spark: the properties that a location promotes from bodies.

It reads by the same formats as a worker. Values from columns, from a CSV file's header or from the whole message of a part aren't in the
body of a message, so they aren't read here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.bodies.xml_paths import XmlPaths
from seriatim.pipeline.declared.function import Function
from seriatim.pipeline.declared.pipeline import Receive
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files.source import in_body
from seriatim.spark.receive.promotion import Returned
from seriatim.spark.receive.row_formats import Block, Documents
from seriatim.spark.receive.row_paths import RowPaths

#: From a body to the properties that were found in it, and the problem; None: there is none.
Reread = Callable[[bytes | None], tuple[dict[str, Any], str | None]]


def reader_of(entry: Receive, folders: tuple[str, ...]) -> Reread | None:
    """A function that reads bodies of a location; None: it reads nothing in bodies."""
    promote = tuple(item for item in entry.promote if _is_inside(entry, item))
    if not promote:
        return None
    read = _documents(entry, promote, folders).reader(Block("", 0))

    def again(body: bytes | None) -> tuple[dict[str, Any], str | None]:
        try:
            messages = read(body, {})
        except Unreadable as error:
            return {}, str(error)
        if messages is None:
            return {}, "the body is empty"
        values, problem = messages
        return dict(zip((item.name for item in promote), values, strict=True)), problem

    return again


def _documents(entry: Receive, promote: tuple[Promotion, ...], folders: tuple[str, ...]) -> Documents:
    blank = entry.envelope is not None
    if entry.function is not None:
        return Documents(Returned(Function(entry.function, folders), promote), in_files=False)
    match entry.source.kind:
        case "json":
            return Documents(JsonPaths(promote, blank=blank))
        case "xml":
            return Documents(XmlPaths(promote, entry.namespaces))
    return Documents(RowPaths(promote, entry.namespaces, blank=blank), in_files=False)


def _is_inside(entry: Receive, item: Promotion) -> bool:
    if item.envelope and entry.split is not None:
        return False
    if entry.function is not None:
        return True
    kind = entry.source.kind
    return item.told_by is not None or all(in_body(kind, path, entry.split, entry.envelope) for path in item.paths)
