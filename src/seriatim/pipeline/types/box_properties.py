"""The properties of the messages in a box: properties of every message, and properties that message types declare.

A property has one type in a box, even if several message types declare it: filters and queues see messages of all types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from seriatim.errors import UsageError
from seriatim.kernel.filters.filter import type_from
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from seriatim.pipeline.declared.queue import CONVERSATION_GROUP, Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE
from seriatim.pipeline.filters.syntax import named, parsed
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.failure_message import FAILURE_PROPERTIES
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.sent_by import LINK
from seriatim.pipeline.types.taken_from import SOURCE

#: Of the messages with one value of this property at most one waits in a queue.
UNIQUE_KEY = "unique_key"
#: Where a message stands in a trace, as of W3C's Trace Context; it goes on with what results from the message. A type may declare these
#: names as its own properties.
TRACE: Mapping[str, str] = {"traceparent": "string", "tracestate": "string"}
#: The properties that every message of a box has, without a declaration; missing values are null. `ticket` is the number.
OWN: Mapping[str, str] = {
    "correlation_id": "string",
    "epoch": "long",
    "location": "string",
    "message_id": "string",
    "parent_id": "string",
    "part": "long",
    "parts": "long",
    "received_at": "timestamp",
    "ticket": "long",
    "to": "string",
    "type": "string",
    UNIQUE_KEY: "string",
    **TRACE,
    **ORIGIN,
    **LINK,
    **SOURCE,
}
#: The properties of a message's dialog, if it came for a service; `dialog_sequence` is its number in its direction.
DIALOG: Mapping[str, str] = {
    "handle": "string",
    "conversation_id": "string",
    "service": "string",
    "far_service": "string",
    "contract": "string",
    "dialog_sequence": "long",
    "is_initiator": "boolean",
    "is_monolog": "boolean",
}
#: The properties that a message gets when its transaction commits; the message is routed before.
_AT_COMMIT = frozenset({"epoch", "ticket"})
#: Other fields of a message, which filters can't read.
UNFIT: Mapping[str, str] = {"body": "binary", "context": "a mapping"}

#: The types of positions, and how a pattern of types reads.
_POSITIONS = r"string|long|decimal\(\d+,\s*0\)"
_AS_TEXT = {_POSITIONS: "string, long or decimal(p,0)"}


@dataclass(frozen=True, slots=True)
class Clash:
    """A property that two message types declare in different ways."""

    type: str
    property: str
    what: str

    def error(self) -> UsageError:
        return UsageError(self.what, where=f"type {self.type!r}", remedy="in a box, each property name has one type")


@dataclass(frozen=True, slots=True)
class Misfit:
    """A part of a queue that doesn't fit the properties: the field, the fault, and the remedy."""

    field: str
    what: str
    remedy: str = ""


def declared(kind: MessageType) -> dict[str, str]:
    return kind.types()


def clashes(types: Iterable[MessageType]) -> Iterator[Clash]:
    """The properties on which message types don't agree; each clash names the later type."""
    seen: dict[str, tuple[str, str, str]] = {}
    for kind in types:
        for name, written in declared(kind).items():
            before, meant, owner = seen.setdefault(name.casefold(), (name, written, kind.name))
            if before != name:
                what = f"{name!r} is {before!r} in type {owner!r}, and Spark doesn't tell capitals apart"
                yield Clash(kind.name, name, what)
            elif meant != written:
                yield Clash(kind.name, name, f"property {name!r} is {written} here and {meant} in type {owner!r}")


def property_types(types: Iterable[MessageType]) -> dict[str, str]:
    """The properties that filters and queues of a box may name, with their types. These are the properties that the types declare, `OWN`,
    and the properties of failures. A message type may declare a property with the name of a failure's property; then the declared type
    applies.
    """
    known = tuple(types)
    for clash in clashes(known):
        raise clash.error()
    own = {**OWN, **FAILURE_PROPERTIES}
    return own | {name: written for kind in known for name, written in declared(kind).items()}


def misfits(queue: Queue, types: Mapping[str, str], *, whole: bool = True) -> Iterator[Misfit]:
    """The parts of a queue that don't fit the properties of a box."""
    for policy in queue.all_policies():
        yield from _misfits(queue, policy, types, whole=whole)
    filters = {"group.opens": queue.group.opens, "group.closes": queue.group.closes}
    filters |= {f"sequence.{name}": text for name, text in queue.says.filters.items()}
    for field, text in filters.items():
        if text is not None:
            yield from _wrong_filter(field, text, types, whole=whole)


def by_ticket(queue: Queue) -> bool:
    """Whether the sequence of a queue of a box is the position of a message's ticket, which it gets when its transaction commits."""
    return queue.numbered_by == "ticket" and isinstance(queue.policy, Standard)


def _misfits(queue: Queue, policy: Policy, types: Mapping[str, str], *, whole: bool) -> Iterator[Misfit]:
    if by_ticket(queue) and (queue.group.by != "location" or queue.group.by_type is not None):
        what = "tickets are numbered by location, so they are a sequence of the groups of 'location' alone"
        yield Misfit("sequence", what, 'group="location", or another sequence')
    for field, name, fitting in [*_needed(queue, policy), ("priority", queue.priority, "long")]:
        if name in _AT_COMMIT:
            yield _too_early(field, name)
            continue
        found = types.get(name or "")
        if name is None or (found is None and not whole):
            continue
        if found is None:
            remedy = (
                likely(name, types)
                if len(types) > len(OWN) + len(FAILURE_PROPERTIES)
                else "declare it in a message type"
            )
            yield Misfit(field, f"no message type declares {name!r}", remedy)
        elif fitting and re.fullmatch(fitting, found) is None:
            type_ = _AS_TEXT.get(fitting, fitting)
            yield Misfit(field, f"{name!r} is {found}, but has to be {type_}", f"name a property of type {type_}")
    if isinstance(policy, UnitOfWork) and isinstance(policy.last, str):
        yield from _wrong_filter("last", policy.last, types, whole=whole)


def _needed(queue: Queue, policy: Policy) -> list[tuple[str, str | None, str]]:
    """The properties that order messages by a policy: what each is for, its name, and the pattern of its type, empty: any."""
    if isinstance(policy, Unordered) and queue.gate is None:
        return []
    needed: list[tuple[str, str | None, str]] = []
    if queue.group.by not in {CONVERSATION_GROUP, WHOLE_QUEUE}:
        needed.append(("group.by", queue.group.by, ""))
    if by_position(policy):
        needed += [("sequence", name, _POSITIONS) for name in queue.says.names]
    elif not isinstance(policy, Fifo | Unordered) and not by_ticket(queue):
        by_time = isinstance(policy, BestEffort) and policy.by == "time"
        needed.append(("sequence", queue.numbered_by, "timestamp" if by_time else "long"))
        its = queue.says.given()
        needed += [(f"sequence.{name}", its[name], "long") for name in ("through", "previous", "epoch") if name in its]
    if isinstance(policy, UnitOfWork) and isinstance(policy.size, str):
        needed.append(("size", policy.size, "long"))
    return needed


def _too_early(field: str, name: str) -> Misfit:
    what = f"{name!r} isn't known when a message is put into a queue: it is numbered when its transaction commits"
    return Misfit(field, what, "the order of arrival is that of the commits: Fifo goes by it")


def _wrong_filter(field: str, text: str, types: Mapping[str, str], *, whole: bool) -> Iterator[Misfit]:
    try:
        for name in sorted(named(text) & _AT_COMMIT):
            yield _too_early(field, name)
        if whole or named(text) <= {*types, *UNFIT}:
            parsed(text, {name: type_from(kind) for name, kind in types.items()}, unfit=UNFIT)
    except UsageError as error:
        yield Misfit(field, f"{error.where} of the filter: {error.what}", error.remedy)
