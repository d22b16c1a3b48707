"""Calls that fail whatever the data are: in a forked process, in a handler that has to wait, in a ``with`` of the wrong kind."""

from __future__ import annotations

import os
from contextvars import ContextVar
from typing import TYPE_CHECKING

from seriatim.errors import UsageError


class Misuse(UsageError):
    """The calling code is wrong, and the same call fails again. As a fault of a handler it is never retried."""


def check_process(made_in: int) -> None:
    """Check that a session, a delivery or a connection is used in the process that made it."""
    if os.getpid() != made_in:
        raise UsageError(
            "the session was begun before this process was forked", remedy="begin one here: with box.session() as tx: …"
        )


#: Set while a handler of a worker runs: then nothing may wait for what another transaction does. A handler's coroutine and the threads
#: that it begins by asyncio inherit it.
HANDLING: ContextVar[bool] = ContextVar("seriatim_handling", default=False)


class OnlyWith:
    """Refuses ``async with`` by a clear error, in place of Python's TypeError. Type checkers don't see the methods."""

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
