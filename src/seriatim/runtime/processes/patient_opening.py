"""Open a box whose database may be away: a starting worker waits for it, like a running one."""

from __future__ import annotations

import threading
import time

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import is_away
from seriatim.errors import EnvironmentProblem, Unavailable
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.stop_signal import Stop

_PAUSE_S, _LOOK_S = 1.0, 0.1
#: The absence of the database is logged at once, and then at this interval, seconds.
_TELL_S = 30.0


def open_patiently(
    dsn: str | None, schema: str, stop: Stop, *, create: bool = True, connections: int = 20, waits: bool = True
) -> MessageBox | None:
    """Open a box; if its database is away, wait until it is there, and log that."""
    began, told_at = time.monotonic(), -_TELL_S
    had_come = False
    while not stop.requested:
        attempt = _Attempt(dsn, schema, create=create, connections=connections)
        if not attempt.ended(stop):
            return None
        if attempt.box is not None:
            if told_at >= 0:
                LOG.warning("box_back", seconds=time.monotonic() - began, _box=attempt.box)
            return attempt.box
        error = attempt.error
        if not isinstance(error, EnvironmentProblem) or not attempt.is_away:
            # It may have appeared between the attempt and the check.
            if had_come or not isinstance(error, EnvironmentProblem):
                raise error
            had_come = True
            continue
        had_come = False
        if not waits:
            raise Unavailable(
                error.what, where=error.where, remedy="is it running? without --no-wait it is waited for"
            ) from error
        waited_s = time.monotonic() - began
        if waited_s - told_at >= _TELL_S:
            told_at = waited_s
            LOG.warning("box_awaited", error=error.what, seconds=waited_s, _where=error.where)
        stop.wait(_PAUSE_S)
    return None


class _Attempt:
    """One attempt to open a box, in a thread: the attempt at a silent host takes long, and the caller doesn't wait for it."""

    def __init__(self, dsn: str | None, schema: str, *, create: bool, connections: int) -> None:
        self.box: MessageBox | None = None
        self.error: BaseException = EnvironmentProblem("the box couldn't be opened")
        self.is_away = False
        self._given_up = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(
            target=self._run, args=(dsn, schema), kwargs={"create": create, "connections": connections}, daemon=True
        )
        self._thread.start()

    def ended(self, stop: Stop) -> bool:
        """Wait for its end; False: it was stopped before, and a box that is opened after all is closed again."""
        while self._thread.is_alive() and not stop.requested:
            self._thread.join(_LOOK_S)
        with self._lock:
            self._given_up = self._thread.is_alive() and self.box is None
            return not self._given_up

    def _run(self, dsn: str | None, schema: str, *, create: bool, connections: int) -> None:
        try:
            box = MessageBox.open(dsn, schema=schema, create=create, connections=connections)
            with self._lock:
                if self._given_up:
                    box.close()
                self.box = box
        except BaseException as error:  # noqa: BLE001 -- it is raised where it was asked for
            self.error = error
            if isinstance(error, EnvironmentProblem):
                self.is_away = is_away(dsn)
