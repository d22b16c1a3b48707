"""The bodies of a delivery, for a holder that must not have all of them in memory: few bytes at once, and no large body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from seriatim.box.connection.access import Transaction
from seriatim.box.messages.received import LEFT_OUT
from seriatim.pipeline.types.message import Received

AnyReceived = TypeVar("AnyReceived", bound=Received)
#: Bodies of at most this size come with their messages, bytes: those of 1,000 messages have 8 MiB together.
_AT_ONCE = 8192


@dataclass(frozen=True, slots=True)
class Bodies:
    """Which bodies of a delivery are read.

    Args:
        largest: a larger one isn't, bytes.
        most: what they have together, bytes, unless the first one alone has more.
    """

    largest: int
    most: int

    def leave(self, transaction: Transaction) -> None:
        """Let a transaction that hasn't begun hand messages out without all that `read` brings."""
        transaction.leave_bodies(_AT_ONCE)

    def read(
        self,
        transaction: Transaction,
        queue_id: int,
        entry_ids: Sequence[int],
        messages: Sequence[AnyReceived],
        most: int,
    ) -> tuple[Sequence[AnyReceived], list[int]]:
        """Messages that were handed out, with their bodies, of which those that aren't read stay out; and the sizes of all bodies."""
        sizes = [len(one.body) for one in messages]
        # A body that an operator has edited comes in any size.
        found = [replace(one, body=LEFT_OUT) if len(one.body) > self.largest else one for one in messages]
        if any(one.body is LEFT_OUT for one in messages):
            named = {"of_queue": queue_id, "of_entries": list(entry_ids), "largest": self.largest}
            rows = transaction.rows("bodies_of", **named, most=min(most, self.most))
            for at, (one, (size, body)) in enumerate(zip(messages, rows, strict=True)):
                if one.body is LEFT_OUT:
                    sizes[at] = size
                    found[at] = one if body is None else replace(one, body=body)
        return found, sizes
