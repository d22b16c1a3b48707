"""The definitions as a process knows them: read again after a change, shared by all its sessions."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

from seriatim.box.definitions.definition import BoxQueue, BoxSubscription, BrokenDefinition, Definitions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import SchemaMismatch
from seriatim.kernel.groups.policy import Unordered
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.json_form import from_json
from seriatim.pipeline.types.message_type import MessageType

_LONGEST_WHY = 500
#: How many parsed declarations a process remembers.
_MOST_PARSED = 20_000
_SETTINGS = "settings"
#: How many messages may wait for the queues of a link.
_LINK = "link"
#: Of which regions a queue is.
_REGIONS = "regions"
#: Of these there is one row, and not one for each definition; or they are read by themselves.
_SINGLE = ("version", _SETTINGS, _LINK, _REGIONS)

_Kind = TypeVar("_Kind", MessageType, Queue, Subscription, Contract, Service, BoxSettings)


class Known:
    """The definitions that a process knows of one box. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._definitions = Definitions(-1)

    @property
    def definitions(self) -> Definitions:
        """The definitions as they were read last; before the first read an empty version -1."""
        return self._definitions

    def current(self, statements: Statements) -> Definitions:
        """The definitions that the transaction sees, read again if they have changed."""
        version = statements.value("version")
        return self._definitions if version == self._definitions.version else self.read(statements)

    def read(self, statements: Statements) -> Definitions:
        """Read the definitions that the transaction sees. It must not define: that may be rolled back, its version used again."""
        found = read_definitions(statements)
        with self._lock:
            self._definitions = found
        return found


def read_definitions(statements: Statements) -> Definitions:
    """Read the definitions that the transaction sees. A definition that can't be read stops no other."""
    rows = statements.rows("definitions")
    types: dict[str, MessageType] = {}
    queues: dict[str, BoxQueue] = {}
    subscriptions: dict[str, BoxSubscription] = {}
    contracts: dict[str, Contract] = {}
    services: dict[str, Service] = {}
    unreadable: dict[tuple[str, str], BrokenDefinition] = {}
    settings = next((_settings(row.definition, unreadable) for row in rows if row.kind == _SETTINGS), None)
    version = -1
    for kind, number, name, definition, state, owner, incarnation, queue, role, matched in rows:
        if kind in _SINGLE:
            version = number if kind == "version" else version
            continue
        try:
            match kind:
                case "type":
                    types[name] = _read(MessageType, name, definition)
                case "queue":
                    declared = _read(Queue, name, definition)
                    queues[name] = BoxQueue(number, declared, state == "on", owner, incarnation)
                case "contract":
                    contracts[name] = _read(Contract, name, definition)
                case "service":
                    services[name] = _leading(_read(Service, name, definition), queue)
                case _:
                    subscription = _leading(_read(Subscription, name, definition), queue)
                    granted = None if matched is None else tuple(matched)
                    subscriptions[name] = BoxSubscription(number, subscription, state, role, granted)
        except SchemaMismatch as error:
            what = str(error.__cause__ or error.what)[:_LONGEST_WHY]
            unreadable[kind, name] = BrokenDefinition(kind, name, what, number, queue, state)
            if kind == "queue":
                queues[name] = BoxQueue(
                    number, Queue(name, policy=Unordered()), False, owner, incarnation, problem=what
                )
    _set_roles(queues, services)
    _limit_links(queues, {row.name: int(row.definition) for row in rows if row.kind == _LINK})
    queues |= {one.name: replace(queues[one.name], regions=one.definition) for one in rows if one.kind == _REGIONS}
    return Definitions(version, types, queues, subscriptions, contracts, services, unreadable, settings)


def _set_roles(queues: dict[str, BoxQueue], services: dict[str, Service]) -> None:
    """Let the queues of services know that they are, and gates, whose."""
    for queue in {one.queue for one in services.values() if one.queue is not None}:
        queues[queue] = replace(queues[queue], serves=True)
    for origin in list(queues.values()):
        way = origin.declared.gate
        if way is not None and (gate := queues.get(way.queue)) is not None:
            most = way.open_at_most
            queues[gate.declared.name] = replace(gate, origin_id=origin.queue_id, open_at_most=most)
            before = queues[origin.declared.name]
            queues[origin.declared.name] = replace(before, gate_id=gate.queue_id, open_at_most=most)


def _limit_links(queues: dict[str, BoxQueue], mosts: Mapping[str, int]) -> None:
    """Let the queues of other boxes know how many of their messages may wait."""
    for name, one in list(queues.items()):
        if one.declared.at is not None and (most := mosts.get(one.declared.at.link)) is not None:
            queues[name] = replace(one, link_most=most)


def _settings(definition: str, unreadable: dict[tuple[str, str], BrokenDefinition]) -> BoxSettings | None:
    """The settings of the box; None, and they are noted, where they can't be read: then it has the defaults."""
    try:
        return _read(BoxSettings, "box", definition)
    except SchemaMismatch as error:
        unreadable["settings", "box"] = BrokenDefinition("settings", "box", error.what[:_LONGEST_WHY])
        return None


@lru_cache(maxsize=_MOST_PARSED)
def _read(kind: type[_Kind], name: str, definition: str) -> _Kind:
    """Parse the JSON text of a declaration. After a change of one definition, the others have the same texts as before."""
    try:
        stored: Any = json.loads(definition)
    except (ValueError, RecursionError) as error:
        raise SchemaMismatch(f"its JSON can't be read: {error}") from None
    found = from_json(kind, stored)
    if found.name != name:
        raise SchemaMismatch(f"its definition is that of {found.name!r}")
    return found


_Leading = TypeVar("_Leading", Subscription, Service)


def _leading(one: _Leading, queue: str | None) -> _Leading:
    """Check that the definition of a subscription or service names the queue that its row names."""
    said = one.to if isinstance(one, Subscription) else one.queue
    if said != queue:
        raise SchemaMismatch(f"its definition leads to {said!r}, and it has the queue {queue!r}")
    return one
