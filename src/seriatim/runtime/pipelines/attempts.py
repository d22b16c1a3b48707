"""The restarts of a failed query: their number and delays. Transient failures are listed in `spark/session/transient_failures.py`."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from seriatim.runtime.pipelines.failure_cause import cause_of
from seriatim.runtime.pipelines.progress import Again, Tell
from seriatim.runtime.stop_signal import Stop
from seriatim.spark.session.transient_failures import healing

#: The pauses before a query is begun again without progress in between, seconds.
WAITS_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)


class Attempts:
    def __init__(self, *, stop: Stop, tell: Tell | None, lives: Callable[[], bool]) -> None:
        self._stop = stop
        self._tell = tell
        #: Whether Spark runs at all; if it doesn't, every failure is permanent.
        self._lives = lives
        self._made = 0

    def got_on(self) -> None:
        """The query has done a micro-batch: earlier failures don't count any more."""
        self._made = 0

    def after(self, failure: BaseException) -> bool:
        """Wait until the query has to be restarted (True), or until the run has to end (False)."""
        error = cause_of(failure)
        cause = healing(error, str(failure.__cause__ or failure)) if self._lives() else None
        if cause is None:
            raise error from (failure.__cause__ if failure is error else failure)
        if self._made == len(WAITS_S):
            text = f"{error.what}; tried {self._made + 1} times without getting on"
            raise type(error)(text, where=error.where, remedy=error.remedy) from failure
        seconds = WAITS_S[self._made]
        self._made += 1
        if self._tell is not None:
            self._tell(Again(cause, error.what, seconds, self._made, len(WAITS_S)))
        until = monotonic() + seconds
        while not self._stop.requested and (left := until - monotonic()) > 0:
            self._stop.wait(left)
        return not self._stop.requested
