"""Which queues and locations the roles of applications may use; PostgreSQL itself holds them to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row, tuple_row

from seriatim.box.definitions import read_definitions
from seriatim.box.drop import locations
from seriatim.box.statements import statement
from seriatim.errors import UsageError, shown
from seriatim.pipeline.section import likely
from seriatim.pipeline.text import checked_text

__all__ = ["Grant", "Rights", "grant", "grants", "revoke"]

#: The rights that are lists of names, and of what.
_LISTS = {"publish": "queue", "receive": "queue", "subscribe": "queue", "dispense": "location"}


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights of a role.

    Args:
        publish: the queues that it may publish to.
        receive: the queues that it may receive from.
        subscribe: the queues that it may make subscriptions for.
        route: whether it may route what others have published through SQL; it can read that.
        dispense: the locations whose numbers it may take.
    """

    publish: Iterable[str] = ()
    receive: Iterable[str] = ()
    subscribe: Iterable[str] = ()
    route: bool = False
    dispense: Iterable[str] = ()

    def __post_init__(self) -> None:
        for name, what in _LISTS.items():
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise UsageError(
                    f"{shown(given)} is no list of {what}s", where=name, remedy="give a list of their names"
                )
            names = [checked_text(one, f"a {what}'s name") for one in given]
            object.__setattr__(self, name, tuple(dict.fromkeys(names)))

    def __bool__(self) -> bool:
        return bool(self.publish or self.receive or self.subscribe or self.route or self.dispense)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a role may do in a box: the names of the queues and locations, sorted; and whether it may `route`."""

    role: str
    publish: list[str]
    receive: list[str]
    subscribe: list[str]
    route: bool
    dispense: list[str]


def grant(connection: psycopg.Connection, schema: str, role: str, rights: Rights) -> None:
    """Give a role rights, besides those that it has.

    Raises:
        UsageError: no such role, queue or location, or no rights at all.
        EnvironmentProblem: whoever connects isn't the owner of the box.
    """
    if not rights:
        raise UsageError(
            "no right is named",
            remedy="name queues to publish to, receive from or subscribe for, or locations to dispense tickets of",
        )
    checked_text(role, "a role's name")
    named = _named(connection, schema, rights)
    _check_locations(connection, schema, rights.dispense)
    with connection.cursor(row_factory=tuple_row) as cursor:
        if not cursor.execute(statement("let_in", schema), {"role": role}).fetchall():
            raise UsageError(f"there is no role {role!r}", remedy="CREATE ROLE … LOGIN, by whoever runs PostgreSQL")
    connection.execute(statement("grant", schema), {"role": role} | named)


def revoke(connection: psycopg.Connection, schema: str, role: str, rights: Rights) -> None:
    """Take rights from a role; all of them if none is named.

    Raises:
        UsageError: the role has no rights here, or there is no such queue.
        EnvironmentProblem: whoever connects isn't the owner of the box.
    """
    named = _named(connection, schema, rights)
    parameters = {"role": role, "all_of_them": not rights} | named
    with connection.cursor(row_factory=tuple_row) as cursor:
        has_rights = role in {one.role for one in grants(connection, schema)}
        if not has_rights and (rights or not _is_let_in(cursor, schema, role)):
            raise UsageError(f"the role {role!r} has no rights in this box", remedy="seriatim box grants")
        cursor.execute(statement("revoke", schema), parameters)
        cursor.execute(statement("shut_out", schema), {"role": role})


def grants(connection: psycopg.Connection, schema: str) -> list[Grant]:
    """Who may do what, by role."""
    with connection.cursor(row_factory=class_row(Grant)) as cursor:
        return cursor.execute(statement("grants", schema)).fetchall()


def _is_let_in(cursor: psycopg.Cursor[tuple[bool]], schema: str, role: str) -> bool:
    """Whether a role may use the schema, though it may have no rights there."""
    return cursor.execute(statement("is_let_in", schema), {"role": role}).fetchall() == [(True,)]


def _named(connection: psycopg.Connection, schema: str, rights: Rights) -> dict[str, list[object]]:
    """The rights as columns: what may be done, and with which queue or location."""
    definitions = read_definitions(connection, schema)
    rows: list[tuple[str, int | None, str | None]] = [
        (may, definitions.queue(name).queue_id, None)
        for may, names in (("publish", rights.publish), ("receive", rights.receive), ("subscribe", rights.subscribe))
        for name in names
    ]
    if rights.route:
        rows.append(("route", None, None))
    rows += [("dispense", None, name) for name in rights.dispense]
    may, queue_ids, places = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    return {"may": may, "queue_ids": queue_ids, "locations": places}


def _check_locations(connection: psycopg.Connection, schema: str, names: Iterable[str]) -> None:
    known = {one.name for one, _ in locations(connection, schema)}
    for name in names:
        if name not in known:
            raise UsageError(
                f"there is no location {name!r}", remedy=likely(name, known) or f"box.define(Location({name!r}))"
            )
