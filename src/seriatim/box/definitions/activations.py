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
        activation: the declared activation.
        enabled: whether the queue hands messages out.
        activated: whether the activation is on.
        owner: the pipeline that owns the queue, if any; readers then get no messages.
        ready: the number of groups (`Unordered`: messages) with work, also of groups in a reader's hand; counted up to the
            largest number of readers plus one.
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
        """Whether readers are started if there is work."""
        return self.enabled and self.activated and self.owner is None


def activations_of(statements: Statements) -> list[Activated]:
    """The activations of all queues from which the role may receive, by queue name."""
    rows = sorted(statements.rows("activations"), key=lambda row: row.queue)
    return [Activated(number, name, Activation(**said), *rest) for number, name, said, *rest in rows]
