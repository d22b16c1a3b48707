"""Starting and stopping while messages come: subscriptions, queues, their readers. What is declared stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.change import Change, Kind
from seriatim.box.define import record
from seriatim.box.definitions import Definitions, read_definitions
from seriatim.box.statements import statement
from seriatim.errors import SchemaMismatch, UsageError, shown
from seriatim.pipeline.section import likely
from seriatim.pipeline.subscription import STATES

__all__ = ["set_activated", "set_enabled", "set_state"]


def set_state(connection: psycopg.Connection, schema: str, names: Iterable[str], state: str) -> list[Change]:
    """Bring subscriptions into a state, all or none, in the transaction of the connection.

    What a subscription collected that is started now can be handed out: groups that have some of it are looked at by
    the next turn. What a turn has in its hands while one is stopped isn't taken back.

    Raises:
        UsageError: no such subscription or state.
        SchemaMismatch: the definition of one can't be read.
    """
    if state not in STATES:
        raise UsageError(f"{shown(state)} is not a state of subscriptions", remedy=f"one of {', '.join(STATES)}")

    def check(name: str, known: Definitions) -> None:
        if isinstance(name, str) and (broken := known.unreadable.get(("subscription", name))) is not None:
            raise SchemaMismatch(str(broken), remedy="define it again, or drop it")
        if not isinstance(name, str) or name not in known.subscriptions:
            raise UsageError(f"there is no subscription {shown(name)}", remedy=likely(name, known.subscriptions))

    changed = _set(connection, schema, names, "set_state", {"state": state}, check)
    for _, (subscription_id, queue_id) in changed if state == "started" else ():
        parameters = {"subscription_id": subscription_id, "queue_id": queue_id}
        connection.execute(statement("look_collected", schema), parameters)
        connection.execute(statement("call_waiters", schema), {"queue_ids": [queue_id]})
    return _recorded(connection, schema, [Change(state, Kind.SUBSCRIPTION, name) for name, _ in changed])


def set_enabled(connection: psycopg.Connection, schema: str, names: Iterable[str], *, enabled: bool) -> list[Change]:
    """Turn queues on or off, all or none, in the transaction of the connection.

    Raises:
        UsageError: no such queue.
    """

    def check(name: str, known: Definitions) -> None:
        known.queue(name)

    changed = _set(connection, schema, names, "set_enabled", {"enabled": enabled}, check)
    what = "turned on" if enabled else "turned off"
    return _recorded(connection, schema, [Change(what, Kind.QUEUE, name) for name, _ in changed])


def set_activated(
    connection: psycopg.Connection, schema: str, names: Iterable[str], *, activated: bool
) -> list[Change]:
    """Turn the activation of queues on or off, all or none, in the transaction of the connection.

    Raises:
        UsageError: no such queue, or one without an activation.
    """

    def check(name: str, known: Definitions) -> None:
        if known.queue(name).declared.activation is None:
            raise UsageError(
                "the queue has no activation", where=f"queue {name!r}", remedy="define one: activation=Activation(…)"
            )

    changed = _set(connection, schema, names, "set_activated", {"activated": activated}, check)
    what = "activated" if activated else "deactivated"
    return _recorded(connection, schema, [Change(what, Kind.QUEUE, name) for name, _ in changed])


def _set(
    connection: psycopg.Connection,
    schema: str,
    names: Iterable[str],
    name_of: str,
    value: Mapping[str, Any],
    check: Callable[[str, Definitions], None],
) -> list[tuple[str, tuple[Any, ...]]]:
    """Set a value of each, by the statement `name_of`; those that had another, with the row that it gives."""
    connection.execute(statement("lock_definitions", schema))
    known = read_definitions(connection, schema)
    given, changed = list(names), []
    for name in given:
        check(name, known)
    for name in dict.fromkeys(given):
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(statement(name_of, schema), {"name": name, **value}).fetchone()
        if row is not None:
            changed.append((name, row))
    return changed


def _recorded(connection: psycopg.Connection, schema: str, changes: list[Change]) -> list[Change]:
    if changes:
        record(connection, schema, changes)
    return changes
