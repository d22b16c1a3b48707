"""List the activations of queues with their current work. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seriatim.box.postgres.statements import Statements
from seriatim.kernel.fields import from_stored
from seriatim.pipeline.declared.activation import MOST_READERS, Activation


@dataclass(frozen=True, slots=True)
class Activated:
    queue_id: int
    queue: str
    activation: Activation
    enabled: bool
    activated: bool
    #: The pipeline that owns the queue, if any; readers then get no messages.
    owner: str | None
    #: The number of groups (`Unordered`: messages) with work, also of groups in a reader's hand; counted up to the largest number of
    #: readers plus one.
    ready: int
    #: The largest number of readers that is set for the queue, in place of the activation's; None: none is set.
    workers: int | None = None
    #: The largest number of groups in flight that is set for the queue; None: none is set.
    in_flight: int | None = None

    @property
    def maximum(self) -> int:
        """The largest number of readers: each has one group in flight."""
        most = self.activation.maximum if self.workers is None else min(self.workers, MOST_READERS)
        return most if self.in_flight is None else min(most, self.in_flight)

    @property
    def minimum(self) -> int:
        """The number of readers that run even without work."""
        return min(self.activation.minimum, self.maximum)

    @property
    def is_on(self) -> bool:
        """Whether readers are started if there is work."""
        return self.enabled and self.activated and self.owner is None


def activations_of(statements: Statements) -> list[Activated]:
    """The activations of all queues from which the role may receive, by queue name; without those that can't be read."""
    rows = sorted(statements.rows("activations"), key=lambda row: row.queue)
    read = [(number, name, _read(said), *rest) for number, name, said, *rest in rows]
    return [Activated(number, name, activation, *rest) for number, name, activation, *rest in read if activation]


def _read(said: Any) -> Activation | None:
    """The stored activation; None if its queue's definition is broken, which doctor tells."""
    try:
        return from_stored(Activation, said)
    except Exception:  # noqa: BLE001 -- any JSON may be there
        return None
