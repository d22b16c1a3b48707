"""How far this machine's clock is apart from the database's."""

from __future__ import annotations

import math
import time

from seriatim.box.connection.access import Transaction

__all__ = ["CLOCK_S", "ahead_s", "apart"]

#: Clocks that follow a time server are apart by milliseconds.
CLOCK_S = 2.0


def ahead_s(transaction: Transaction) -> float:
    """The seconds by which this machine's clock is surely ahead of the database's; negative: behind it.

    The database's answer is from some moment of the round trip: that much isn't counted.
    """
    before = time.time()
    there = transaction.value("clock").timestamp()
    after = time.time()
    if there < before:
        return before - there
    return min(after - there, 0.0)


def apart(seconds: float) -> str | None:
    """In words that a clock is apart from the database's; None: it isn't, or by too little to matter.

    Args:
        seconds: from `ahead_s`.
    """
    if abs(seconds) < CLOCK_S:
        return None
    return f"this machine's clock is {math.floor(abs(seconds)):,} s {'ahead of' if seconds > 0 else 'behind'} the database's"
