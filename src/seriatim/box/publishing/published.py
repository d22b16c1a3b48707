"""`Published`, the result of publishing: the ids of the messages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Published"]


class Published(list[str]):
    """The ids of the published messages, in the order of the call.

    Args:
        ids: the ids.
        left_out: the ids of messages that were left out.

    Attributes:
        left_out: the ids of messages that were left out, in order. Their ids were published before in the publisher's id space,
            or are repeated in the call.
    """

    __slots__ = ("left_out",)

    def __init__(self, ids: Iterable[str] = (), left_out: Iterable[str] = ()) -> None:
        super().__init__(ids)
        self.left_out = list(left_out)
