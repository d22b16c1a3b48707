"""`Opening`: opens a box when it is awaited, or entered with ``async with``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from seriatim.box.connection.with_block import OnlyAsyncWith
from seriatim.errors import UsageError

Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])


class Opening(OnlyAsyncWith, Generic[Opened]):
    """A box that isn't open yet."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._open = open_
        self._opened: Opened | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            # Other code asks any object for its own names, and expects an AttributeError.
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UsageError(
                "the message box isn't open",
                remedy="await AsyncMessageBox.open(…), or async with AsyncMessageBox.open(…) as box",
            )

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._open().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)
