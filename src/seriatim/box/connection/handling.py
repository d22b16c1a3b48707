"""Whether the present thread, or task, runs a handler of a worker: then nothing may wait for what another transaction does."""

from __future__ import annotations

from contextvars import ContextVar

#: Set while a handler runs; a handler's coroutine and the threads that it begins by asyncio inherit it.
HANDLING: ContextVar[bool] = ContextVar("seriatim_handling", default=False)


def is_handling() -> bool:
    return HANDLING.get()
