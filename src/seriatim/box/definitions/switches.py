"""Start and stop subscriptions, queues and activations. The declarations themselves stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seriatim.box.definitions.change import Change, Kind
from seriatim.box.definitions.define import record
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.known import read_definitions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import NotFound, SchemaMismatch, UsageError, shown
from seriatim.pipeline.declared.subscription import STATES
from seriatim.pipeline.text.section import likely


def set_state(statements: Statements, names: Iterable[str], state: str) -> list[Change]:
    """Bring subscriptions into a state, all or none. What a started one has collected can be handed out from the next turn on."""
    if state not in STATES:
        raise UsageError(f"{shown(state)} is not a state of subscriptions", remedy=f"one of {', '.join(STATES)}")

    def check(name: str, known: Definitions) -> None:
        if isinstance(name, str) and (broken := known.unreadable.get(("subscription", name))) is not None:
            raise SchemaMismatch(str(broken), remedy="define it again, or drop it")
        if not isinstance(name, str) or name not in known.subscriptions:
            raise NotFound(f"there is no subscription {shown(name)}", remedy=likely(name, known.subscriptions))

    changed = _set(statements, names, "set_state", {"state": state}, check)
    for _, (subscription_id, queue_id) in changed if state == "started" else ():
        statements.do("look_collected", subscription_id=subscription_id, queue_id=queue_id)
        statements.do("call_all_waiters", of_queues=[queue_id])
    return _recorded(statements, [Change(state, Kind.SUBSCRIPTION, name) for name, _ in changed])


def set_enabled(statements: Statements, names: Iterable[str], *, enabled: bool) -> list[Change]:
    """Turn queues on or off, all or none, in the transaction."""

    def check(name: str, known: Definitions) -> None:
        known.queue(name)

    changed = _set(statements, names, "set_enabled", {"enabled": enabled}, check)
    what = "turned on" if enabled else "turned off"
    return _recorded(statements, [Change(what, Kind.QUEUE, name) for name, _ in changed])


def set_activated(statements: Statements, names: Iterable[str], *, activated: bool) -> list[Change]:
    """Turn the activation of queues on or off, all or none, in the transaction."""

    def check(name: str, known: Definitions) -> None:
        if known.queue(name).declared.activation is None:
            raise UsageError(
                "the queue has no activation", where=f"queue {name!r}", remedy="define one: activation=Activation(…)"
            )

    changed = _set(statements, names, "set_activated", {"activated": activated}, check)
    what = "activated" if activated else "deactivated"
    return _recorded(statements, [Change(what, Kind.QUEUE, name) for name, _ in changed])


def _set(
    statements: Statements,
    names: Iterable[str],
    name_of: str,
    value: Mapping[str, Any],
    check: Callable[[str, Definitions], None],
) -> list[tuple[str, tuple[Any, ...]]]:
    """Set a value of each name, with the statement `name_of`; returns the names that had another value, with the returned rows."""
    statements.do("lock_definitions")
    known = read_definitions(statements)
    given, changed = list(names), []
    for name in given:
        check(name, known)
    for name in dict.fromkeys(given):
        row = statements.maybe(name_of, name=name, **value)
        if row is not None:
            changed.append((name, row))
    return changed


def _recorded(statements: Statements, changes: list[Change]) -> list[Change]:
    if changes:
        record(statements, changes)
    return changes
