"""See which receivers are at work on queues that have work. Reads without locks.

The evidence is what PostgreSQL knows at this moment: heartbeats of processes, receivers that wait for a call, leases, the
slots of readers that `serve` starts, locked groups. An application that receives in sessions of its own can be missed
between two of them, so a queue whose groups were touched a moment ago counts as worked on. ``ready_work.sql`` is the one
place that answers "is anybody at work".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.pipeline.text.command import command


@dataclass(frozen=True, slots=True)
class ReadyWork:
    """A queue that has something to hand out."""

    queue_id: int
    queue: str
    enabled: bool
    owner: str | None
    activated: bool
    is_activation: bool
    #: The name of the two regions that it belongs to; None: it belongs to none.
    regions: str | None
    #: When the first message was published that can be handed out now.
    ready_since: datetime
    ready_s: float
    #: The number of receivers seen at work: by a heartbeat, waiting, in a turn, under a lease, or started by `serve`; one may be seen
    #: in several ways.
    at_work: int
    #: The number of processes that worked on it and are no longer heard of.
    silent: int
    #: When one of its groups was last handed out or judged, if no receiver is seen at work; None: never.
    touched_at: datetime | None

    @property
    def helps(self) -> str:
        if self.is_activation:
            return command("serve") if self.activated else command("queue", "activation", "on", self.queue)
        if self.regions is not None:
            return command("work", self.queue, handler="MODULE:FUNCTION", regions="FILE", region="REGION")
        return command("work", self.queue, handler="MODULE:FUNCTION")

    def is_left_alone(self, patience_s: float) -> bool:
        """Return whether its work has waited for longer than that many seconds, and no receiver is seen at work on it."""
        if not self.enabled or self.owner is not None or self.at_work or self.ready_s <= patience_s:
            return False
        if self.touched_at is None:
            return True
        idle_s = self.ready_s - (self.touched_at - self.ready_since).total_seconds()
        return idle_s > patience_s


def ready_work(transaction: Transaction) -> dict[str, ReadyWork]:
    """The queues that have something to hand out, by name."""
    return {row.queue: row for row in transaction.rows("ready_work", ReadyWork)}
