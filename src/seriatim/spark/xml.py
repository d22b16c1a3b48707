"""XML: elements that become messages of their own. Properties by XPath are `seriatim.pipeline.xml_paths`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lxml import etree

from seriatim.pipeline.values import Unreadable
from seriatim.pipeline.xml_paths import document_reader, found
from seriatim.pipeline.xpath import compiled
from seriatim.spark.split import NothingToSplit

__all__ = ["XmlElements"]


@dataclass(frozen=True, slots=True)
class XmlElements:
    """Takes a document apart: the elements that a path finds, in document order, each with its namespaces."""

    path: str
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def splitter(self) -> Callable[[bytes], list[bytes]]:
        """A function from a body to those of its parts; it raises `Unreadable`. Raises `UsageError`: a wrong path."""
        find, root_of = compiled(self.path, self.namespaces), document_reader()

        def split(body: bytes) -> list[bytes]:
            elements = found("split", find, root_of(body))
            if not isinstance(elements, list) or not all(isinstance(one, etree._Element) for one in elements):  # noqa: SLF001 - lxml's only name for it
                raise Unreadable(f"split: {self.path} finds values, not elements")
            parts = [
                etree.tostring(one, encoding="utf-8", with_tail=False) for one in elements if isinstance(one.tag, str)
            ]
            if not parts:
                raise NothingToSplit(f"split: {self.path} finds no element")
            return parts

        return split
