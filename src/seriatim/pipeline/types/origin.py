"""`Origin`: the place at a gate that a message has, as the message carries it.

Only sessions write these properties, into what they publish while they work on a message that is on the way to a gate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

#: The properties of an origin, with their types.
ORIGIN: Mapping[str, str] = {
    "origin_queue": "string",
    "origin_group": "string",
    "origin_incarnation": "long",
    "origin_ordinal": "long",
}


class Origin(NamedTuple):
    """The message from which others result: a place at the gate of its queue."""

    #: The name of its queue, which has a gate.
    queue: str
    group: str
    incarnation: int
    ordinal: int

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> Self | None:
        """The origin that the properties of a message tell; None: the message carries none."""
        if context.get("origin_queue") is None:
            return None
        return cls(*map(context.get, ORIGIN))  # type: ignore[arg-type] # as a session wrote them

    def properties(self) -> dict[str, Any]:
        return {
            "origin_queue": self.queue,
            "origin_group": self.group,
            "origin_incarnation": self.incarnation,
            "origin_ordinal": self.ordinal,
        }
