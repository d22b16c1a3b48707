"""Read the file of a message box: from YAML to declarations, or to the list of all its faults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from seriatim.errors import DeclarationError, UsageError
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import SENDERS, Contract, default_contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.declared import made, read_declared, read_fields
from seriatim.pipeline.files.policy import read_policy
from seriatim.pipeline.files.type_entry import type_entry
from seriatim.pipeline.files.where import where
from seriatim.pipeline.text.document import Language, Problems, read
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.section import Section, likely
from seriatim.pipeline.types.box_properties import OWN, UNFIT, clashes, declared, misfits
from seriatim.pipeline.types.failure_message import FAILURE_PROPERTIES
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.schedule import Schedule

_FILE = Language("box file", "types: …, queues: …, subscriptions: …", "box-file")
#: Keys of the other kind of file.
_OF_A_PIPELINE = dict.fromkeys(
    ("checkpoint", "process", "receive", "route", "spark", "trigger"),
    "it belongs in a pipeline file, for seriatim run FILE",
)
# The parts of a file, and what the keys in them are.
_PARTS: Mapping[str, str] = {
    "locations": "a location's name",
    "types": "a message type's name",
    "queues": "a queue's name",
    "subscriptions": "a subscription's name",
    "contracts": "a contract's name",
    "services": "a service's name",
    "schedules": "a schedule's name",
    "links": "a link's name",
}
_Declared = TypeVar("_Declared")
_Named = TypeVar("_Named", Service, Location)

#: Where a link has ``${NAME}`` for the process that transmits.
_PLACES = ("dsn", "url", "certificate", "key", "authority")


def queue_entry(entry: Section, name: str) -> Queue | None:
    """A queue, with the parameters of its policy beside it; None if it is wrong, which is reported."""
    values = read_fields(entry, Queue, {"name": name, "policy": read_policy(entry)[1]})
    return None if values["policy"] is None else made(entry, Queue, values)


def link_entry(entry: Section, name: str) -> Link | None:
    places = {key: entry.unreplaced(key, "the process that transmits") for key in _PLACES if entry.has(key)}
    return read_declared(entry, Link, {"name": name, **places})


def schedule_entry(entry: Section, name: str) -> Schedule | None:
    given: dict[str, Any] = {"name": name, "cron": entry.text("cron", required=True)}
    if entry.has("context"):
        section = entry.section("context")
        given["context"] = None if section is None else {key: section.plain(key) for key in section.names()}
    return read_declared(entry, Schedule, given)


def contract_entry(entry: Section, name: str) -> Contract | None:
    """A contract, with lines ``TYPE: SENDER``; None if it is wrong, which is reported."""
    types = {kind: entry.choice(kind, SENDERS, required=True) for kind in entry.names()}
    entry.finish()
    if None in types.values():
        return None
    try:
        return Contract(name, cast("Any", types))
    except UsageError as error:
        # The entry is the argument `types`.
        at = next((one.removeprefix("types.") for one in error.arguments if one.startswith("types.")), None)
        entry.fault(at, error.what, error.remedy)
        return None


@dataclass(frozen=True, slots=True)
class BoxFile:
    """The declarations of a file, or of a box: a tuple for each kind, in the order of the file. `remarks`: what is no fault of the file,
    but may not mean what its author thinks.
    """

    locations: tuple[Location, ...] = ()
    types: tuple[MessageType, ...] = ()
    queues: tuple[Queue, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    contracts: tuple[Contract, ...] = ()
    services: tuple[Service, ...] = ()
    settings: tuple[BoxSettings, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    links: tuple[Link, ...] = ()
    remarks: tuple[str, ...] = field(default=(), compare=False)


def load(path: str | Path, environment: Mapping[str, str] = os.environ, *, present: BoxFile | None = None) -> BoxFile:
    declarations, faults = examine(path, environment, present=present)
    if not faults:
        return declarations
    if len(faults) == 1:
        raise faults[0]
    listed = "".join(f"\n  {fault}" for fault in faults)
    raise DeclarationError(f"the file has {len(faults)} faults:{listed}", where=str(path))


def examine(
    path: str | Path, environment: Mapping[str, str] = os.environ, *, present: BoxFile | None = None
) -> tuple[BoxFile, list[DeclarationError]]:
    """The declarations of a file that can be read, and all its faults, in the order of its lines."""
    path = Path(path)
    problems = Problems(path)
    table = read(path, problems, environment, language=_FILE)
    declarations = _Reading(Section(table, problems), present).declarations() if table else BoxFile()
    return replace(declarations, remarks=problems.remarks()), problems.found()


class _Reading:
    """A file that is being read. `present`: the present declarations of the box; None if they are unknown."""

    def __init__(self, file: Section, present: BoxFile | None) -> None:
        self._present = present
        self._sections = {part: file.section(part) for part in _PARTS}
        self._settings = file.section("settings")
        self._faulty = {part for part in _PARTS if file.has(part) and self._sections[part] is None}
        file.finish(elsewhere=_OF_A_PIPELINE)

    def declarations(self) -> BoxFile:
        types = self._entries("types", type_entry)
        known = self._property_types(types)
        # What a type with a fault would have declared isn't known.
        whole = self._present is not None and "types" not in self._faulty
        read_queue = partial(_checked_queue, types=known, whole=whole)
        queues = self._entries("queues", read_queue)
        read_subscription = partial(_subscription, types=known, whole=whole)
        subscriptions = self._entries("subscriptions", read_subscription)
        destinations = [(one.name, one.to) for one in subscriptions]
        self._check_named("queue", "queues", queues, "subscriptions", "to", destinations)
        contracts, services = self._entries("contracts", contract_entry), self._entries("services", _named(Service))
        contracted = [(one.name, name) for one in services for name in one.contracts]
        every = (*contracts, default_contract())
        self._check_named("contract", "contracts", every, "services", "contracts", contracted)
        locations = self._entries("locations", _named(Location))
        schedules = self._entries("schedules", schedule_entry)
        self._check_named(
            "message type", "types", types, "schedules", "type", [(one.name, one.type) for one in schedules]
        )
        links = self._entries("links", link_entry)
        settings = _settings(self._settings) if self._settings else ()
        return BoxFile(locations, types, queues, subscriptions, contracts, services, settings, schedules, links)

    def _entries(self, part: str, reader: Callable[[Section, str], _Declared | None]) -> tuple[_Declared, ...]:
        """The results of `reader` for the entries of a part; the part is faulty if one result is None."""
        section = self._sections[part]
        if section is None:
            return ()
        found: list[_Declared] = []
        for name in section.names():
            one = None
            try:
                checked_name(name, _PARTS[part])
            except UsageError as error:
                section.key_fault(name, error.what, error.remedy)
            else:
                entry = section.section(name, required=True)
                one = reader(entry, name) if entry else None
            if one is None:
                self._faulty.add(part)
            else:
                found.append(one)
        return tuple(found)

    def _property_types(self, types: tuple[MessageType, ...]) -> Mapping[str, str]:
        """The properties that the types of the file and of the box declare; clashes are reported."""
        ours = {one.name for one in types}
        kept = [one for one in self._present.types if one.name not in ours] if self._present else []
        for clash in clashes((*kept, *types)):
            entry = self._entry("types", clash.type)
            properties = entry.section("properties") if entry else None
            if properties:
                properties.key_fault(clash.property, clash.what, "in a box, each property name has one type")
        every = {name: kind for one in (*kept, *types) for name, kind in declared(one).items()}
        return {**OWN, **FAILURE_PROPERTIES, **every}

    def _check_named(
        self, noun: str, part: str, ours: Iterable[Any], users: str, key: str, named: Iterable[tuple[str, str]]
    ) -> None:
        """Check that what entries of the part `users` name under `key`, each by its name, is in a part of the file or of the box."""
        if self._present is None or part in self._faulty:
            return
        known = {one.name for one in (*ours, *getattr(self._present, part))}
        for user, name in named:
            entry = self._entry(users, user)
            if name not in known and entry is not None:
                entry.named_fault(key, f"there is no {noun} {name!r}, neither here nor in the box", likely(name, known))

    def _entry(self, part: str, name: str) -> Section | None:
        section = self._sections[part]
        return section.section(name) if section and section.has(name) else None


def _settings(section: Section) -> tuple[BoxSettings, ...]:
    found = read_declared(section, BoxSettings)
    return () if found is None else (found,)


def _named(kind: type[_Named]) -> Callable[[Section, str], _Named | None]:
    """The reader of entries that are the fields of a declaration and no more."""
    return lambda entry, name: read_declared(entry, kind, {"name": name})


def _checked_queue(entry: Section, name: str, *, types: Mapping[str, str], whole: bool) -> Queue | None:
    queue = queue_entry(entry, name)
    for wrong in misfits(queue, types, whole=whole) if queue else ():
        section, key = entry.inside(wrong.field)
        section.fault(key, f"{section.title if key is None else section.full(key)}: {wrong.what}", wrong.remedy)
    return queue


def _subscription(entry: Section, name: str, *, types: Mapping[str, str], whole: bool) -> Subscription | None:
    given = entry.plain("where", required=True) is not None
    text = where(entry, types, unknown=None if whole else lambda _: True, unfit=UNFIT)
    return read_declared(entry, Subscription, {"name": name, "where": text if given else None})
