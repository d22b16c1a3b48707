"""How far this machine's clock is from the database's, and which times were computed while the database's was ahead."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction

#: Clocks that follow a time server are apart by milliseconds.
CLOCK_S = 2.0


@dataclass(frozen=True, slots=True)
class TimesAhead:
    """The work, in a queue or (``""``) beside queues, that waits for a time that counts from a future one."""

    queue: str
    #: ``lease``, ``delayed message``, ``new message``, ``group``, ``dialog`` or ``stream``.
    kind: str
    count: int
    #: The last time for which one of them waits.
    until: datetime


def ahead_s(transaction: Transaction) -> float:
    """Return the seconds by which this machine's clock surely is ahead of the database's, without the round trip; below 0: behind."""
    before = time.time()
    there = transaction.value("clock").timestamp()
    after = time.time()
    if there < before:
        return before - there
    return min(after - there, 0.0)


def apart(seconds: float) -> str | None:
    """Return in words that a clock is apart from the database's; None: it isn't, or by too little to matter."""
    if abs(seconds) < CLOCK_S:
        return None
    return f"this machine's clock is {math.floor(abs(seconds)):,} s {'ahead of' if seconds > 0 else 'behind'} the database's"
