"""The ports through which messages come into a box, with their partitions. No locks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class PortView:
    """A partition of a port through which messages come in.

    Args:
        port: the name of the port.
        partition: the part of the source, such as a partition of a Kafka topic; empty: the source has no parts.
        kind: `mllp`, `rabbitmq` or `kafka`.
        holder: the process that reads it, or has read it last: machine, process id, and a mark of its own.
        is_held: whether a process reads it now.
        held_since: when that process began.
        seen_at: when it was last seen.
        silent_s: the seconds since then.
        position: where it goes on, as JSON, where the box keeps that; None: the source does, or there is none.
        taken: messages that have come in.
        left_out: messages that had come in before.
        id_reused: messages that came in under an id which their sender had given to another body.
        refused: messages that the box refused as the source has them, and keeps as unrouted.
        last_taken_at: when the last one came in.
        problem: why it stands still; None: it doesn't.
    """

    port: str
    partition: str
    kind: str
    holder: str
    is_held: bool
    held_since: datetime
    seen_at: datetime
    silent_s: float
    position: str | None
    taken: int
    left_out: int
    id_reused: int
    refused: int
    last_taken_at: datetime | None
    problem: str | None
