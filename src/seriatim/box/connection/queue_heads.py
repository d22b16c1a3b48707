"""Where queues begin behind what is done, until that is vacuumed: after a minute, or not while a transaction is held open.

Whoever looks for the next message reads indexes from their beginning, and what is done stands there: in a minute the look
takes as long as a tenth of the work, in an hour longer than all of it. So a process asks every now and then where a queue
begins, and looks from there on until it asks again. What somebody has in hand counts, so what he puts back is not passed
over. What comes before that place later is found when the process asks again, or when there is nothing else: what was
published in a transaction longer than the slack, what a lease had that ran out, what waited behind a message that was
delayed or has failed. Where messages wait for others that is usual, so there it is done only where to find the place has
taken long.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from seriatim.box.definitions.definition import BoxQueue

__all__ = ["EVERYTHING", "SHORTEST_S", "Heads", "pause_s"]

#: The rank from which on there is all of a queue.
EVERYTHING = -(2**63)
#: Where messages wait for others a shorter look isn't worth that they may be passed over.
_LONG_US = 1_000
_SLACK_US = 1_000_000
#: How much earlier the highest priority makes a message than the middle one: see ``entries.rank``.
_HIGHEST_US = 50_000_000
#: It is asked again after so many times as long as it took.
_PAUSES, SHORTEST_S, _LONGEST_S = 100, 1.0, 10.0


class Heads:
    """Where queues begin, as far as a process knows; threads may share it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, float]] = {}

    def of(self, queue: BoxQueue, ask: Callable[[BoxQueue], tuple[int, int]]) -> int:
        """The rank from which on to look for the next message.

        Args:
            queue: of which queue.
            ask: answers with the lowest rank there is, at most that of a message which comes now, and how long it took
                to find it, microseconds.
        """
        now = time.monotonic()
        rank, until = self._known.get(queue.queue_id, (EVERYTHING, 0.0))
        if now < until:
            return rank
        asked = bool(until)  # not by who looks once
        self._known[queue.queue_id] = (rank, now + SHORTEST_S)  # meanwhile nobody else has to
        if asked:
            lowest, took_us = ask(queue)
            rank = EVERYTHING
            if took_us > _LONG_US or not queue.holds:
                rank = lowest - _SLACK_US - (0 if queue.declared.priority is None else _HIGHEST_US)
            self._known[queue.queue_id] = (rank, time.monotonic() + pause_s(took_us))
        return rank


def pause_s(took_us: int) -> float:
    """How long to believe what took so many microseconds to find."""
    return min(max(_PAUSES * took_us / 1_000_000, SHORTEST_S), _LONGEST_S)
