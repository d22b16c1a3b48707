"""XML elements that become messages of their own. For properties by XPath see `seriatim.pipeline.bodies.xml_paths`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lxml import etree

from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.bodies.xml_paths import document_reader, found
from seriatim.pipeline.bodies.xpath import compiled
from seriatim.spark.receive.split import NothingToSplit

# Nested elements, each with the namespaces that it has to declare, can make a very large body of a small one.
_MOST_TIMES, _LEAST_ROOM = 16, 16 * 2**20
# libxml2 compares each of them with all others.
_MOST_NAMESPACES = 1_000


@dataclass(frozen=True, slots=True)
class XmlElements:
    """Splits a document: the elements that a path finds, in document order, each with its namespaces."""

    path: str
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def splitter(self) -> Callable[[bytes], list[bytes]]:
        """A function from a body to the bodies of its parts; it raises `Unreadable`. Raises `UsageError` if the path is wrong."""
        find, root_of = compiled(self.path, self.namespaces), document_reader()

        def split(body: bytes) -> list[bytes]:
            elements = found("split", find, root_of(body))
            if not isinstance(elements, list) or not all(isinstance(element, etree._Element) for element in elements):  # noqa: SLF001 - lxml's only name for it
                raise Unreadable(f"split: {self.path} finds values, not elements")
            parts, room = [], _LEAST_ROOM + _MOST_TIMES * len(body)
            for element in elements:
                if isinstance(element.tag, str):
                    if len(element.nsmap) > _MOST_NAMESPACES:
                        raise Unreadable(f"split: an element has more than {_MOST_NAMESPACES:,} namespaces")
                    parts.append(etree.tostring(element, encoding="utf-8", with_tail=False))
                    room -= len(parts[-1])
                if room < 0:
                    raise Unreadable(
                        f"split: what {self.path} finds is together more than {_MOST_TIMES} times the body"
                    )
            if not parts:
                raise NothingToSplit(f"split: {self.path} finds no element")
            return parts

        return split
