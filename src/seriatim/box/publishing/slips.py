"""A publisher's slips: messages that reach no queue, or are invalid in one, and what their publisher probably meant.

A slip is reported to the publisher as an error, or in the log, once for each type and property and process.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.route import Routed, router_of
from seriatim.errors import Unrouted, meant, shown
from seriatim.kernel.filters.filter import In, Property, ValueKind
from seriatim.kernel.filters.filter_fold import nodes
from seriatim.kernel.groups.policy import Fifo
from seriatim.kernel.route import named_types
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.failure_message import FAILURE
from seriatim.pipeline.types.message import Message

#: A fault of a message that a type has found begins with the name of the property.
_BLAMED = re.compile(r"property (\w+)")
_MOST_KNOWN = 10


@dataclass(frozen=True, slots=True)
class Slip:
    """One message that reaches no queue, or is invalid in one."""

    message: Message
    #: The queue that would set it aside as invalid; None: it reaches none.
    queue: str | None
    #: The problem; None: no subscription matches it.
    problem: str | None
    #: The invalid property; empty if it isn't a property.
    blamed: str

    @property
    def key(self) -> tuple[str, str | None, str]:
        return self.message.type, self.queue, self.blamed


def has_slips(routed: Routed) -> bool:
    """Whether some messages reach no queue and answer no request, or are invalid in a queue."""
    places, problems = routed.entries.places, routed.entries.problems
    return problems.count(None) < len(problems) or len(routed.awaited.union(places)) < len(routed.typed.messages)


def refuse_slips(routed: Routed, definitions: Definitions) -> None:
    slips = list(_slips(routed, definitions))
    if slips:
        problem, remedy = _told(slips[0], definitions)
        more = f"; and {len(slips) - 1:,} more of this call" if slips[1:] else ""
        raise Unrouted(f"{problem}{more}", remedy=remedy)


def log_slips(access: Access, routed: Routed, definitions: Definitions) -> None:
    """Log slips, once for each type and property and process; not those of failures, which the box publishes."""
    for slip in _slips(routed, definitions):
        if slip.message.type != FAILURE and access.told.is_first(slip.key):
            problem, remedy = _told(slip, definitions, "is")
            LOG.warning("publisher_slip", error=problem, _remedy=remedy)


def _slips(routed: Routed, definitions: Definitions) -> Iterator[Slip]:
    """The slips of a batch: first the messages that reach no queue."""
    typed, entries, router = routed.typed, routed.entries, router_of(definitions)
    wanted = routed.awaited.union(entries.places)
    for row, message in enumerate(typed.messages):
        if row not in wanted:
            problem = typed.problems[row]
            yield Slip(message, None, problem, "" if problem is None else _blamed(message, problem, definitions))
    names = {queue.queue_id: name for name, queue in definitions.queues.items()}
    for place, queue_id, problem, by in zip(
        entries.places, entries.queue_ids, entries.problems, entries.subscriptions, strict=True
    ):
        # The publisher doesn't see subscriptions of roles.
        if problem is not None and not router.is_roles_own(by):
            yield Slip(typed.messages[place], names.get(queue_id), problem, "")


def _blamed(message: Message, problem: str, definitions: Definitions) -> str:
    if (unknown := _undeclared(message, definitions)) is not None:
        return unknown
    match = _BLAMED.match(problem)
    return match[1] if match else "body"


def _undeclared(message: Message, definitions: Definitions) -> str | None:
    """The first property that the type of a message doesn't declare."""
    kind = definitions.types.get(message.type)
    if kind is None:
        return None
    known = kind.types().keys() | OWN.keys()
    return next((name for name in message.context if name not in known), None)


def _told(slip: Slip, definitions: Definitions, verb: str = "would be") -> tuple[str, str]:
    """The error, and the name that was probably meant. `verb`: ``is`` of a message that was taken in nevertheless."""
    message = slip.message
    named = f"message {message.message_id} of type {shown(message.type, 80)}"
    if slip.queue is not None:
        return f"{named} {verb} invalid in queue {slip.queue!r}: {slip.problem}", _needed(slip.queue, definitions)
    if slip.problem is not None:
        problem = f"{named} {verb} unrouted: {slip.problem}"
        kind = definitions.types.get(message.type)
        if kind is None:
            return problem, "mend the message"
        if _undeclared(message, definitions) == slip.blamed:
            return problem, _meant(slip.blamed, kind.types(), "it declares")
        return problem, "mend the value, or what the type says of it"
    return f"{named} {verb} unrouted: no subscription matches it", _unmatched(message, definitions)


def _needed(queue: str, definitions: Definitions) -> str:
    declared = definitions.queues[queue].declared
    names = [name for name in (declared.group.by, *declared.says.names) if name is not None]
    if isinstance(declared.policy, Fifo):
        names = names[:1]
    return f"the queue goes by {' and '.join(map(repr, names))}" if names else "mend the queue's definition"


def _unmatched(message: Message, definitions: Definitions) -> str:
    """Return the value that a message would need so that a subscription matches it."""
    router = router_of(definitions)
    filters = router.filters
    wanted: dict[str, set[str]] = {}
    types = set(definitions.types)
    for expression in filters:
        types |= named_types(expression)
        for node in nodes(expression):
            match node:
                case In(Property(name, kind), values) if kind.kind is ValueKind.STRING and name != "type":
                    wanted.setdefault(name, set()).update(map(str, values))
    if message.type not in types:
        return _meant(message.type, types, "known types")
    if unknown := [name for name in message.context if name not in router.properties]:
        return f"{shown(unknown[0], 80)} is no property of the box; {_meant(unknown[0], router.properties, 'known')}"
    for name, expected in sorted(wanted.items()):
        value = router.value_of(message, name)
        if isinstance(value, str) and value not in expected:
            return f"{name} is {shown(value, 80)}; {_meant(value, expected, 'subscriptions ask for')}"
    missing = sorted(set(wanted) - set(message.context))
    if missing and all(router.value_of(message, name) is None for name in missing):
        return f"it has no {missing[0]}; seriatim subscriptions lists the filters"
    return "seriatim subscriptions lists the filters" if filters else "there are no subscriptions"


def _meant(written: object, known: Collection[str], noun: str) -> str:
    """Return the name that was probably meant, or the existing names."""
    if hint := meant(written, known):
        return hint
    if not known:
        return f"{noun}: none"
    names = sorted(known)
    more = f" and {len(names) - _MOST_KNOWN:,} more" if len(names) > _MOST_KNOWN else ""
    return f"{noun}: {', '.join(names[:_MOST_KNOWN])}{more}"


#: How the correlations begin that the box draws for requests.
REQUEST = "request-"


def may_be_reply(correlation: object) -> bool:
    return isinstance(correlation, str) and correlation.startswith(REQUEST)


def with_awaited(transaction: Transaction, routed: Routed) -> Routed:
    """The same batch, with the messages noted that reach no queue, and are replies to open requests."""
    messages, problems = routed.typed.messages, routed.typed.problems
    wanted = set(routed.entries.places)
    rows = [
        row
        for row in range(len(messages))
        if row not in wanted and problems[row] is None and may_be_reply(messages[row].context.get("correlation_id"))
    ]
    if not rows:
        return routed
    correlations = [str(messages[row].context["correlation_id"]) for row in rows]
    places = transaction.value("asked_for", correlations=correlations, types=[messages[row].type for row in rows])
    return replace(routed, awaited=frozenset(rows[place - 1] for place in places))
