"""Tokens of callers over HTTP: create, list and revoke them. Each has a role of the database, and rights on queues."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import errors, sql

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.known import read_definitions
from seriatim.errors import EnvironmentProblem, NotFound, UsageError, shown
from seriatim.kernel.values.time import micros
from seriatim.pipeline.text.storable import checked_text

#: How a token begins, so that tools which search for secrets find it; its random bytes.
_PREFIX, _BYTES = "sq_", 32
_LONGEST = 128


@dataclass(frozen=True, slots=True)
class Token:
    """A token, without its secret.

    Args:
        name: its name.
        role: the role of the database as which its requests run.
        publish: the queues that its requests may publish to, sorted.
        receive: the queues that its requests may receive from, sorted.
        server: the role of the server, which becomes its role in each transaction.
        created_at: when it was created.
        created_by: the role that created it.
        expires_at: when it becomes invalid; None: never.
    """

    name: str
    role: str
    publish: list[str]
    receive: list[str]
    server: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A valid token, as the server that looks at it knows it."""

    name: str
    role: str
    publish: list[str]
    receive: list[str]
    #: Whether its role has become the owner of the box, or a superuser.
    is_mighty: bool
    #: The id space of its role.
    id_space: str


def create(
    transaction: Transaction,
    name: str,
    *,
    role: str,
    publish: Iterable[str],
    receive: Iterable[str],
    expires: float | str | None,
    server: str | None,
) -> str:
    """Create a token, and return it: only its hash is kept."""
    for text, what in ((name, "a token's name"), (role, "a role's name"), (server, "a role's name")):
        if text is not None:
            checked_text(text, what)
    if len(name) > _LONGEST:
        raise UsageError(f"a token can't be named {shown(name, 80)}", remedy=f"at most {_LONGEST} characters")
    rights = {"publish": _queue_ids(transaction, publish), "receive": _queue_ids(transaction, receive)}
    if not any(rights.values()):
        raise UsageError("the token would have no right", remedy="name queues to publish to, or to receive from")
    expires_us = None if expires is None else micros(expires)
    if expires_us is not None and expires_us <= 0:
        raise UsageError(
            f"a token can't expire after {shown(expires)}", remedy="a time such as 90d", argument="expires"
        )
    facts = _let_become(transaction, role, server)
    token = _PREFIX + secrets.token_urlsafe(_BYTES)
    if not transaction.do(
        "create_token", name=name, hash_body=_hash(token), role=role, server=facts.server, expires_us=expires_us, **rights
    ):  # fmt: skip
        raise UsageError(f"there is a token {name!r} already", remedy="revoke it first, or choose another name")
    transaction.do("set_access", role=facts.server)
    return token


def revoke(transaction: Transaction, name: str) -> None:
    if not transaction.do("revoke_token", name=checked_text(name, "a token's name")):
        raise NotFound(f"there is no token {name!r}", remedy="seriatim token list")


def find(transaction: Transaction, token: str) -> KnownToken | None:
    return transaction.maybe("find_token", KnownToken, hash_body=_hash(token))


def _hash(token: str) -> bytes:
    """The digest of a token. A token is random, so nobody can guess it from a plain digest."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _queue_ids(transaction: Transaction, names: Iterable[str]) -> list[int]:
    definitions = read_definitions(transaction)
    return sorted({definitions.known_queue(checked_text(name, "a queue's name")).queue_id for name in names})


def _let_become(transaction: Transaction, role: str, server: str | None) -> Any:
    """See that the server's role may become the role of a token, and has none of its rights otherwise; return what is known of both."""
    facts = transaction.maybe("token_roles", role=role, server=server, schema=transaction.schema)
    if facts is None:
        missing = role if server is None else f"{role!r} or {server!r}"
        raise NotFound(f"there is no role {missing}", remedy="ask the administrator of PostgreSQL to CREATE ROLE")
    if facts.is_mighty:
        raise UsageError(
            f"the role {role!r} owns the message box, or is a superuser: a token could do everything",
            remedy="create a role of its own for the callers, and grant it rights: seriatim box grant ROLE",
        )
    if facts.is_fitting:
        return facts
    wanted = sql.SQL("GRANT {} TO {} WITH INHERIT FALSE, SET TRUE").format(
        sql.Identifier(role), sql.Identifier(facts.server)
    )
    try:
        with transaction.connection.transaction():
            transaction.connection.execute(wanted)
        facts = transaction.one("token_roles", role=role, server=server, schema=transaction.schema)
    except (errors.InsufficientPrivilege, errors.InvalidGrantOperation):
        pass
    if not facts.is_fitting:
        raise EnvironmentProblem(
            f"the server's role {facts.server!r} can't become {role!r} for a transaction, or has its rights at all times",
            remedy=f"ask the administrator of PostgreSQL for: {wanted.as_string(transaction.connection)}",
        )
    return facts
