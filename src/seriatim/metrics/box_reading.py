"""A box's figures, read seldom and in time: several scrapes share one statement, and none waits for a database that is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seriatim.box.box import MessageBox
from seriatim.errors import SeriatimError
from seriatim.operations.figures import Figure, figures
from seriatim.operations.invariants import broken_within

#: How long an answer is used, the limit of a statement, and how long a scrape waits for a new answer, seconds.
_KEPT_S, _LIMIT_S, _PATIENCE_S = 5.0, 5.0, 6.0
#: The least interval of audits of the laws, and the limit of each of its statements, seconds.
_AUDIT_EVERY_S, _AUDIT_LIMIT_S = 600.0, 4.0


@dataclass(frozen=True, slots=True)
class Reading:
    #: Its figures; None: they couldn't be read in time.
    figures: Sequence[Figure] | None
    is_reachable: bool
    why: str = ""
    #: How many violations of its laws the last audit found; None: there is none, or it took too long.
    broken: int | None = None
    #: The time of that audit, in seconds since the epoch; None: never.
    audited_at: float | None = None


class BoxReading:
    """Reads a box for all scrapes of a process; threads share it."""

    def __init__(self, opened: Callable[[], MessageBox], *, closes: bool = True) -> None:
        #: Opens the box, or returns the open one; it is called again until that succeeds.
        self._opened = opened
        self._closes = closes
        self._box: MessageBox | None = None
        self._lock = threading.Lock()
        self._reads: threading.Thread | None = None
        self._audit: threading.Thread | None = None
        self._read_at = self._audited = float("-inf")
        self._figures: Sequence[Figure] | None = None
        self._is_reachable, self._why = False, "it hasn't answered yet"
        self._broken: tuple[int, float] | None = None

    def now(self) -> Reading:
        """Return the box's figures: a few seconds old at most; without figures if the box doesn't answer in time."""
        with self._lock:
            if time.monotonic() - self._read_at >= _KEPT_S and (self._reads is None or not self._reads.is_alive()):
                self._reads = threading.Thread(target=self._read, name="seriatim-figures", daemon=True)
                self._reads.start()
            reads = self._reads
        if reads is not None:
            reads.join(_PATIENCE_S)
        with self._lock:
            broken, at = self._broken or (None, None)
            if time.monotonic() - self._read_at >= _KEPT_S + _PATIENCE_S:
                return Reading(None, False, self._why or "the box doesn't answer", broken, at)
            return Reading(self._figures, self._is_reachable, self._why, broken, at)

    def close(self) -> None:
        with self._lock:
            box, self._box = self._box, None
        if box is not None and self._closes:
            box.close()

    def _read(self) -> None:
        is_reachable, box_figures, why = False, None, ""
        try:
            if self._box is None:
                self._box = self._opened()
            box = self._box
            with box.access.transaction() as transaction:
                transaction.check_enabled()
                transaction.value("schema_version")
            is_reachable = True
            box_figures = figures(box, limit_s=_LIMIT_S)
            self._look_at_laws(box)
        except SeriatimError as error:
            why = str(error)
        finally:
            with self._lock:
                self._figures, self._is_reachable, self._why = box_figures, is_reachable, why
                self._read_at = time.monotonic()

    def _look_at_laws(self, box: MessageBox) -> None:
        if time.monotonic() - self._audited < _AUDIT_EVERY_S:
            return
        if self._audit is None or not self._audit.is_alive():
            self._audited = time.monotonic()
            self._audit = threading.Thread(target=self._audit_laws, args=[box], name="seriatim-audit", daemon=True)
            self._audit.start()

    def _audit_laws(self, box: MessageBox) -> None:
        try:
            broken = broken_within(box, _AUDIT_LIMIT_S)
        except SeriatimError:  # the figures report it
            return
        with self._lock:
            self._broken = None if broken is None else (len(broken), time.time())
