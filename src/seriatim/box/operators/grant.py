"""Grant and revoke the rights of database roles on queues, locations and services. PostgreSQL enforces them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.drop import locations
from seriatim.box.definitions.known import read_definitions
from seriatim.errors import NotFound, UsageError, shown
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.text.storable import checked_text, fits_text

#: Characters of an id space.
_LONGEST = 128

#: The rights that are lists of names, and of what.
_QUEUES = ("publish", "receive", "subscribe", "see", "see_bodies", "operate")
_LISTS = dict.fromkeys(_QUEUES, "queue") | {"dispense": "location", "types": "type", "send": "service"}


@dataclass(frozen=True, slots=True)
class Rights:
    publish: Iterable[str] = ()
    receive: Iterable[str] = ()
    subscribe: Iterable[str] = ()
    #: Whether it may route other roles' messages that were published through SQL; it can read them.
    route: bool = False
    dispense: Iterable[str] = ()
    #: The types of messages that its subscriptions may match.
    types: Iterable[str] = ()
    #: The queues that it may look at: groups, messages without their bodies and properties, traces, faults.
    see: Iterable[str] = ()
    see_bodies: Iterable[str] = ()
    #: The queues whose groups it may mend, and look at.
    operate: Iterable[str] = ()
    #: The services of other boxes to which it may send in dialogs.
    send: Iterable[str] = ()

    def __post_init__(self) -> None:
        for name, what in _LISTS.items():
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise UsageError(
                    f"{shown(given)} is no list of {what}s", where=name, remedy="give a list of their names"
                )
            check = checked_name if what == "type" else checked_text
            names = [check(one, f"a {what}'s name") for one in given]
            object.__setattr__(self, name, tuple(dict.fromkeys(names)))

    def __bool__(self) -> bool:
        return self.route or any(getattr(self, name) for name in _LISTS)


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a role in a box.

    Args:
        role: its name.
        publish: the names of the queues that it may publish to, sorted.
        receive: the names of the queues that it may receive from, sorted.
        subscribe: the names of the queues to which its subscriptions may lead, sorted.
        route: whether it may route other roles' messages that were published through SQL.
        dispense: the locations whose numbers it may take, sorted.
        types: the types of messages that its subscriptions may match, sorted.
        id_space: the id space of its published messages; ``""`` is the owner's.
        see: the queues that it may look at, sorted.
        see_bodies: the queues whose messages it may see whole, sorted.
        operate: the queues whose groups it may mend, sorted.
        send: the services of other boxes to which it may send, sorted.
    """

    role: str
    publish: list[str]
    receive: list[str]
    subscribe: list[str]
    route: bool
    dispense: list[str]
    types: list[str]
    id_space: str
    see: list[str]
    see_bodies: list[str]
    operate: list[str]
    send: list[str]


def grant(transaction: Transaction, role: str, rights: Rights, id_space: str | None = None) -> None:
    if not rights and id_space is None:
        raise UsageError(
            "no right is named",
            remedy="name queues to publish to, receive from, subscribe for, see or operate on, locations to dispense tickets of, or "
            "services of other boxes to send to",
        )
    checked_text(role, "a role's name")
    if id_space is not None and (not isinstance(id_space, str) or not fits_text(id_space) or len(id_space) > _LONGEST):
        raise UsageError(f"{shown(id_space)} is no id space", remedy=f"at most {_LONGEST} characters, without NUL")
    if "/" in (role if id_space is None else id_space):
        raise UsageError(
            f"the id space {shown(role if id_space is None else id_space)} has a slash, which separates the parts of a space",
            remedy="say which the role has: grant(box, …, id_space=…), or --id-space",
        )
    if rights.types:
        transaction.do("lock_definitions")
    named = _named(transaction, rights)
    _check_locations(transaction, rights.dispense)
    _check_services(transaction, rights.send)
    transaction.do("grant", role=role, **named)
    if not transaction.do("set_access", role=role):  # a role that isn't there got nothing
        raise NotFound(
            f"there is no role {role!r}", remedy="ask the administrator of PostgreSQL to CREATE ROLE … LOGIN"
        )
    if id_space is None and (others := transaction.rows("id_space_taken", role=role)):
        raise UsageError(
            f"the id space {role!r} is that of the role {others[0].role!r}",
            remedy="say which the role has: grant(box, …, id_space=…), or --id-space",
        )
    transaction.do("give_id_space", role=role, id_space=id_space)
    if rights.types:
        _record(transaction, f"granted types to role {role}")


def revoke(transaction: Transaction, role: str, rights: Rights) -> None:
    """Revoke rights of a role; all of them if none is named. From now on its subscriptions match only its remaining types."""
    transaction.do("lock_definitions")
    named = _named(transaction, rights)
    has_rights = role in {one.role for one in grants(transaction)}
    if not has_rights and (rights or transaction.rows("is_let_in", role=role) != [(True,)]):
        raise UsageError(f"the role {role!r} has no rights in this box", remedy="seriatim box grants")
    transaction.do("revoke", role=role, all_of_them=not rights, **named)
    transaction.do("set_access", role=role)
    if rights.types or not rights:
        _record(transaction, f"revoked types from role {role}")


def grants(transaction: Transaction) -> list[Grant]:
    return transaction.rows("grants", Grant)


def _named(transaction: Transaction, rights: Rights) -> dict[str, list[object]]:
    """The rights as columns: the right, and its queue or location."""
    definitions = read_definitions(transaction)
    rows: list[tuple[str, int | None, str | None, str | None]] = [
        (may, definitions.known_queue(name).queue_id, None, None) for may in _QUEUES for name in getattr(rights, may)
    ]
    if rights.route:
        rows.append(("route", None, None, None))
    rows += [("dispense", None, name, None) for name in rights.dispense]
    rows += [("send", None, None, name) for name in rights.send]
    columns: list[list[object]] = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return {
        **dict(zip(("may", "queue_ids", "locations", "services"), columns, strict=True)),
        "types": list(rights.types),
    }


def _check_locations(transaction: Transaction, names: Iterable[str]) -> None:
    known = {one.name for one, _ in locations(transaction)}
    for name in names:
        if name not in known:
            raise NotFound(
                f"there is no location {name!r}", remedy=likely(name, known) or f"box.define(Location({name!r}))"
            )


def _check_services(transaction: Transaction, names: Iterable[str]) -> None:
    if not names:
        return
    known = {one.service for one in transaction.rows("services_elsewhere")}
    for name in names:
        if name not in known:
            raise NotFound(
                f"there is no service {name!r} of another box",
                remedy=likely(name, known)
                or "for a service of this box, grant publish for its queue; for another: box.define(Service(…, at=…))",
            )


def _record(transaction: Transaction, what: str) -> None:
    """Record a new version of the definitions, because the messages that a subscription may match have changed."""
    transaction.do("record_change", changed=what)
