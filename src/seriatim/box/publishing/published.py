"""What a publisher is answered."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Published"]


class Published(list[str]):
    """The ids of the messages that were given, in that order.

    Args:
        ids: the ids.
        left_out: those of messages that were not taken in.

    Attributes:
        left_out: an id for each message that was left out, in order, because one of that id was published before in the id
            space of the publisher, or comes earlier in the same call.
    """

    __slots__ = ("left_out",)

    def __init__(self, ids: Iterable[str] = (), left_out: Iterable[str] = ()) -> None:
        super().__init__(ids)
        self.left_out = list(left_out)
