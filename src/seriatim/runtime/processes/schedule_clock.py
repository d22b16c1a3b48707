"""Looks for due schedules while a process serves."""

import logging
import threading
import time

from seriatim.box.box import MessageBox
from seriatim.box.publishing.schedules import publish_due
from seriatim.errors import EnvironmentProblem, SeriatimError
from seriatim.pipeline.text.event_log import LOG

#: The longest time until a defined, resumed or hastened schedule is seen, seconds.
_LONGEST_S = 5.0
_SHORTEST_S = 0.2
#: The pause of a role that isn't the owner: it may become the owner, seconds.
_REFUSED_S = 60.0
_END_S = 5.0


class ScheduleClock:
    """The schedules of a box as one process serves them; other processes may do so, too."""

    def __init__(self, box: MessageBox) -> None:
        self._access = box.access
        self._due = time.monotonic()
        self._thread: threading.Thread | None = None
        self._told = ""

    def look(self) -> None:
        """Publish what is due, in a thread, if it is time and no thread does so."""
        at_work = self._thread is not None and self._thread.is_alive()
        if time.monotonic() >= self._due and not at_work:
            self._due = time.monotonic() + _LONGEST_S
            self._thread = threading.Thread(target=self._step, name="seriatim-schedules", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Wait for the publishing under way."""
        if self._thread is not None:
            self._thread.join(_END_S)

    def _step(self) -> None:
        try:
            done = publish_due(self._access)
        except EnvironmentProblem as error:
            self._tell(logging.INFO, f"no schedules: {error}")
            self._due = time.monotonic() + _REFUSED_S
        except SeriatimError as error:
            self._tell(logging.WARNING, f"schedules publish nothing: {error}")
        else:
            self._told = ""
            rest_s = _LONGEST_S if done.next_s is None else min(max(done.next_s, _SHORTEST_S), _LONGEST_S)
            self._due = time.monotonic() + rest_s

    def _tell(self, level: int, text: str) -> None:
        if text != self._told:
            LOG.log(level, "schedules_not_published", error=text)
        self._told = text
