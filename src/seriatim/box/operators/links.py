"""Pairs of boxes: who speaks as which box here, and the end of a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.known import read_definitions
from seriatim.box.definitions.links import drop, linked
from seriatim.box.operators.operator_log import Operator, log
from seriatim.errors import ActionRefused, NotFound, UsageError, shown
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.section import likely


@dataclass(frozen=True, slots=True)
class Principal:
    """The principal that speaks as another box: a role of PostgreSQL, or the holder of the private key of a certificate."""

    role: str | None = None
    #: The SHA-256 of the public key; None: it is a role.
    public_key: bytes | None = None

    def __str__(self) -> str:
        return f"the role {self.role!r}" if self.public_key is None else f"the key {self.public_key.hex()[:16]}…"


@dataclass(frozen=True, slots=True)
class Admission:
    """What another box may do here: send into queues, speak as its services, ask what became of its messages."""

    queues: Sequence[str]
    services: Sequence[str]
    trace: bool


def accept(
    transaction: Transaction, by: Operator, name: str, principal: Principal, box: str, may: Admission, *, replace: bool
) -> None:
    checked_name(name, "a link's name")
    try:
        peer = UUID(str(box))
    except ValueError:
        raise UsageError(f"{shown(box)} is no id of a box", remedy="there: seriatim box status") from None
    _check_admission(read_definitions(transaction), may)
    transaction.do("lock_definitions")
    role, key = principal.role, principal.public_key
    found = transaction.one("link_pair", name=name, peer=peer, role=role, public_key=key)
    if peer == found.own:
        raise UsageError("that is the id of this box itself", remedy="give the id of the other box")
    if role is not None:
        _check_role(found, role)
    former = Principal(found.role, found.public_key)
    _check_pair(found, peer, name, principal, former, replace=replace)
    transaction.do(
        "accept_link",
        name=name,
        peer=peer,
        role=role,
        public_key=key,
        queues=list(dict.fromkeys(may.queues)),
        services=list(dict.fromkeys(may.services)),
        traces=may.trace,
    )
    transaction.do("link_believe", of_name=name)
    for one in {role, former.role} - {None}:
        transaction.do("set_access", role=one)
    details = {
        "link": name,
        "box": str(peer),
        "role": role,
        "former_role": former.role,
        "public_key": _digits(key),
        "former_public_key": _digits(former.public_key),
        "queues": list(may.queues),
        "services": list(may.services),
        "trace": may.trace,
    }
    log(transaction, by, "accept link", queue=None, group=None, details=details)


def _check_admission(definitions: Definitions, may: Admission) -> None:
    known = definitions.queues
    for one in may.queues:
        if one not in known:
            raise NotFound(f"there is no queue {one!r}", remedy=likely(one, known) or "define it first")
        if known[one].serves:
            raise UsageError(
                f"queue {one!r} belongs to a service, whose messages come by dialogs", remedy="name another queue"
            )
    for service in may.services:
        checked_name(service, "a service's name")
        if service in definitions.services and definitions.services[service].queue is not None:
            raise UsageError(f"the service {service!r} is this box's own", remedy="name a service of the other box")


def _digits(key: bytes | None) -> str | None:
    return None if key is None else key.hex()


def _check_role(found: Any, role: str) -> None:
    if not found.role_is_there:
        raise NotFound(
            f"there is no role {role!r}", remedy="ask the administrator of PostgreSQL to CREATE ROLE … LOGIN"
        )
    if found.role_owns:
        raise UsageError(
            f"the role {role!r} is the owner of the box, which may do everything",
            remedy="a link's role may do nothing else: create one",
        )


def _check_pair(found: Any, peer: UUID, name: str, principal: Principal, former: Principal, *, replace: bool) -> None:
    if found.other_link is not None:
        raise ActionRefused(
            f"the box {peer} is the other end of link {found.other_link!r}",
            remedy=command("link", "remove", found.other_link),
        )
    if found.peer is not None and found.peer != peer:
        raise ActionRefused(
            f"link {name!r} leads to the box {found.peer}",
            remedy="give this one another name, or remove that one first",
        )
    if found.its_link is not None:
        raise ActionRefused(
            f"{principal} speaks as another box, over link {found.its_link!r}",
            remedy="each box has a role or a key of its own: make one for this one",
        )
    if former != Principal() and former != principal and not replace:
        raise ActionRefused(
            f"the box {peer} speaks by {former}",
            remedy="from now on by this one: link accept once more, with --replace",
        )


def remove(transaction: Transaction, by: Operator, name: str, *, force: bool) -> int:
    """Forget a link as `drop` does; a role that spoke over it may do so no more."""
    transaction.do("lock_definitions")
    known = linked(transaction)
    if name not in known:
        raise NotFound(f"there is no link {shown(name)}", remedy=likely(name, known) or "seriatim link status")
    role = transaction.one("link_pair", name=name, peer=None, role=None, public_key=None).role
    gone = drop(transaction, name, force=force)
    transaction.do("set_access", role=role)
    log(transaction, by, "remove link", queue=None, group=None, details={"link": name, "messages": gone})
    return gone
