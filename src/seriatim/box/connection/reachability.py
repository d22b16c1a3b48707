"""Log the loss of a server once, and its return once, in place of psycopg's repeated warnings.

A psycopg pool logs a warning for every failed attempt, about once a second. These warnings of our own pools, known by
their names, are filtered out, and those of connections that are closed; all other log records, and other pools, are left alone.
"""

from __future__ import annotations

import logging
from itertools import count
from threading import Lock
from weakref import WeakValueDictionary

from seriatim.pipeline.text.event_log import LOG
from seriatim.rested import RestedConnection

#: A pool's warning for a closed connection of ours: it was lost, which its user gets as an error, or closed because it couldn't be
#: used again.
_CLOSED = "discarding closed connection: %s"
#: A pool's warnings after one failed attempt, and after several. Warnings with other texts aren't removed from the log.
_TRY, _TRIES = "error connecting in %r: %s", "reconnection attempt in pool %r failed after %s sec"
_NUMBERS = count(1)


class Reach:
    """Whether connections to a box can be made, as far as its pools have tried."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._lock = Lock()
        self._is_away = False

    def pool_name(self) -> str:
        """A name for a pool, by which its log records are assigned to this box."""
        name = f"seriatim-{next(_NUMBERS)}"
        _REACHES[name] = self
        return name

    def failed(self, why: object) -> None:
        """Log a failed attempt: the first as a warning, later ones at a lower level."""
        with self._lock:
            is_first, self._is_away = not self._is_away, True
        level = logging.WARNING if is_first else logging.DEBUG
        LOG.log(level, "box_away", error=why, _place=self._place)

    def made(self) -> None:
        """Log that connections can be made again, if they couldn't before."""
        with self._lock:
            was_away, self._is_away = self._is_away, False
        if was_away:
            LOG.warning("box_reachable", _place=self._place)


class _Ours(logging.Filter):
    """A log filter: removes the warnings of our pools, and logs our own in their place."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not isinstance(record.args, tuple) or not record.args:
            return True
        if record.msg == _CLOSED:
            return not isinstance(record.args[0], RestedConnection)
        if record.msg not in (_TRY, _TRIES):
            return True
        reach = _REACHES.get(str(record.args[0]))
        if reach is not None and record.msg == _TRY:
            reach.failed(record.args[1])
        return reach is None


#: By the names of their pools.
_REACHES: WeakValueDictionary[str, Reach] = WeakValueDictionary()
logging.getLogger("psycopg.pool").addFilter(_Ours())
