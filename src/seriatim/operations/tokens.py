"""The tokens of callers over HTTP: create, list, revoke."""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.box import MessageBox
from seriatim.box.operators import tokens as operators
from seriatim.box.operators.tokens import Token

__all__ = ["Token", "create_token", "revoke_token", "tokens"]


def create_token(
    box: MessageBox,
    name: str,
    *,
    role: str,
    publish: Iterable[str] = (),
    receive: Iterable[str] = (),
    expires: float | str | None = None,
    server: str | None = None,
) -> str:
    """Create a token for callers over HTTP. Only the box's owner may call it.

    Args:
        box: the box.
        name: a name for the token.
        role: the role of the database as which the requests run. Its own rights hold, too: see `grant`.
        publish: queues that requests may publish to.
        receive: queues that requests may receive from.
        expires: seconds (or ``"90d"``) until it becomes invalid; None: never.
        server: the role with which ``seriatim serve --http`` connects; None: the role of this call. It is made a member of `role`
            that may become it (``SET TRUE``), and doesn't inherit its rights (``INHERIT FALSE``).

    Returns:
        the token. The box keeps only its SHA-256: nobody can read it again.

    Raises:
        NotFound: there is no such role or queue.
        UsageError: no right is named, there is a token of this name, or the role is the owner of the box or a superuser.
        EnvironmentProblem: the caller isn't the owner of the box, or may not make `server` a member of `role`; the remedy has the
            statement for PostgreSQL's administrator.
    """
    with box.access.transaction() as transaction:
        return operators.create(
            transaction, name, role=role, publish=publish, receive=receive, expires=expires, server=server
        )


def revoke_token(box: MessageBox, name: str) -> None:
    """Make a token invalid, also for callers that wait. Only the box's owner may call it.

    Raises:
        NotFound: there is no such token.
    """
    box.access.within(operators.revoke, name)


def tokens(box: MessageBox) -> list[Token]:
    """All tokens, by name, without their secrets. Only the box's owner may call it."""
    return box.access.within(lambda transaction: transaction.rows("tokens", Token))
