"""The chores of a worker beside its turns: once a minute, one worker does due work and the clean-up; and bulk operations continue."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from seriatim.box.box import MessageBox
from seriatim.box.connection.chore import ChoreTaken, alone
from seriatim.box.operators import purge
from seriatim.box.operators.bulk_operations import work_for
from seriatim.box.tick import tick
from seriatim.errors import EnvironmentProblem, SeriatimError
from seriatim.pipeline.text.told_once import ToldOnce

_PERIOD_S = 60.0
#: How often a process looks for bulk operations without a worker.
_BULK_S = 5.0
#: The longest time of a step; the next one continues where it ended.
_STEP_S = 3.0


class Chores:
    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._due = time.monotonic() + _PERIOD_S
        self._bulk_due = time.monotonic() + _BULK_S
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._told = ToldOnce("chore_failed")

    def look(self) -> None:
        """Begin a step, if one is due and none is running."""
        now = time.monotonic()
        if self._thread is not None and self._thread.is_alive():
            return
        if now >= self._due:
            self._due = now + _PERIOD_S
            self._begin(self._step)
        elif now >= self._bulk_due:
            self._bulk_due = now + _BULK_S
            self._begin(self._bulk_step)

    def end(self) -> None:
        self._ends.set()
        if self._thread is not None:
            self._thread.join(2 * _STEP_S)

    def _begin(self, step: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=step, name="seriatim-chores", daemon=True)
        self._thread.start()

    def _bulk_step(self) -> None:
        try:
            if work_for(self._box.access, _STEP_S, self._ends.is_set):
                self._bulk_due = time.monotonic()
            self._told.forget("bulk")
        except EnvironmentProblem:  # the role may not operate, as a rule
            self._bulk_due = time.monotonic() + _PERIOD_S
        except SeriatimError as error:
            self._told.tell(f"bulk operations stand still: {error}", of="bulk")

    def _step(self) -> None:
        try:
            access = alone(self._box.access, "clean-up")
            tick(access)
            purge.run(access, seconds=_STEP_S)
            self._told.forget("clean-up")
        except ChoreTaken:
            pass
        except EnvironmentProblem as error:  # the role may not, as a rule; or the server takes no writes for a while
            self._told.tell(f"no clean-up: {error}", logging.INFO, "clean-up")
        except SeriatimError as error:
            self._told.tell(f"the clean-up failed: {error}", of="clean-up")
