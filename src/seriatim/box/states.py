"""Starting and stopping, while messages come: subscriptions, and queues. What is declared stays as it is."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.change import Change, Kind
from seriatim.box.define import record
from seriatim.box.definitions import read_definitions
from seriatim.box.statements import statement
from seriatim.errors import UsageError
from seriatim.pipeline.section import likely
from seriatim.pipeline.subscription import STATES

__all__ = ["set_activated", "set_enabled", "set_state"]


def set_state(connection: psycopg.Connection, schema: str, names: Iterable[str], state: str) -> list[Change]:
    """Bring subscriptions into a state, all or none, in the transaction of the connection.

    What a subscription collected that is started now can be handed out: groups that have some of it are looked at by
    the next turn. What a turn has in its hands while one is stopped isn't taken back.

    Raises:
        UsageError: no such subscription or state.
    """
    if state not in STATES:
        raise UsageError(f"a subscription can't be {state!r}", remedy=f"one of {', '.join(STATES)}")
    connection.execute(statement("lock_definitions", schema))
    known = read_definitions(connection, schema).subscriptions
    changes = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise UsageError(f"there is no subscription {name!r}", remedy=likely(str(name), known))
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(statement("set_state", schema), {"name": name, "state": state}).fetchone()
        if row is None:
            continue
        changes.append(Change(state, Kind.SUBSCRIPTION, name))
        if state == "started":
            parameters = {"subscription_id": row[0], "queue_id": row[1]}
            connection.execute(statement("look_collected", schema), parameters)
            connection.execute(statement("call_waiters", schema), {"queue_ids": [row[1]]})
    if changes:
        record(connection, schema, changes)
    return changes


def set_enabled(connection: psycopg.Connection, schema: str, names: Iterable[str], *, enabled: bool) -> list[Change]:
    """Turn queues on or off, all or none, in the transaction of the connection.

    Raises:
        UsageError: no such queue.
    """
    connection.execute(statement("lock_definitions", schema))
    known = read_definitions(connection, schema)
    changes = []
    for name in dict.fromkeys(names):
        known.queue(name)
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(statement("set_enabled", schema), {"name": name, "enabled": enabled}).fetchone()
        if row is not None:
            changes.append(Change("turned on" if enabled else "turned off", Kind.QUEUE, name))
    if changes:
        record(connection, schema, changes)
    return changes


def set_activated(
    connection: psycopg.Connection, schema: str, names: Iterable[str], *, activated: bool
) -> list[Change]:
    """Turn the activation of queues on or off, all or none, in the transaction of the connection.

    Raises:
        UsageError: no such queue, or one without an activation.
    """
    connection.execute(statement("lock_definitions", schema))
    known = read_definitions(connection, schema)
    changes = []
    for name in dict.fromkeys(names):
        if known.queue(name).declared.activation is None:
            raise UsageError(
                "it has no activation", where=f"queue {name!r}", remedy="define one: activation=Activation(…)"
            )
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(statement("set_activated", schema), {"name": name, "activated": activated}).fetchone()
        if row is not None:
            changes.append(Change("activated" if activated else "deactivated", Kind.QUEUE, name))
    if changes:
        record(connection, schema, changes)
    return changes
