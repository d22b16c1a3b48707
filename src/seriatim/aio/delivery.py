"""`AsyncDelivery`: messages that are handed out together; the receiver completes them or puts them back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

from seriatim.aio.face import Caller, counterpart
from seriatim.box.turns.delivery import Delivery
from seriatim.pipeline.types.message import Received

__all__ = ["AsyncDelivery"]

T = TypeVar("T")


class AsyncDelivery:
    """The asyncio face of a `Delivery`.

    Iterating to the end with ``async for``, or awaiting `done`, completes it. Otherwise the messages are put back when the
    session ends or receives again.

    Args:
        delivery: the delivery.
        call: has a function called in the session's thread.

    Attributes:
        sync: the delivery itself.
    """

    def __init__(self, delivery: Delivery, call: Caller) -> None:
        self.sync = delivery
        self._call = call

    async def _do(self, work: Callable[[Delivery], T]) -> T:
        return await self._call(lambda: work(self.sync))

    @property
    def queue(self) -> str:
        """The queue's name."""
        return self.sync.queue

    @property
    def group(self) -> str | None:
        """The group's key; None in a queue that is `Unordered`."""
        return self.sync.group

    @property
    def messages(self) -> Sequence[Received]:
        """The messages, in order."""
        return self.sync.messages

    @property
    def is_done(self) -> bool:
        """Whether all messages are completed."""
        return self.sync.is_done

    @property
    def is_open(self) -> bool:
        """Whether the delivery still has to be completed or put back."""
        return self.sync.is_open

    def __len__(self) -> int:
        return len(self.sync)

    async def __aiter__(self) -> AsyncIterator[Received]:
        causes = self.sync.causes
        for message in self.sync.messages:
            if causes is not None:
                causes.at_work = message
            yield message
        if causes is not None:
            causes.iterated()
        await self.done()

    done = counterpart(Delivery.done)
    done_through = counterpart(Delivery.done_through)
    put_back = counterpart(Delivery.put_back)
    postpone = counterpart(Delivery.postpone)
    dead_letter = counterpart(Delivery.dead_letter)

    def __repr__(self) -> str:
        return f"<AsyncDelivery of {len(self)} from {self.queue!r}, group {self.group!r}>"
