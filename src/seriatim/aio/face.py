"""The asyncio counterpart of a method: a coroutine function with the same parameters, made of the method itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Of = TypeVar("Of")
Of_co = TypeVar("Of_co", covariant=True)


class Caller(Protocol):
    """Has a function called in a thread."""

    async def __call__(self, work: Callable[[], T], /) -> T:
        """Call it; its exception passes through."""


class _Run(Protocol):
    @property
    def queue(self) -> str: ...

    @property
    def group(self) -> str | None: ...
    def __len__(self) -> int: ...


Run = TypeVar("Run", bound=_Run)


class OfRun(Generic[Run]):
    """The asyncio face of messages that are handed out together.

    Args:
        run: a `Delivery`, or a `TakenLease`.
        call: has a function called in a thread.

    Attributes:
        sync: the same.
    """

    def __init__(self, run: Run, call: Caller) -> None:
        self.sync = run
        self._call = call

    async def _do(self, work: Callable[[Run], T]) -> T:
        return await self._call(lambda: work(self.sync))

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.sync.queue

    @property
    def group(self) -> str | None:
        """The group's key; None in a queue that is `Unordered`."""
        return self.sync.group

    def __len__(self) -> int:
        return len(self.sync)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} from {self.queue!r}, group {self.group!r}>"


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
