"""A ``with`` of the wrong kind is refused with a clear error, in place of Python's TypeError. Type checkers don't see these methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.errors import UsageError


class OnlyWith:
    __slots__ = ()

    if not TYPE_CHECKING:

        def __aenter__(self) -> None:
            raise UsageError(
                f"`async with` needs the asyncio face, and this is a {type(self).__name__}",
                remedy="async with sq.AsyncMessageBox.open() as box: …, or sq.AsyncMessageBox(box) of an open box",
            )

        __aexit__ = __aenter__


class OnlyAsyncWith:
    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> None:
            raise UsageError(
                f"`with` can't enter the asyncio face, and this is a {type(self).__name__}", remedy="write `async with`"
            )

        __exit__ = __enter__
