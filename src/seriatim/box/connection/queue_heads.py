"""Remember where the messages of a queue begin, so that receivers don't scan dead index entries.

Completed messages stay in the index until vacuum, for a minute, or longer while a transaction is held open. A receiver
that scans the index from its beginning reads them all: after a minute that takes a tenth of the working time, after an
hour most of it. So a process asks PostgreSQL now and then where a queue begins, and scans from there until it asks
again. Messages in hand count, so a message that is put back isn't missed. A message may appear before that place later:
it was published in a transaction longer than the slack, its lease ran out, or it waited behind a delayed or failed
message. It is found when the process asks again, or when there is nothing else. In queues whose messages wait for
others such messages are common, so there a place is only used if finding it took long. No vacuum removes the entries
that a transaction has completed itself before its end: so it notes its progress, see `reach.sql`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from seriatim.box.connection.fast_paths import QUEUE_HEAD, HeadOfQueue
from seriatim.box.definitions.definition import BoxQueue

#: The rank that lies before all messages of a queue.
EVERYTHING = -(2**63)
_SLACK_US = 1_000_000
#: How much earlier the highest priority makes a message than the middle one: see ``entries.rank``.
_HIGHEST_US = 50_000_000
#: A search is repeated after this many times its duration, within these limits in seconds.
_PAUSES, SHORTEST_S, _LONGEST_S = 100, 1.0, 10.0


class Heads:
    """The known beginnings of queues, in one process; threads may share it."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, float]] = {}

    def of(self, queue: BoxQueue, ask: Callable[[BoxQueue], tuple[int, int]]) -> int:
        """The rank from which to search for the next message."""
        now = time.monotonic()
        rank, until = self._known.get(queue.queue_id, (EVERYTHING, 0.0))
        if now < until:
            return rank
        is_waiting = bool(until)  # not for a single look
        self._known[queue.queue_id] = (rank, now + SHORTEST_S)  # meanwhile no other thread has to
        if is_waiting:
            lowest, took_us = ask(queue)
            rank = EVERYTHING
            if QUEUE_HEAD.applies(HeadOfQueue(queue, took_us)):
                rank = lowest - _SLACK_US - (0 if queue.declared.priority is None else _HIGHEST_US)
            self._known[queue.queue_id] = (rank, time.monotonic() + pause_s(took_us))
        return rank


def pause_s(took_us: int) -> float:
    """How long to use a result, seconds, by the time that its search took, microseconds."""
    return min(max(_PAUSES * took_us / 1_000_000, SHORTEST_S), _LONGEST_S)
