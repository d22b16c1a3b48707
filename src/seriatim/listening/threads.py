"""Threads for work that takes long: a few with a bounded queue before them, or one whose answer all share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from anyio import CapacityLimiter, to_thread

T = TypeVar("T")


class Busy(Exception):
    """Too many calls wait already: come again in a moment."""


class Threads:
    """Calls functions in threads, a limited number at once."""

    def __init__(self, most: int, waiting: int) -> None:
        self._limiter, self._room, self._in_hand = CapacityLimiter(most), most + waiting, 0

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in a thread, and wait for it; its errors pass through."""
        if self._in_hand >= self._room:
            raise Busy
        self._in_hand += 1
        try:
            return await to_thread.run_sync(function, *args, limiter=self._limiter)
        finally:
            self._in_hand -= 1


class Shared(Generic[T]):
    """A function that is called in a separate thread, once at a time: callers during a call share its answer, so that no caller can keep
    others from it.
    """

    def __init__(self, function: Callable[[], T]) -> None:
        self._function, self._limiter = function, CapacityLimiter(1)
        self._call: asyncio.Future[T] | None = None

    async def get(self) -> T:
        """Its answer; its errors pass through."""
        if self._call is None or self._call.done():
            self._call = asyncio.ensure_future(to_thread.run_sync(self._function, limiter=self._limiter))
        return await asyncio.shield(self._call)
