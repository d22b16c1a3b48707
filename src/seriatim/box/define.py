"""What `MessageBox.define` does: writes declarations into the box, again and again with the same result."""

from __future__ import annotations

import json
from collections.abc import Iterable

import psycopg

from seriatim.box.definitions import Definitions, Known
from seriatim.box.route import Router
from seriatim.box.statements import statement
from seriatim.errors import ActionRefused, UsageError
from seriatim.pipeline.box_types import misfits, property_types
from seriatim.pipeline.location import Location
from seriatim.pipeline.message_type import MessageType
from seriatim.pipeline.queue import Queue
from seriatim.pipeline.section import likely
from seriatim.pipeline.stored import to_json
from seriatim.pipeline.subscription import Subscription

__all__ = ["Definition", "define"]

#: What can be defined.
Definition = Location | MessageType | Queue | Subscription

#: Subscriptions name queues, and these name properties of types.
_ORDER = (Location, MessageType, Queue, Subscription)


def define(connection: psycopg.Connection, schema: str, known: Known, definitions: Iterable[Definition]) -> list[str]:
    """Define all, in the transaction of the connection.

    Returns:
        what has changed, in words.

    Raises:
        UsageError: something that can't be defined, or that doesn't fit what is there.
        ActionRefused: a change that doesn't fit what is there.
    """
    given = list(definitions)
    for one in given:
        if not isinstance(one, Definition):
            raise UsageError(f"{type(one).__name__} can't be defined in a message box")
    connection.execute(statement("lock_definitions", schema))
    before = known.read(connection)
    changed = [
        f"{type(one).__name__.lower()} {one.name}"
        for kind in _ORDER
        for one in given
        if isinstance(one, kind) and _define(connection, schema, before, one)
    ]
    if any(not isinstance(one, Location) for one in given) and changed:
        connection.execute(statement("record_change", schema), {"what": ", ".join(changed)[:10_000]})
        _check(known.read(connection))
    return changed


def _define(connection: psycopg.Connection, schema: str, before: Definitions, one: Definition) -> bool:
    parameters: dict[str, object]
    match one:
        case Location():
            return _define_location(connection, schema, one)
        case MessageType():
            name, parameters = "define_type", {}
        case Queue():
            _check_change(before, one)
            name, parameters = "define_queue", {"enabled": one.enabled}
        case Subscription():
            name, parameters = "define_subscription", {"queue": one.to, "state": one.state}
    stored = {"name": one.name, "definition": json.dumps(to_json(one))}
    row = connection.cursor().execute(statement(name, schema), stored | parameters).fetchone()
    if isinstance(one, Subscription) and row is None and before.subscriptions.get(one.name) is None:
        raise UsageError(
            f"there is no queue {one.to!r}",
            where=f"subscription {one.name!r}",
            remedy=likely(one.to, before.queues) or "define the queue",
        )
    return row is not None


def _check(after: Definitions) -> None:
    """See that all that is defined now goes together."""
    types = property_types(after.types.values())
    for name, queue in after.queues.items():
        for one in misfits(queue.declared, types):
            raise UsageError(one.what, where=f"queue {name!r}: {one.field}", remedy=one.remedy)
    Router(after)


def _check_change(before: Definitions, queue: Queue) -> None:
    """Refuse what would judge anew what a queue has judged already."""
    known = before.queues.get(queue.name)
    if known is None:
        return
    old, new = known.declared, queue
    if type(old.policy) is not type(new.policy):
        raise ActionRefused(
            f"the policy of queue {queue.name!r} can't become {new.policy.name}: its groups were ordered by "
            f"{old.policy.name}",
            remedy="define another queue",
        )


def _define_location(connection: psycopg.Connection, schema: str, location: Location) -> bool:
    cursor = connection.cursor().execute(
        statement("define_location", schema), {"location": location.name, "last_number": location.last_number}
    )
    if cursor.fetchone() is None:
        raise ActionRefused(
            f"the last number of location {location.name} can't become {location.last_number:,}: "
            "it has given numbers under another one",
            remedy="tickets are compared by it; begin a new location instead",
        )
    return True
