"""Callers: who a token says they are, what they may do, and the box as their role sees it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Literal

from seriatim.aio.message_box import AsyncMessageBox
from seriatim.box.box import MessageBox
from seriatim.box.operators.tokens import KnownToken, find
from seriatim.box.publishing.publish_result import Published
from seriatim.http.problems import Problem
from seriatim.listening.threads import Busy

#: For this time a token isn't looked at again; one that was revoked is known for that long, but receives nothing. Seconds.
_FRESH_S = 1.0
#: Tokens that a process remembers; strangers' tokens that wait to be looked at.
_MOST, _STRANGERS = 10_000, 32
_LONGEST = 512
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="seriatim"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request. `secret`: the token itself."""

    token: KnownToken
    secret: str
    box: AsyncMessageBox

    def check(self, right: Literal["publish", "receive"], queue: str | None = None) -> None:
        """Refuse a token that lacks a right for a queue, or for every queue."""
        granted = getattr(self.token, right)
        if queue not in granted if queue is not None else not granted:
            place = "any queue" if queue is None else f"the queue {queue!r}"
            verb = "publish to" if right == "publish" else "receive from"
            raise Problem(
                403, f"the token {self.token.name!r} may not {verb} {place}", code="environment",
                remedy="the owner of the box can create another one: seriatim token create NAME",
            )  # fmt: skip

    def check_published(self, published: Published) -> None:
        """Refuse messages that went to a queue to which the token may not publish."""
        for queue in sorted(published.directed()):
            self.check("publish", queue)


class Callers:
    def __init__(self, box: AsyncMessageBox) -> None:
        self._box = box
        self._known: dict[str, tuple[KnownToken, float]] = {}
        self._boxes: dict[str, AsyncMessageBox] = {}
        self._looks: dict[str, asyncio.Future[Caller]] = {}
        #: So that strangers keep nobody out whose token was valid a moment ago: one of them at a time, and a few wait.
        self._trying, self._strangers = asyncio.Semaphore(1), 0

    async def of(self, authorization: str | None) -> Caller:
        kind, _, secret = (authorization or "").partition(" ")
        secret = secret.strip()
        if kind.lower() != "bearer" or not secret or len(secret) > _LONGEST or not secret.isascii():
            raise Problem(
                401, "a token is missing", remedy="Authorization: Bearer TOKEN", code="token", headers=_CHALLENGE
            )
        found = self._known.get(secret)
        if found is not None and found[1] > time.monotonic():
            return self._caller(found[0], secret)
        if (look := self._looks.get(secret)) is None:  # requests with one token share a look at it
            look = self._looks[secret] = asyncio.ensure_future(self._looked(secret))
            look.add_done_callback(lambda done: self._forget(secret, done))
        return await asyncio.shield(look)

    def _forget(self, secret: str, done: asyncio.Future[Caller]) -> None:
        """A look has ended. Its error is taken here, too: those who waited for it may have gone."""
        del self._looks[secret]
        if not done.cancelled():
            done.exception()

    async def _looked(self, secret: str) -> Caller:
        token = await (self._box.run(_found, secret) if secret in self._known else self._tried(secret))
        if token is None:
            self._known.pop(secret, None)
            raise Problem(401, "the token isn't valid, or not any more", code="token", headers=_CHALLENGE)
        if token.is_mighty:
            raise Problem(
                403, f"the role of the token {token.name!r} has become the owner of the box, or a superuser", code="token",
                remedy="create a token for another role",
            )  # fmt: skip
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[secret] = token, time.monotonic() + _FRESH_S
        return self._caller(token, secret)

    async def _tried(self, secret: str) -> KnownToken | None:
        """Look at a stranger's token."""
        if self._strangers >= _STRANGERS:
            raise Busy
        self._strangers += 1
        try:
            async with self._trying:
                return await self._box.run(_found, secret)
        finally:
            self._strangers -= 1

    def _caller(self, token: KnownToken, secret: str) -> Caller:
        if (box := self._boxes.get(token.role)) is None:
            box = self._boxes[token.role] = self._box.as_role(token.role)
        return Caller(token, secret, box)

    async def close(self) -> None:
        for box in self._boxes.values():
            await box.close()


def _found(box: MessageBox, secret: str) -> KnownToken | None:
    return box.access.within(find, secret)
