"""The chores of a worker beside its turns: once a minute, one worker does due work and the clean-up."""

from __future__ import annotations

import logging
import threading
import time

from seriatim.box.box import MessageBox
from seriatim.box.operators import purge
from seriatim.box.postgres.translate import translated
from seriatim.box.tick import tick
from seriatim.box.workers.chore import ChoreTaken, alone
from seriatim.errors import EnvironmentProblem, SeriatimError
from seriatim.pipeline.text.log_fields import fields

__all__ = ["Chores"]

_LOG = logging.getLogger("seriatim.worker")
_PERIOD_S = 60.0
#: A step takes at most that long; the next one goes on where it ended.
_STEP_S = 3.0


class Chores:
    """The chores of one process.

    Args:
        box: the message box.
    """

    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._due = time.monotonic() + _PERIOD_S
        self._thread: threading.Thread | None = None
        self._told = ""

    def look(self) -> None:
        """Begin a step, if one is due and none is running."""
        at_work = self._thread is not None and self._thread.is_alive()
        if time.monotonic() >= self._due and not at_work:
            self._due = time.monotonic() + _PERIOD_S
            self._thread = threading.Thread(target=self._step, name="seriatim-chores", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Wait until the running step has ended."""
        if self._thread is not None:
            self._thread.join(2 * _STEP_S)

    def _step(self) -> None:
        try:
            access = alone(self._box.access, "clean-up")
            with translated(access.place):
                tick(access)
            purge.run(access, seconds=_STEP_S)
            self._told = ""
        except ChoreTaken:
            pass
        except EnvironmentProblem as error:  # the role may not, as a rule; or the server takes no writes for a while
            self._tell(logging.INFO, f"no clean-up: {error}")
        except SeriatimError as error:
            self._tell(logging.WARNING, f"the clean-up failed: {error}")

    def _tell(self, level: int, text: str) -> None:
        if text != self._told:
            _LOG.log(level, "%s", text, extra=fields("chore_failed", error=text))
        self._told = text
