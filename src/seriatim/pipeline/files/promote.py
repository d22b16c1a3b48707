"""The ``promote`` part of a location: the properties that are read from its messages, by paths, an envelope or a function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.moves import is_of_whole
from seriatim.pipeline.bodies.envelopes.registry import ENVELOPES
from seriatim.pipeline.bodies.xpath import compiled
from seriatim.pipeline.declared.function import check_takes, load_function
from seriatim.pipeline.declared.pipeline import Source, Split
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files.source import column_of, in_body
from seriatim.pipeline.text.document import Items, Table
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.types.properties import property_type, usable_name

_JSON_PATH = re.compile(r"\$(?:\.[^.\[\]\s*?'\"]+|\[\d{1,18}\]|\['[^'?]+'\])*")


@dataclass(frozen=True, slots=True)
class Promotions:
    """The promotions of a location: the properties, and the function or the envelope that provides them, if any."""

    properties: tuple[Promotion, ...] = ()
    function: str | None = None
    envelope: str | None = None


def promote(
    location: Section,
    source: Source | None,
    split: Split | None,
    namespaces: Mapping[str, str],
    functions: Sequence[Path],
    types: dict[str, str],
) -> Promotions | None:
    """Read the promotions of a location; None if a part of them is wrong."""
    section = location.section("promote")
    if section is None:
        return None if location.has("promote") else Promotions()
    function = envelope = None
    if _is_function(section, source):
        inner = section.section("returns", required=True)
        function = usable_function(section, "function", functions)
        section.finish()
        if inner is None or function is None:
            return None
        section = inner
        promotions = [_returned(section, name) for name in section.names()]
    else:
        names = section.names()
        if _is_envelope(section, source):
            names.remove("envelope")
            envelope = _envelope(section, source)
            if envelope is None:
                return None
        reader = _Paths(source, split, namespaces, envelope)
        promotions = [reader.promotion(section, name) for name in names]
        if envelope is not None:  # what has the name of something that the envelope tells is there instead of it
            told = ENVELOPES[envelope].promotions(envelope, whole=is_of_whole(envelope, split))
            given = {name.casefold() for name in names}
            promotions = [*(one for one in told if one.name not in given), *promotions]
    _compare(section, [one for one in promotions if one is not None], types)
    good = tuple(promotion for promotion in promotions if promotion is not None)
    return Promotions(good, function, envelope) if len(good) == len(promotions) else None


def written_names(location: Section) -> set[str] | None:
    """The properties that a location with a fault promotes, as far as the file says it; None: they aren't told there."""
    section = location.section("promote") if isinstance(location.tree("promote"), Table) else None
    if section is None or location.has("queue") or location.has("service") or "envelope" in section.names():
        return None
    if section.has("function"):
        section = section.section("returns") if isinstance(section.tree("returns"), Table) else None
    return None if section is None else {*section.names()}


def _is_envelope(section: Section, source: Source | None) -> bool:
    """Whether ``envelope`` names the form of bodies, and is not a property with this name."""
    if not section.has("envelope") or isinstance(section.tree("envelope"), Table | Items):
        return False
    written = section.plain("envelope")
    if not isinstance(written, str) or written in ENVELOPES:
        return True
    # A path, or a column of that name.
    return not written.startswith(("$", "/")) and (source is None or source.format == "json")


def _envelope(section: Section, source: Source | None) -> str | None:
    """The named envelope; None if it can't be used, which is reported."""
    name = section.choice("envelope", sorted(ENVELOPES), required=True)
    if name is not None and source is not None and source.format in ("csv", "text", "xml"):
        what = f"{source.format} has no {ENVELOPES[name].title}, which is JSON"
        section.named_fault("envelope", what, "receive it as json")
        return None
    return name


def _is_function(section: Section, source: Source | None) -> bool:
    if not section.has("function"):
        return False
    returns = section.tree("returns") if section.has("returns") else None
    if isinstance(returns, Table) and "path" not in returns.entries:
        return True
    written = section.plain("function") if section.names() == ["function"] else None
    alone = isinstance(written, str) and not written.startswith("$")
    return alone or (source is not None and source.format == "text")


def _returned(section: Section, name: str) -> Promotion | None:
    usable, written = usable_name(section, name), section.text(name, required=True)
    kind = property_type(section, name, written) if written is not None else None
    if name == "type" and kind not in (None, "string"):
        section.fault(name, "the message's type is a string", "return it as string")
        return None
    return Promotion(name, name, kind) if usable and kind else None


def _compare(section: Section, promotions: Sequence[Promotion], types: dict[str, str]) -> None:
    """Report properties whose names or types clash, here or with other locations."""
    seen: dict[str, str] = {}
    for promotion in promotions:
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


class _Paths:
    """Reads properties that are found by paths in the messages of one source."""

    def __init__(
        self, source: Source | None, split: Split | None, namespaces: Mapping[str, str], envelope: str | None
    ) -> None:
        self._kind = source.kind if source else None
        self._split = split
        self._namespaces = namespaces
        self._envelope_name = envelope

    def promotion(self, section: Section, name: str) -> Promotion | None:
        usable = usable_name(section, name)
        inner, path_key = section, name
        fitting: str | None = "string"
        envelope: bool | None = None
        nested = section.section(name) if isinstance(section.tree(name), Table) else None
        if nested is not None:
            inner, path_key = nested, "path"
            fitting = property_type(inner, "type", inner.text("type") or "string")
            envelope = self._envelope(inner)
        paths = None if inner.tree(path_key, required=True) is None else inner.texts(path_key)
        if nested is not None:
            nested.finish()
        if name == "type" and fitting not in (None, "string"):
            inner.fault("type", "the message's type is a string", "leave its type out")
            return None
        if paths is None or fitting is None or not usable:
            return None
        fits = [self._fits(inner, path_key, path) for path in paths]
        if not all(fits):
            return None
        return Promotion(name, paths[0] if len(paths) == 1 else paths, fitting, bool(envelope))

    def _envelope(self, section: Section) -> bool | None:
        envelope = section.flag("envelope")
        if envelope and self._split is None:
            what = "envelope: true is for messages that are split: the property is that of the whole"
            section.fault("envelope", what, "leave it out, or split the location's messages")
        return envelope

    def _fits(self, section: Section, key: str, path: str) -> bool:
        kind, json = self._kind, path.startswith("$")
        if kind is None:
            return True
        inside = in_body(kind, path, self._split, self._envelope_name)
        if inside and kind not in ("json", "text") and not json:
            return usable_xpath(section, key, path, self._namespaces)
        match kind:
            case "text":
                what, remedy = ": text has no paths", "write promote: {function: module:name, returns: {name: type}}"
            case "xml":
                what, remedy = ": XML has XPath", "write /order/customer/@id, o:line/o:sku or count(//line)"
            case _ if json and not inside:
                what, remedy = f": {kind} has columns, not paths", "write the column's name"
            case _ if not is_json_path(path if inside else (column_of(path)[1] or "$")) and kind != "csv":
                what, remedy = " is not a path into JSON", "write $.name, $.outer.inner, $.list[0] or $['a name']"
            case _:
                return True
        section.fault(key, f"{path!r}{what}", remedy)
        return False


def is_json_path(path: str) -> bool:
    return _JSON_PATH.fullmatch(path) is not None


def usable_xpath(section: Section, key: str, path: str, namespaces: Mapping[str, str]) -> bool:
    """Whether the path under `key` is XPath; if not, that is reported."""
    try:
        compiled(path, namespaces)
    except UsageError as error:
        section.fault(key, error.what, error.remedy)
        return False
    return True


def usable_function(section: Section, key: str, functions: Sequence[Path]) -> str | None:
    """The function under `key`, which takes a body; None if it can't be used, which is reported."""
    name = section.text(key, required=True)
    if name is None:
        return None
    try:
        _check_function(load_function(name, functions), name)
    except UsageError as error:
        section.named_fault(key, error.what, error.remedy)
        return None
    return name


def _check_function(function: Callable[..., Any], name: str) -> None:
    if inspect.iscoroutinefunction(function):
        raise UsageError(f"{name} is a coroutine", remedy="write def instead of async def")
    check_takes(function, name, "a body", "the body as bytes")
