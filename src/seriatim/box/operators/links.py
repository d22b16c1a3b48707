"""Pairs of boxes: which role speaks as which box here, and the end of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.known import read_definitions
from seriatim.box.definitions.links import linked
from seriatim.box.operators.operator_log import Operator, log
from seriatim.errors import ActionRefused, UsageError, shown
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.section import likely

__all__ = ["accept", "remove"]


def accept(
    transaction: Transaction, by: Operator, name: str, role: str, box: str, queues: Sequence[str], *, replace: bool
) -> None:
    """Let a role speak as another box, into these queues.

    Raises:
        UsageError: a name or an id is invalid, or there is no such role or queue.
        ActionRefused: the link or the box has another role, and it isn't to be replaced.
    """
    checked_name(name, "a link's name")
    try:
        peer = UUID(str(box))
    except ValueError:
        raise UsageError(f"{shown(box)} is no id of a box", remedy="there: seriatim box status") from None
    known = read_definitions(transaction).queues
    for one in queues:
        if one not in known:
            raise UsageError(f"there is no queue {one!r}", remedy=likely(one, known) or "define it first")
        if known[one].serves:
            raise UsageError(
                f"queue {one!r} belongs to a service, whose messages come by dialogs", remedy="name another queue"
            )
    found = transaction.one("link_pair", name=name, peer=peer, role=role)
    _check_role(found, peer, role)
    _check_pair(found, peer, name, role, replace=replace)
    transaction.do("accept_link", name=name, peer=peer, role=role, queues=list(dict.fromkeys(queues)))
    transaction.do("link_let_in", who=role)
    if found.role is not None and found.role != role:
        transaction.do("link_shut_out", who=found.role)
    details = {"link": name, "box": str(peer), "role": role, "former_role": found.role, "queues": list(queues)}
    log(transaction, by, "accept link", queue=None, group=None, details=details)


def _check_role(found: Any, peer: UUID, role: str) -> None:
    if peer == found.own:
        raise UsageError("that is the id of this box itself", remedy="give the id of the other box")
    if not found.role_is_there:
        raise UsageError(
            f"there is no role {role!r}", remedy="ask the administrator of PostgreSQL to CREATE ROLE … LOGIN"
        )
    if found.role_owns:
        raise UsageError(
            f"the role {role!r} is the owner of the box, which may do everything",
            remedy="a link's role may do nothing else: create one",
        )


def _check_pair(found: Any, peer: UUID, name: str, role: str, *, replace: bool) -> None:
    if found.other_link is not None:
        raise ActionRefused(
            f"the box {peer} is the other end of link {found.other_link!r}",
            remedy=f"seriatim link remove {found.other_link}",
        )
    if found.peer is not None and found.peer != peer:
        raise ActionRefused(
            f"link {name!r} leads to the box {found.peer}",
            remedy="give this one another name, or remove that one first",
        )
    if found.role is not None and found.role != role and not replace:
        raise ActionRefused(
            f"the box {peer} speaks by the role {found.role!r}",
            remedy="from now on by this one: seriatim link accept --replace",
        )


def remove(transaction: Transaction, by: Operator, name: str, *, force: bool) -> int:
    """Forget a link with its streams; returns how many messages that were on their way are gone.

    Raises:
        UsageError: there is no such link.
        ActionRefused: queues lead over it; or messages wait, and it isn't forced.
    """
    transaction.do("lock_definitions")
    known = linked(transaction)
    if name not in known:
        raise UsageError(f"there is no link {shown(name)}", remedy=likely(name, known) or "seriatim link status")
    queues, waiting = transaction.one("link_use", name=name)
    if queues:
        raise ActionRefused(f"queues lead over link {name!r}: {', '.join(queues[:5])}", remedy="drop them first")
    if waiting and not force:
        raise ActionRefused(
            f"messages wait on link {name!r}: {waiting:,}",
            remedy="wait until they are acknowledged; or --force, and they are gone",
        )
    role = transaction.one("link_pair", name=name, peer=None, role="").role
    transaction.do("drop_link", name=name)
    if role is not None:
        transaction.do("link_shut_out", who=role)
    log(transaction, by, "remove link", queue=None, group=None, details={"link": name, "messages": waiting})
    return int(waiting)
