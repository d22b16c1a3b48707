"""XPath in pipeline files: version 1.0, without extensions, with the prefixes that the file declares."""

from __future__ import annotations

import re
from collections.abc import Mapping

from lxml import etree

from seriatim.errors import UsageError

_PREFIX = re.compile(r"[^\W\d][\w.-]*")
_TEXT = re.compile(r"\"[^\"]*\"|'[^']*'")
_AXIS = re.compile(r"[\w-]+\s*::")
_USED = re.compile(r"(?<![\w.-])([^\W\d][\w.-]*):(?=[^\W\d]|\*)")
_EMPTY = etree.XML("<_/>")
_LONGEST = 4_000


def is_prefix(text: str) -> bool:
    return _PREFIX.fullmatch(text) is not None


def compiled(path: str, namespaces: Mapping[str, str]) -> etree.XPath:
    """Return an expression, ready to be called with the root element of a document."""
    if len(path) > _LONGEST:
        raise UsageError(f"{path!r:.80} has {len(path):,} characters", remedy=f"at most {_LONGEST:,}")
    unknown = [prefix for prefix in _USED.findall(_AXIS.sub(" ", _TEXT.sub("''", path))) if prefix not in namespaces]
    if unknown:
        raise UsageError(f"{path!r}: the prefix {unknown[0]!r} is not in namespaces", remedy=_known(namespaces))
    try:
        found = etree.XPath(path, namespaces=dict(namespaces), regexp=False, smart_strings=False)
        found(_EMPTY)
    except (etree.XPathError, ValueError) as error:  # the latter: what can't be in XML, such as half a surrogate pair
        raise UsageError(
            f"{path!r} is not XPath: {error}", remedy="such as /order/customer/@id, o:line/o:sku or count(//line)"
        ) from error
    return found


def _known(namespaces: Mapping[str, str]) -> str:
    return (
        f"it has {', '.join(sorted(namespaces))}" if namespaces else "add namespaces: {prefix: urn:…} to the location"
    )
