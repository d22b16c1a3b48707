"""What is defined in a box, as a process knows it: read when it has changed, and then shared by all of its sessions."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.statements import statement
from seriatim.errors import SchemaMismatch, UsageError, shown
from seriatim.kernel.policy import Fifo, UnitOfWork, Unordered
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.json_form import from_json
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.message_type import MessageType

if TYPE_CHECKING:
    from seriatim.box.route import Router

__all__ = ["ALL", "BoxQueue", "BoxSubscription", "Broken", "Definitions", "Known", "read_definitions"]

#: More messages than any set has.
ALL = 2**31 - 2
_LONGEST_WHY = 500

_Kind = TypeVar("_Kind", MessageType, Queue, Subscription, Contract, Service)


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that is defined and can't be used: it takes no part in anything until it is defined again, or dropped.

    Args:
        kind: ``type``, ``queue``, ``subscription``, ``contract`` or ``service``.
        name: its name.
        why: what is wrong with it.
        id: of a queue or a subscription its number; of a service that of its queue.
        queue: the name of the queue to which a subscription leads, or that a service has.
        state: of a subscription its state.
    """

    kind: str
    name: str
    why: str
    id: int | None = None
    queue: str | None = None
    state: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {self.why}"


@dataclass(frozen=True, slots=True)
class BoxQueue:
    """A queue as it is in a box: its id, whether it hands out, and the pipeline that it belongs to, if it does.

    `incarnation` is that of a group which isn't known.
    `serves`: messages of dialogs come there, for a service.
    `problem`: why its definition can't be used; what comes there is invalid, and nothing is handed out.
    """

    queue_id: int
    declared: Queue
    enabled: bool
    owner: str | None
    incarnation: int = 0
    serves: bool = False
    problem: str | None = None

    @property
    def is_filled_later(self) -> bool:
        """Whether messages of dialogs wait elsewhere while it is full."""
        return self.serves and self.declared.max_messages is not None

    @property
    def is_fifo(self) -> bool:
        """Whether all its groups are first in, first out."""
        return isinstance(self.declared.policy, Fifo) and not self.declared.policies

    @property
    def holds(self) -> bool:
        """Whether a message may wait for another one, and be handed out long after what came later."""
        return not all(isinstance(policy, Fifo | Unordered) for policy in self.declared.all_policies())

    def at_most(self, limit: int) -> int:
        """How many messages may be handed out together where so many are asked for: a set comes whole."""
        return ALL if limit and self._has_sets else limit

    def looked_at(self, at_most: int) -> int:
        """How many of those in line a turn has to know to hand out so many: one more, or the whole set."""
        return ALL if self._has_sets else at_most + 1

    @property
    def _has_sets(self) -> bool:
        return isinstance(self.declared.policy, UnitOfWork)


@dataclass(frozen=True, slots=True)
class BoxSubscription:
    """A subscription as it is in a box: its id, and its state.

    `role`: whose it is, None: the owner's. `types`: those that it may match, as they are granted to that role now; None: all.
    """

    subscription_id: int
    declared: Subscription
    state: str
    role: str | None = None
    types: tuple[str, ...] | None = None

    def may_match(self, kind: str) -> bool:
        """Whether it may match messages of a type."""
        return self.types is None or kind in self.types


@dataclass(frozen=True)
class Definitions:
    """All of a box, of one version, by name.

    `unreadable`: what the box has and can't be read, by what it is and its name.
    """

    version: int
    types: Mapping[str, MessageType] = field(default_factory=dict)
    queues: Mapping[str, BoxQueue] = field(default_factory=dict)
    subscriptions: Mapping[str, BoxSubscription] = field(default_factory=dict)
    contracts: Mapping[str, Contract] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    unreadable: Mapping[tuple[str, str], Broken] = field(default_factory=dict)

    def queue(self, name: str) -> BoxQueue:
        """The queue of that name.

        Raises:
            UsageError: there is none.
            SchemaMismatch: its definition can't be used.
        """
        found = self.known_queue(name)
        if found.problem is not None:
            raise SchemaMismatch(
                f"its definition can't be used: {found.problem}",
                where=f"queue {name!r}",
                remedy="define it again; seriatim doctor names what is wrong",
            )
        return found

    def known_queue(self, name: str) -> BoxQueue:
        """The queue of that name, also one whose definition can't be used.

        Raises:
            UsageError: there is none.
        """
        found = self.queues.get(name) if isinstance(name, str) else None
        if found is None:
            remedy = likely(name, self.queues) or "box.define(Queue(…)), or seriatim box apply FILE"
            raise UsageError(f"there is no queue {shown(name)}", remedy=remedy)
        return found

    @cached_property
    def broken(self) -> tuple[Broken, ...]:
        """What is defined and can't be used, sorted: it can't be read, or doesn't go with the rest."""
        unfit = {key: Broken(*key, _said(error)) for key, error in self.router.unfit.items()}
        found = {**unfit, **self.unreadable}
        return tuple(found[key] for key in sorted(found))

    @cached_property
    def router(self) -> Router:
        """What routes by them; made when it is first asked for."""
        from seriatim.box.route import Router  # noqa: PLC0415 -- which routes by what is defined here

        return Router(self)

    @cached_property
    def limited(self) -> Mapping[int, BoxQueue]:
        """The queues that say how many messages they may have, by their ids."""
        return {one.queue_id: one for one in self.queues.values() if one.declared.max_messages is not None}

    @cached_property
    def collecting(self) -> frozenset[str]:
        """The names of the queues that a subscription leads to which isn't started: some of what they have may not leave."""
        return frozenset(one.declared.to for one in self.subscriptions.values() if one.state != "started")

    @cached_property
    def starting(self) -> Mapping[str, frozenset[str]]:
        """By the names of the queues the names of the subscriptions that lead there and start instances."""
        found: dict[str, set[str]] = {}
        for name, one in self.subscriptions.items():
            if one.declared.starts is not None:
                found.setdefault(one.declared.to, set()).add(name)
        return {queue: frozenset(names) for queue, names in found.items()}

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The names of the subscriptions by their ids."""
        return {one.subscription_id: name for name, one in self.subscriptions.items()}


class Known:
    """The definitions that a process knows of one box. Threads may share it."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._lock = threading.Lock()
        self._definitions = Definitions(-1)

    @property
    def definitions(self) -> Definitions:
        """As last read; of version -1 before."""
        return self._definitions

    def current(self, connection: psycopg.Connection) -> Definitions:
        """As the transaction of the connection sees them: read again if they have changed."""
        with connection.cursor(row_factory=tuple_row) as cursor:
            (version,) = cursor.execute(statement("version", self._schema)).fetchall()[0]
        return self._definitions if version == self._definitions.version else self.read(connection)

    def read(self, connection: psycopg.Connection) -> Definitions:
        """Read them, as the transaction of the connection sees them.

        Not for a transaction that defines: what it sees may be rolled back, and its version be given again.
        """
        found = read_definitions(connection, self._schema)
        with self._lock:
            self._definitions = found
        return found


def read_definitions(connection: psycopg.Connection, schema: str) -> Definitions:
    """What is defined, as the transaction of the connection sees it. What can't be read stops nothing else."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(statement("definitions", schema)).fetchall()
    types: dict[str, MessageType] = {}
    queues: dict[str, BoxQueue] = {}
    subscriptions: dict[str, BoxSubscription] = {}
    contracts: dict[str, Contract] = {}
    services: dict[str, Service] = {}
    unreadable: dict[tuple[str, str], Broken] = {}
    version = -1
    for kind, number, name, definition, state, owner, incarnation, queue, role, matched in rows:
        if kind == "version":
            version = number
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
            what = error.what.removeprefix("what the box has of it can't be read: ")[:_LONGEST_WHY]
            unreadable[kind, name] = Broken(kind, name, what, number, queue, state)
            if kind == "queue":
                queues[name] = BoxQueue(number, _stand_in(name), False, owner, incarnation, problem=what)
    for queue in {one.queue for one in services.values()}:
        queues[queue] = replace(queues[queue], serves=True)
    return Definitions(version, types, queues, subscriptions, contracts, services, unreadable)


def _said(error: UsageError) -> str:
    return f"{error.where}: {error.what}"[:_LONGEST_WHY] if error.where else error.what[:_LONGEST_WHY]


def _read(kind: type[_Kind], name: str, definition: str) -> _Kind:
    """A declaration from the text of its JSON.

    Raises:
        SchemaMismatch: it can't be read, or has another name.
    """
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
    """A subscription or service, if its definition leads to the queue that it has.

    Raises:
        SchemaMismatch: it doesn't.
    """
    said = one.to if isinstance(one, Subscription) else one.queue
    if said != queue:
        raise SchemaMismatch(f"its definition leads to {said!r}, and it has the queue {queue!r}")
    return one


def _stand_in(name: str) -> Queue:
    """For a queue whose definition can't be read."""
    return Queue(name, policy=Unordered())
