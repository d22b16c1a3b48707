"""List the activations of queues with their current work. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass

from seriatim.box.postgres.statements import Statements
from seriatim.pipeline.declared.activation import Activation

__all__ = ["Activated", "activations_of"]


@dataclass(frozen=True, slots=True)
class Activated:
    """A queue with an activation, at one moment.

    Args:
        queue_id: the queue.
        queue: its name.
        activation: as it is declared.
        enabled: whether the queue hands out.
        activated: whether the activation is on.
        owner: the pipeline that it belongs to, whose messages no reader gets.
        ready: in how many of its groups (where it is `Unordered`, messages) there is something to do, those included
            that are in a reader's hands; counted no further than to one more than there may be readers.
    """

    queue_id: int
    queue: str
    activation: Activation
    enabled: bool
    activated: bool
    owner: str | None
    ready: int

    @property
    def is_on(self) -> bool:
        """Whether there are to be readers, if there is work."""
        return self.enabled and self.activated and self.owner is None


def activations_of(statements: Statements) -> list[Activated]:
    """Those of all queues that the role may receive from, by the names of the queues."""
    rows = statements.rows("activations")
    return [Activated(number, name, Activation(**said), *rest) for number, name, said, *rest in rows]
