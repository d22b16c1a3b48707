"""The ``process`` part of a pipeline file: the user's code, before ``route`` or under a destination.

Checking a file imports the code, so that a function that can't be called is reported with its line, and not by a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from seriatim.errors import UsageError
from seriatim.pipeline.declared.function import check_takes, load_function
from seriatim.pipeline.declared.pipeline import Process
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.types.properties import Properties, property_type, usable_name

#: What stands before and behind `process`, at the top level and under a destination.
_AROUND = ((("receive",), ("route",)), (("to", "where"), ("resequence", "deliver")))


def process(
    parent: Section, folders: Sequence[Path], properties: Properties, returned: dict[str, str] | None = None
) -> Process | None:
    if not parent.has("process"):
        return None
    _check_order(parent, _AROUND[returned is not None])
    section = parent.section("process", required=True)
    if section is None:
        return None
    function = section.text("function", required=True)
    if function is not None:
        _check_function(section, function, folders)
    returns = _returns(section, properties, returned)
    fails = section.choice("on_error", ("fail", "set_aside")) == "fail"
    section.finish()
    return Process(function, returns, "fail" if fails else "set_aside") if function is not None else None


def returning(properties: Properties, step: Process | None) -> Properties:
    """The properties of messages after a step: also its columns, for every location, in the types that it returns."""
    if step is None:
        return properties
    returns = {name: kind for name, kind in step.returns.items() if name not in ("body", "type")}
    by_location = {location: {**types, **returns} for location, types in properties.by_location.items()}
    return replace(properties, by_location=by_location)


def _check_order(parent: Section, around: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    """Check that the order in the file is the order of execution."""
    names, (before, behind) = parent.names(), around
    place = names.index("process")
    for key in (*before, *behind):
        if key in names and (names.index(key) < place) != (key in before):
            stands = "before" if names.index(key) > place else "after"
            what = f"{parent.full('process')} stands {stands} {key}: the order in the file is the order of execution"
            remedy = f"write it between {before[-1]} and {behind[0]}"
            parent.key_fault("process", what, remedy)
            return


def _check_function(section: Section, name: str, folders: Sequence[Path]) -> None:
    try:
        function = load_function(name, folders)
        _check_signature(function, name)
    except UsageError as error:
        section.named_fault("function", error.what, error.remedy)


def _check_signature(function: Callable[..., Any], name: str) -> None:
    if inspect.isclass(function) or inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"{name} is not a plain function", remedy="def apply(messages): … return a pyarrow.Table")
    check_takes(function, name, "the table of messages", "a pyarrow.Table")


def _returns(section: Section, properties: Properties, returned: dict[str, str] | None) -> Mapping[str, str]:
    """The columns that the function returns, with their types; a wrong column is reported and left out."""
    inner = section.section("returns")
    found: dict[str, str] = {}
    for name in inner.names() if inner is not None else ():
        written = inner.text(name, required=True) if inner is not None else None
        if inner is None or written is None:
            continue
        kind = _kind(inner, name, written)
        if kind is not None and _agrees(inner, name, kind, properties, found, returned):
            found[name] = kind
    if returned is not None:
        returned |= found
    return found


def _kind(section: Section, name: str, written: str) -> str | None:
    if name == "body":
        if written in ("binary", "string"):
            return written
        section.named_fault(name, f"a body can't be {written!r}", "binary or string")
        return None
    if not usable_name(section, name):
        return None
    kind = property_type(section, name, written)
    if name == "type" and kind not in (None, "string"):
        section.fault(name, "the message's type is a string", "return it as string")
        return None
    return kind


def _agrees(
    section: Section,
    name: str,
    kind: str,
    properties: Properties,
    found: Mapping[str, str],
    returned: Mapping[str, str] | None,
) -> bool:
    """Whether a column fits the others of the pipeline."""
    others = {*properties.names(), *found, *(returned or ())}
    alike = next((other for other in sorted(others) if other != name and other.casefold() == name.casefold()), None)
    if alike is not None:
        what = f"the columns {alike!r} and {name!r} differ only in capitals, which Spark doesn't tell apart"
        section.key_fault(name, what)
        return False
    if returned is None or name in ("body", "type"):
        return True
    before = properties.type_of(name) or returned.get(name)
    if before is None or before == kind:
        return True
    what = f"{name!r} is {before} already, and a destination can't change that"
    section.named_fault(name, what, "return it under another name, or change its type before route")
    return False
