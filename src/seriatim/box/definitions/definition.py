"""The definitions of a box as values: declared objects with their numbers in the box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

from seriatim.errors import ActionRefused, NotFound, SchemaMismatch, UsageError, shown
from seriatim.kernel.groups.policy import Fifo, UnitOfWork, Unordered
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.function import meant_function
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.message_type import MessageType

#: More messages than any set has.
ALL = 2**31 - 2

_Derived = TypeVar("_Derived")


class QueueOfRegions(UsageError):
    """A message for a queue of two regions (`where`) was published to one box alone. `queues`: all that the call reaches."""

    queues: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BrokenDefinition:
    """A definition that can't be used. The box ignores it until it is defined again or dropped."""

    kind: str
    name: str
    why: str
    #: The number of the queue or subscription; for a service: of its queue.
    id: int | None = None
    queue: str | None = None
    state: str | None = None

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}: {self.why}"


@dataclass(frozen=True)
class BoxQueue:
    """A queue in a box: its id, whether it hands messages out, and the pipeline that owns it, if any.

    `incarnation`: the incarnation of new groups.
    `serves`: whether it is the queue of a service, for messages of dialogs.
    `gate_id`: the id of its gate; None: it has none.
    `origin_id`: of a gate, the id of the queue whose messages have places there; None: it is none.
    `open_at_most`: of a gate, and of its origin queue, how far behind the next place messages are handed out.
    `problem`: the reason why its definition can't be used; its messages are then invalid, and none is handed out.
    `link_most`: of a queue of another box, how many of its messages may wait here and on their way; None: any number.
    `regions`: the name of the two regions whose queue it is; None: it is one of this box alone.
    """

    queue_id: int
    declared: Queue
    enabled: bool
    owner: str | None
    incarnation: int = 0
    serves: bool = False
    gate_id: int | None = None
    origin_id: int | None = None
    open_at_most: int = 0
    problem: str | None = None
    link_most: int | None = None
    regions: str | None = None

    @property
    def most(self) -> int | None:
        """How many messages it may have: what it says itself, or the link of a queue of another box; None: any number."""
        own = None if self.declared.max_messages is None else self.declared.max_messages.messages
        return min((one for one in (own, self.link_most) if one is not None), default=None)

    @property
    def publishers_wait(self) -> bool:
        """Whether publishers wait while it is full, as far as it says so."""
        return self.declared.max_messages is None or self.declared.max_messages.when_full == "wait"

    @property
    def is_filled_later(self) -> bool:
        """Whether messages of dialogs wait in the transmission queue while it is full."""
        return self.serves and self.declared.max_messages is not None

    @cached_property
    def counts_rollbacks(self) -> bool:
        """Whether rollbacks suspend the group of their messages: those of workers and of applications."""
        return self.serves and self.declared.retry.rollbacks is not None

    @cached_property
    def is_open(self) -> bool:
        """Whether it hands out: it is on, belongs to no pipeline, and is a queue of this box."""
        return self.enabled and self.owner is None and self.declared.at is None

    def check_received_here(self, *, by_regions: bool = False) -> None:
        """Refuse to receive from a queue of another box, and from one of two regions, unless their worker does."""
        if self.regions is not None and not by_regions:
            name = self.declared.name
            raise ActionRefused(
                f"queue {name!r} is one of the regions {self.regions!r}: their journal says which region handles a message",
                remedy=f"RegionalWorker(regions, {name!r}, …), or seriatim work {name} --regions FILE --region a",
            )
        if self.declared.at is not None:
            raise ActionRefused(
                f"queue {self.declared.name!r} is in another box, and what waits in it here is sent there",
                remedy=f"receive from queue {self.declared.at.queue or self.declared.name!r} in the box of link {self.declared.at.link!r}",
            )

    def published_here(self) -> QueueOfRegions:
        """The error of publishing to one box alone, for a queue of two regions."""
        return QueueOfRegions(
            f"the queue is one of the regions {self.regions!r}, which number its messages together",
            where=self.declared.name,
            remedy="publish with Regions.publish; over HTTP to seriatim serve --http with --regions FILE",
        )

    @cached_property
    def has_groups(self) -> bool:
        """Whether its messages have groups: it isn't `Unordered`."""
        return not isinstance(self.declared.policy, Unordered)

    @cached_property
    def has_gate(self) -> bool:
        """Whether a gate keeps the order of its messages: each has a place there, its number in its group."""
        return self.declared.gate is not None

    @cached_property
    def numbers(self) -> bool:
        """Whether it has no order, and a gate: it numbers its messages by group, as they come in."""
        return self.has_gate and not self.has_groups

    @cached_property
    def means(self) -> bool:
        """Whether its numbers aren't plain: a `Sequence` says what they mean, or the first number of a group is found out."""
        return self.declared.means

    @cached_property
    def begins_again(self) -> bool:
        """Whether a group may have several sets, one after another."""
        return any(isinstance(one, UnitOfWork) and not one.once for one in self.declared.all_policies())

    @cached_property
    def is_fifo(self) -> bool:
        """Whether all its groups are first in, first out, whatever their messages say."""
        one = self.declared
        return isinstance(one.policy, Fifo) and not one.policies and not one.has_stays and not self.means

    @cached_property
    def holds(self) -> bool:
        """Whether a message may wait for another message, and be handed out long after later messages."""
        waits = not all(isinstance(policy, Fifo | Unordered) for policy in self.declared.all_policies())
        return waits or self.declared.group.opens is not None

    def at_most(self, limit: int) -> int:
        """The most messages of a delivery for a given limit; a set is always handed out whole."""
        return ALL if limit and self._has_sets else limit

    def looked_at(self, at_most: int) -> int:
        """The number of queued messages that a turn has to read for a given limit: one more, or the whole set."""
        return ALL if self._has_sets else at_most + 1

    @cached_property
    def _has_sets(self) -> bool:
        return isinstance(self.declared.policy, UnitOfWork)


@dataclass(frozen=True, slots=True)
class BoxSubscription:
    """A subscription in a box. `role`: whose it is; None: the owner's. `types`: those granted to the role now; None: all."""

    subscription_id: int
    declared: Subscription
    state: str
    role: str | None = None
    types: tuple[str, ...] | None = None

    def may_match(self, kind: str) -> bool:
        return self.types is None or kind in self.types


@dataclass(frozen=True)
class Definitions:
    """All definitions in one version, by name. `unreadable`: by kind and name. `settings`: of the box; None: the defaults."""

    version: int
    types: Mapping[str, MessageType] = field(default_factory=dict)
    queues: Mapping[str, BoxQueue] = field(default_factory=dict)
    subscriptions: Mapping[str, BoxSubscription] = field(default_factory=dict)
    contracts: Mapping[str, Contract] = field(default_factory=dict)
    services: Mapping[str, Service] = field(default_factory=dict)
    unreadable: Mapping[tuple[str, str], BrokenDefinition] = field(default_factory=dict)
    settings: BoxSettings | None = None

    def queue(self, name: str) -> BoxQueue:
        found = self.known_queue(name)
        if found.problem is not None:
            raise SchemaMismatch(
                f"its definition can't be used: {found.problem}",
                where=f"queue {name!r}",
                remedy="define it again; seriatim doctor names what is wrong",
            )
        return found

    def known_queue(self, name: str) -> BoxQueue:
        """The queue with this name, even if its definition can't be used."""
        found = self.queues.get(name) if isinstance(name, str) else None
        if found is None:
            remedy = likely(name, self.queues) or "box.define(Queue(…)), or seriatim box apply FILE"
            if (handler := meant_function(name)) is not None:
                remedy = f"a handler is named behind the queue: --handler {handler}"
            raise NotFound(f"there is no queue {shown(name)}", remedy=remedy)
        return found

    @cached_property
    def refuses(self) -> bool:
        """Whether a call of publish is refused by default if one of its messages would reach no queue."""
        return self.settings is not None and self.settings.unrouted == "refuse"

    def derived(self, make: Callable[[Definitions], _Derived]) -> _Derived:
        """Compute a value from the definitions, once."""
        if (made := self._made.get(make)) is None:
            made = self._made[make] = make(self)
        return cast("_Derived", made)

    @cached_property
    def _made(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def limited(self) -> Mapping[int, BoxQueue]:
        """The queues that may be full, by their ids."""
        return {one.queue_id: one for one in self.queues.values() if one.most is not None}

    @cached_property
    def regional(self) -> Mapping[int, BoxQueue]:
        """The queues of two regions, by their ids."""
        return {one.queue_id: one for one in self.queues.values() if one.regions is not None}

    @cached_property
    def collecting(self) -> frozenset[str]:
        """The names of queues with a subscription that isn't started; such a queue may keep messages back."""
        return frozenset(one.declared.to for one in self.subscriptions.values() if one.state != "started")

    @cached_property
    def starting(self) -> Mapping[str, frozenset[str]]:
        """The names of the starting subscriptions, by queue name."""
        found: dict[str, set[str]] = {}
        for name, one in self.subscriptions.items():
            if one.declared.starts is not None:
                found.setdefault(one.declared.to, set()).add(name)
        return {queue: frozenset(names) for queue, names in found.items()}

    @cached_property
    def gates(self) -> Mapping[str, BoxQueue]:
        """The origin queue of each gate, by the gate's name."""
        return {str(one.declared.gate_name): one for one in self.queues.values() if one.has_gate}

    @cached_property
    def ways(self) -> Mapping[str, BoxQueue]:
        """The origin queue of each queue whose messages are on the way to a gate, by name: of itself, too."""
        return {
            name: one
            for one in self.queues.values()
            if one.has_gate
            for name in (one.declared.name, *one.declared.through)
        }

    @cached_property
    def names(self) -> Mapping[int, str]:
        return {one.subscription_id: name for name, one in self.subscriptions.items()}
