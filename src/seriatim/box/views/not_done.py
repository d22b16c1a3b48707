"""The reasons why messages aren't done, with counts. Reads without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

#: The reasons why a message isn't handed out, in words.
REASONS: Mapping[str, str] = {
    "in_hand": "a worker or a pipeline has it in hand",
    "off": "the queue is off",
    "pipeline": "the queue belongs to a pipeline",
    "suspended": "its group is suspended",
    "faulted": "its group is faulted: a handler failed for good, and an operator has to mend it",
    "failed": "it is faulted: its handler failed for good, and an operator has to mend it",
    "place_open": "its place at the gate is open, or one before it: a message of the place is still on its way",
    "postponed": "its receiver, or that of the message before it, has postponed it",
    "retry": "it, or the message before it, failed and is tried again later",
    "later": "it, or the message before it, is to be handed out later",
    "held": "a number before it is missing, or its set isn't complete",
    "late": "it came late, and an operator has to say what becomes of it",
    "stopped": "the subscriptions that collected it are stopped",
    "ready": "it is ready, or nobody has looked at it yet",
}


@dataclass(frozen=True, slots=True)
class NotDone:
    """Messages of a queue that aren't done for one reason."""

    queue: str
    why: str
    messages: int
    #: When the first of them is due, or the time-out ends for which the first of them waits; None if no time is known.
    until: datetime | None

    @property
    def reason(self) -> str:
        return REASONS[self.why]
