"""The number of messages that a turn takes from a queue without groups, so that free workers share the backlog.

What a turn has taken nobody else works on until it ends. Where handlers are fast, many messages in a turn save commits;
where they are slow, each is to stay there for others. So a turn takes as many as are worked on within a moment, going by the
turns before it, and one at first. A moment is several times what it takes to commit a turn and to begin the next one, so that
little is lost by that. Nothing has to be put back, as a rule.
"""

from __future__ import annotations

from seriatim.kernel.policy import Unordered
from seriatim.pipeline.declared.queue import Queue

__all__ = ["TurnSize"]

#: A moment, seconds: from so many to so many, and so many times as long as what is between two turns.
_SHORTEST_S, _LONGEST_S, _TIMES = 0.02, 0.2, 10
#: A turn that has gone on for so many moments has met a slow message; what is behind that is left to others.
_LONG = 5


class TurnSize:
    """That of the threads of a worker, which share what they know.

    Args:
        queue: what they work on.
        batch: whether a handler gets all messages of a turn at once: then how many is for the handler to say.

    Attributes:
        counts: whether the queue has no groups, as far as is known.
    """

    def __init__(self, queue: Queue, *, batch: bool) -> None:
        self.counts = isinstance(queue.policy, Unordered)
        self._batch = batch
        self._each_s = self._moment_s = _SHORTEST_S
        self._between_s = 0.0

    def of(self, most: int) -> int:
        """How many messages the next turn takes, at most so many."""
        if not self.counts or self._batch:
            return most
        return max(1, min(most, int(self._moment_s / self._each_s)))

    def is_over(self, took_s: float) -> bool:
        """Whether a turn that has gone on for so many seconds ends before it begins another message."""
        return self.counts and took_s > _LONG * self._moment_s

    def note(self, messages: int, took_s: float) -> None:
        """So many messages were worked on in so many seconds."""
        if messages:
            self._each_s = max((self._each_s + took_s / messages) / 2, 1e-9)

    def note_between(self, took_s: float) -> None:
        """So many seconds were between two turns."""
        self._between_s = (self._between_s + took_s) / 2
        self._moment_s = min(max(_TIMES * self._between_s, _SHORTEST_S), _LONGEST_S)
