"""The number of messages that a turn takes from a queue without groups, so that free workers share the backlog.

No other thread works on the messages of a turn until it ends. If handlers are fast, many messages in a turn save
commits; if they are slow, messages should stay available for other threads. So a turn takes as many messages as are
processed within a moment, estimated from earlier turns, and one at first. A moment is several times the time to commit
a turn and to begin the next, so that little is lost by that. As a rule no message has to be put back.
"""

from __future__ import annotations

from seriatim.kernel.groups.policy import Unordered
from seriatim.pipeline.declared.queue import Queue

#: A moment: its shortest and its longest time in seconds; between them it is this many times the time between two turns.
_SHORTEST_S, _LONGEST_S, _TIMES = 0.02, 0.2, 10
#: A turn that has lasted this many moments has met a slow message; its other messages are left to other threads.
_LONG = 5


class TurnSize:
    def __init__(self, queue: Queue, *, batch: bool) -> None:
        #: Whether the queue has no groups, as far as is known: only then the number of a turn's messages is reduced.
        self.without_groups = isinstance(queue.policy, Unordered)
        #: Whether a handler gets all messages of a turn at once: then the number isn't reduced.
        self._batch = batch
        self._each_s = self._moment_s = _SHORTEST_S
        self._between_s = 0.0

    def of(self, most: int) -> int:
        """The number of messages for the next turn, at most the given number."""
        if not self.without_groups or self._batch:
            return most
        return max(1, min(most, int(self._moment_s / self._each_s)))

    def is_over(self, took_s: float) -> bool:
        """Whether a turn ends after these seconds, before it begins another message."""
        return self.without_groups and took_s > _LONG * self._moment_s

    def note(self, messages: int, took_s: float) -> None:
        if messages:
            self._each_s = max((self._each_s + took_s / messages) / 2, 1e-9)

    def note_between(self, took_s: float) -> None:
        self._between_s = (self._between_s + took_s) / 2
        self._moment_s = min(max(_TIMES * self._between_s, _SHORTEST_S), _LONGEST_S)
