"""Answers over HTTP, and the room that their bodies take in memory."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from seriatim.http.problems import Problem

#: How long a request waits for room, seconds.
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    #: Or its pieces, of `size` bytes together.
    content: bytes | AsyncIterator[bytes] = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    size: int = 0


def json_answer(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, as_json(value).encode(errors="replace"), headers=headers or {})


def as_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=datetime.isoformat)


class Room:
    """The bytes that requests and answers take in memory together; who finds no room waits, first come, first served."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int) -> None:
        if not self._waiting and size <= self._free:
            self._free -= size
            return
        ticket: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, ticket))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await ticket
        except BaseException as error:
            if ticket.done() and not ticket.cancelled():
                self.give_back(size)
            else:
                with suppress(ValueError):
                    self._waiting.remove((size, ticket))
                self._hand_on()
            if isinstance(error, TimeoutError):
                raise Problem(503, "too many large requests are in hand", headers={"Retry-After": "1"}) from None
            raise

    async def has(self, size: int) -> None:
        """Wait until there is room of a size."""
        await self.take(size)
        self.give_back(size)

    def give_back(self, size: int) -> None:
        self._free += size
        self._hand_on()

    def _hand_on(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._free:
            size, ticket = self._waiting.popleft()
            if not ticket.done():
                self._free -= size
                ticket.set_result(None)
