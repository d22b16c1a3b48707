"""The queue: a named, ordered destination."""

from __future__ import annotations

from dataclasses import dataclass, field

from seriatim.errors import UsageError
from seriatim.kernel.policy import Fifo, Policy, Unordered

__all__ = ["Queue"]


@dataclass(frozen=True, slots=True)
class Queue:
    """A named, ordered destination.

    Args:
        name: its name; a routed message carries it in the column ``destination``.
        policy: how its groups are ordered.
        group: the property (column) that is the unit of order. Not for `Unordered`.
        sequence: the property (column) with a message's position in its group. Not for `Unordered` and `Fifo`.
        default_group: the group of messages whose key is null, empty, too long or has a NUL;
            without it they are invalid.

    Raises:
        UsageError: a name that is empty, or a policy that needs a group or a sequence without one.
    """

    name: str
    policy: Policy = field(default_factory=Fifo)
    group: str | None = None
    sequence: str | None = None
    default_group: str | None = None

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 128 or "\0" in self.name:
            raise UsageError(f"{self.name!r} is not a queue's name", remedy="1 to 128 characters, without NUL")
        if isinstance(self.policy, Unordered):
            return
        if self.group is None:
            raise UsageError(
                f"queue {self.name!r}: {self.policy.name} needs a group", remedy="name the column of the key"
            )
        if self.sequence is None and not isinstance(self.policy, Fifo):
            raise UsageError(
                f"queue {self.name!r}: {self.policy.name} needs a sequence", remedy="name the column of the number"
            )
