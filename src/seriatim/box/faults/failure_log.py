"""Failures of handlers in the log: a line each, up to a limit a second, and the number of those left out.

The table of faults has all of them. The log is for a look at one process: the failure, and the next step; at the last
attempt with the traceback. A line is written when the fault is committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from seriatim.box.faults.faults import Fault, FaultResult, Then
from seriatim.box.measures import MEASURES, Measure
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.event_log import LOG

_MOST, _PERIOD_S = 10, 1.0
_LONGEST_ERROR, _LONGEST_TRACEBACK = 500, 8_000
#: Characters that could control a terminal, or begin another line.
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_WITHIN_LINES = {code: text for code, text in _CONTROLS.items() if code not in (9, 10)}


class FailureLog:
    def __init__(
        self, most: int = _MOST, period_s: float = _PERIOD_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        #: The largest number of lines a period: of failures that are retried, and as many of others.
        self._most = most
        self._period_s = period_s
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        #: The numbers in this period, by whether the failures are retried.
        self._count = {True: 0, False: 0}

    def tell(self, queue: str, group: str | None, fault: Fault, result: FaultResult) -> None:
        MEASURES.count(Measure.FAULTS, queue, fault.kind.value)
        if result.then is Then.DEAD:
            MEASURES.set_aside(queue, ["dead"])
        self.look()
        with self._lock:
            self._count[result.will_retry] += 1
            if self._count[result.will_retry] > self._most:
                return
        of = f" of {result.most}" if result.most > 1 else ""
        LOG.log(
            logging.WARNING if result.will_retry else logging.ERROR,
            "attempt_failed",
            queue=queue,
            group=group,
            message_id=result.message_id,
            attempt=result.attempts,
            kind=fault.kind.value,
            error_class=fault.error_class,
            error=_error(fault),
            will_retry=result.will_retry,
            _place=_place(queue, group),
            _message=result.message_id.translate(_CONTROLS),
            _of=of,
            _next=_next(queue, group, result),
            _traceback="" if result.will_retry else _traceback(fault.traceback),
        )

    def look(self, *, ends: bool = False) -> None:
        """Log how many failures were left out, if the period is over; called from time to time, even without failures."""
        with self._lock:
            took_s = self._clock() - self._began
            if took_s < self._period_s and not ends:
                return
            left = {again: max(count - self._most, 0) for again, count in self._count.items()}
            self._began, self._count = self._clock(), {True: 0, False: 0}
        if sum(left.values()):
            LOG.warning("failures_left_out", failures=sum(left.values()), _within_s=took_s, _for_good=left[False])


def _place(queue: str, group: str | None) -> str:
    return f"queue {queue!r}" if group is None else f"queue {queue!r}, group {group!r}"


def _error(fault: Fault) -> str:
    text = f"{fault.error_class}: {' '.join(fault.error.split())}".translate(_CONTROLS)
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def _next(queue: str, group: str | None, result: FaultResult) -> str:
    match result.then:
        case Then.RETRY if result.delay_us == 0:
            return "tried again at once"
        case Then.RETRY:
            return f"tried again in {result.delay_us / 1e6:.3g} s"
        case Then.DEAD:
            return "set aside: it is a dead letter"
        case Then.SUSPENDED if group is None:
            retry = command("messages", "retry", of=result.message_id, queue=queue)
            return f"message faulted: it waits for an operator ({retry})".translate(_CONTROLS)
        case Then.SUSPENDED:
            show = command("group", "show", of=group, queue=queue)
            return f"group faulted: it waits for an operator ({show})".translate(_CONTROLS)
        case Then.STOPPED:
            on = command("queue", "on", queue)
            return f"queue turned off: it waits for an operator ({on})".translate(_CONTROLS)


def _traceback(text: str) -> str:
    """Return the traceback below the line, if there is one; the end of a long one."""
    if not text:
        return ""
    kept = text.rstrip() if len(text) <= _LONGEST_TRACEBACK else f"…{text.rstrip()[-_LONGEST_TRACEBACK:]}"
    return f"\n{kept.translate(_WITHIN_LINES)}"


#: The failures of this process.
FAILURES = FailureLog()
