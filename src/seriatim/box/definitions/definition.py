"""The definitions of a box as values: declared objects with their numbers in the box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

from seriatim.errors import SchemaMismatch, UsageError, shown
from seriatim.kernel.policy import Fifo, UnitOfWork, Unordered
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.message_type import MessageType

__all__ = ["ALL", "BoxQueue", "BoxSubscription", "BrokenDefinition", "Definitions"]

#: More messages than any set has.
ALL = 2**31 - 2

_Derived = TypeVar("_Derived")


@dataclass(frozen=True, slots=True)
class BrokenDefinition:
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
    unreadable: Mapping[tuple[str, str], BrokenDefinition] = field(default_factory=dict)

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

    def derived(self, make: Callable[[Definitions], _Derived]) -> _Derived:
        """What is made of them, once."""
        made: dict[Any, Any] = self.__dict__.setdefault("_derived", {})
        if make not in made:
            made[make] = make(self)
        return cast("_Derived", made[make])

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
