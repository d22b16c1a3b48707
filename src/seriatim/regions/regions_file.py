"""Read a regions file: the two boxes, the journal, and what is defined in both boxes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seriatim.errors import DeclarationError
from seriatim.kernel.fields import For
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.declared import made, read_declared
from seriatim.pipeline.files.type_entry import type_entry
from seriatim.pipeline.text.document import Language, Problems, read
from seriatim.pipeline.text.section import Section
from seriatim.regions.regional_queue import RegionalQueue

_FILE = Language("regions file", "primary: …, secondary: …, journal: …, queues: …", "regions")
_Declared = TypeVar("_Declared")


@dataclass(frozen=True, slots=True)
class RegionsFile:
    arguments: Mapping[str, Any]
    definitions: tuple[object, ...]


def load(path: str | Path, environment: Mapping[str, str] = os.environ) -> RegionsFile:
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
        *_entries(file.section("locations"), _location),
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


def _location(entry: Section, name: str) -> Location | None:
    entry.finish()
    return made(entry, Location, {"name": name})


def _queue(entry: Section, name: str) -> RegionalQueue | None:
    return read_declared(entry, RegionalQueue, {"name": name}, For.BOX | For.REGIONAL)


def _subscription(entry: Section, name: str) -> Subscription | None:
    where, to = entry.text("where", required=True), entry.text("to", required=True)
    entry.finish()
    return made(entry, Subscription, {"name": name, "where": where, "to": to})
