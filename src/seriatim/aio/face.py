"""The asyncio counterpart of a method: a coroutine function with the same parameters, made of the method itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["Caller", "Face", "counterpart"]

P = ParamSpec("P")
T = TypeVar("T")
Of = TypeVar("Of")
Of_co = TypeVar("Of_co", covariant=True)


class Caller(Protocol):
    """Has a function called in a thread."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Call it; its exception passes through."""


class Face(Protocol[Of_co]):
    """The asyncio face of an object: it has functions of the object called in a thread."""

    async def _do(self, work: Callable[[Of_co], T]) -> T:
        """Call a function with the object, in a thread."""


def counterpart(method: Callable[Concatenate[Of, P], T]) -> Callable[Concatenate[Face[Of], P], Coroutine[Any, Any, T]]:
    """A coroutine function that calls `method` in a thread: its parameters, its result, its errors, its docstring."""

    @functools.wraps(method)
    async def call(self: Face[Of], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._do(lambda of: method(of, *args, **kwargs))

    return call
