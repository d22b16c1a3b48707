"""Read a regions file: the two boxes, the journal, and what is defined in both boxes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seriatim.errors import DeclarationError, UsageError
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import KEEP, MOST_ATTEMPTS
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.type_entry import type_entry
from seriatim.pipeline.text.document import Language, Problems, read
from seriatim.pipeline.text.section import Section
from seriatim.regions.regional_queue import RegionalQueue

__all__ = ["RegionsFile", "load"]

_FILE = Language("regions file", "primary: …, secondary: …, journal: …, queues: …", "regions")
_SMALL = 2**62
_Declared = TypeVar("_Declared")


@dataclass(frozen=True, slots=True)
class RegionsFile:
    """The content of a regions file."""

    arguments: Mapping[str, Any]
    definitions: tuple[object, ...]


def load(path: str | Path, environment: Mapping[str, str] = os.environ) -> RegionsFile:
    """Read a file."""
    path = Path(path)
    problems = Problems(path)
    table = read(path, problems, environment, language=_FILE)
    entries = _read(Section(table, problems)) if table else None
    faults = problems.found()
    if len(faults) == 1:
        raise faults[0]
    if faults or entries is None:
        listed = "".join(f"\n  {fault}" for fault in faults)
        raise DeclarationError(f"the file has {len(faults)} faults:{listed}", where=str(path))
    return entries


def _read(file: Section) -> RegionsFile:
    values: dict[str, Any] = {
        "name": file.text("name"),
        "primary": file.text("primary", required=True),
        "secondary": file.text("secondary", required=True),
        "journal": file.text("journal", required=True),
        "spread": file.duration_s("spread"),
        "patience": file.duration_s("patience"),
        "retry_after": file.duration_s("retry_after"),
        "numbers": file.choice("numbers", ("journal",)),
        "confirm": file.choice("confirm", ("two", "one")),
        "schema": file.text("schema"),
        "journal_schema": file.text("journal_schema"),
    }
    arguments = {key: value for key, value in values.items() if value is not None}
    if file.has("prefer"):
        both = file.plain("prefer") == "none"
        arguments["prefer"] = None if both else file.duration_s("prefer")
    definitions = (
        *_entries(file.section("locations"), lambda entry, name: _finished(entry, lambda: Location(name))),
        *_entries(file.section("types"), type_entry),
        *_entries(file.section("queues"), _queue),
        *_entries(file.section("subscriptions"), _subscription),
    )
    file.finish()
    return RegionsFile(arguments, definitions)


def _entries(section: Section | None, reader: Callable[[Section, str], _Declared | None]) -> list[_Declared]:
    entries = []
    for name in section.names() if section else ():
        entry = section.section(name, required=True) if section else None
        item = reader(entry, name) if entry else None
        if item is not None:
            entries.append(item)
    return entries


def _queue(entry: Section, name: str) -> RegionalQueue | None:
    values: dict[str, Any] = {
        "group": entry.text("group", required=True),
        "sequence": entry.text("sequence", required=True),
        "start": entry.whole("start", -_SMALL, _SMALL),
        "increment": entry.whole("increment", 1, _SMALL),
        "attempts": entry.whole("attempts", 1, MOST_ATTEMPTS),
        "errors": entry.choice("errors", ("suspend", "continue")),
        "retry_delay": entry.duration_s("retry_delay"),
        "hole_timeout": entry.duration_s("hole_timeout"),
        "priority": entry.text("priority"),
        "keep": entry.choice("keep", KEEP),
        "keep_for": entry.duration_s("keep_for"),
    }
    arguments = {key: value for key, value in values.items() if value is not None}
    if "group" not in arguments or "sequence" not in arguments:
        entry.finish()
        return None
    return _finished(entry, lambda: RegionalQueue(name, **arguments))


def _subscription(entry: Section, name: str) -> Subscription | None:
    where, to = entry.text("where", required=True), entry.text("to", required=True)
    if where is None or to is None:
        entry.finish()
        return None
    return _finished(entry, lambda: Subscription(name, where, to))


def _finished(entry: Section, make: Callable[[], _Declared]) -> _Declared | None:
    """A declaration, after its entry was read."""
    entry.finish()
    try:
        return make()
    except UsageError as error:
        entry.refuse(error)
        return None
