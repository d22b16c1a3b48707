"""The rights of database roles on a box: grant, revoke, list."""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.box import MessageBox
from seriatim.box.operators import grant as operators
from seriatim.box.operators.grant import Grant, Rights

__all__ = ["Grant", "grant", "grants", "revoke"]


def grant(
    box: MessageBox,
    role: str,
    *,
    publish: Iterable[str] = (),
    receive: Iterable[str] = (),
    subscribe: Iterable[str] = (),
    route: bool = False,
    dispense: Iterable[str] = (),
    types: Iterable[str] = (),
    see: Iterable[str] = (),
    see_bodies: Iterable[str] = (),
    operate: Iterable[str] = (),
    send: Iterable[str] = (),
    id_space: str | None = None,
) -> None:
    """Grant a PostgreSQL role more rights on this box. Only the box's owner may call it.

    Args:
        box: the box.
        role: the name of an existing role.
        publish: queues that it may publish to.
        receive: queues that it may receive from.
        subscribe: queues to which its subscriptions may lead.
        route: whether it may route other roles' messages that were published through SQL. It can then read them.
        dispense: locations whose numbers it may take. It can then block their publishers, and use up their numbers.
        types: message types that its subscriptions may match, also its existing subscriptions.
        see: queues that it may look at: counts, groups, faults, traces, and messages without their bodies and properties.
        see_bodies: queues that it may look at, with the messages' bodies and properties.
        operate: queues that it may look at, and whose groups it may mend: retry, skip, suspend, resume and so on. With
            `see_bodies` it may also edit the body and the properties of a failed message.
        send: services of other boxes to which it may send in dialogs.
        id_space: the id space of the messages that it publishes. A message is left out if its id was published before in
            its id space, by any role. None: unchanged, at first the role's name. ``""``: the owner's id space.

    Raises:
        UsageError: there is no such role, queue, location or service elsewhere; no right is named; a text is given in place of a
            list; the id space is invalid; or none is named and another role has the id space of this name.
        EnvironmentProblem: the caller isn't the owner of the box.
    """
    rights = Rights(publish, receive, subscribe, route, dispense, types, see, see_bodies, operate, send)
    box.access.within(operators.grant, role, rights, id_space)


def revoke(
    box: MessageBox,
    role: str,
    *,
    publish: Iterable[str] = (),
    receive: Iterable[str] = (),
    subscribe: Iterable[str] = (),
    route: bool = False,
    dispense: Iterable[str] = (),
    types: Iterable[str] = (),
    see: Iterable[str] = (),
    see_bodies: Iterable[str] = (),
    operate: Iterable[str] = (),
    send: Iterable[str] = (),
) -> None:
    """Revoke rights of a role; if no right is named: all rights and the id space. For the arguments, see `grant`.

    The role's subscriptions stay. From now on they match only message types that the role still has.

    Raises:
        UsageError: the role has no rights, there is no such queue, or a text is given in place of a list.
        EnvironmentProblem: the caller isn't the owner of the box.
    """
    rights = Rights(publish, receive, subscribe, route, dispense, types, see, see_bodies, operate, send)
    box.access.within(operators.revoke, role, rights)


def grants(box: MessageBox) -> list[Grant]:
    """The roles with rights on this box, by name. Only the box's owner may call it."""
    return box.access.within(operators.grants)
