"""`AsyncDelivery`: messages that are handed out together; the receiver completes them or puts them back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from seriatim.aio.face import OfRun, counterpart
from seriatim.box.turns.delivery import Delivery
from seriatim.pipeline.types.message import Received


class AsyncDelivery(OfRun[Delivery]):
    """The asyncio face of a `Delivery`.

    Iterating to the end with ``async for``, or awaiting `done`, completes it. Otherwise the messages are put back when the
    session ends or receives again.
    """

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
