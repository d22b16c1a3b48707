"""`AsyncTakenLease`: a lease on a run of one group, as coroutines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Protocol, TypeVar
from uuid import UUID

from seriatim.aio.face import counterpart
from seriatim.box.leases.taken import LeasedMessage, TakenLease

__all__ = ["AsyncTakenLease"]

T = TypeVar("T")


class _Caller(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Have a function called in a thread."""


class AsyncTakenLease:
    """The asyncio face of a `TakenLease`: its calls as coroutines, each in a thread and a connection of its own.

    Args:
        lease: the lease.
        call: has a function called in a thread.

    Attributes:
        sync: the lease itself.
    """

    def __init__(self, lease: TakenLease, call: _Caller) -> None:
        self.sync = lease
        self._call = call

    async def _do(self, work: Callable[[TakenLease], T]) -> T:
        return await self._call(lambda: work(self.sync))

    @property
    def id(self) -> UUID:
        """Its id."""
        return self.sync.id

    @property
    def token(self) -> int:
        """Its fencing token."""
        return self.sync.token

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.sync.queue

    @property
    def group(self) -> str | None:
        """The group's key; None in a queue that is `Unordered`."""
        return self.sync.group

    @property
    def messages(self) -> Sequence[LeasedMessage]:
        """The messages, in order."""
        return self.sync.messages

    @property
    def done(self) -> int:
        """The number of messages that are done, as far as this object knows."""
        return self.sync.done

    @property
    def until(self) -> datetime | None:
        """When it runs out, unless it is renewed."""
        return self.sync.until

    def __len__(self) -> int:
        return len(self.sync)

    read = counterpart(TakenLease.read)
    complete = counterpart(TakenLease.complete)
    fail = counterpart(TakenLease.fail)
    postpone = counterpart(TakenLease.postpone)
    dead_letter = counterpart(TakenLease.dead_letter)
    renew = counterpart(TakenLease.renew)
    give_back = counterpart(TakenLease.give_back)

    def __repr__(self) -> str:
        return f"<AsyncTakenLease {self.id} of {len(self)} from {self.queue!r}, group {self.group!r}>"
