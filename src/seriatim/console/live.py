"""What is live: one poller a process asks what has changed while somebody looks, and tells all open pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping

from seriatim.box.box import MessageBox
from seriatim.errors import SeriatimError
from seriatim.operations import queues
from seriatim.operations.changes import changes
from seriatim.operations.invariants import broken_within
from seriatim.pipeline.text.log_fields import fields

__all__ = ["Law", "Looks", "Poller"]

_LOG = logging.getLogger("seriatim.console")
#: Seconds between two questions for changes, two looks at the queues, two checks of the law, and two signs of life.
_ASK_S, _LOOK_S, _LAW_S, _ALIVE_S = 1.0, 10.0, 60.0, 15.0
#: So long the law is checked at most, and so many looks are kept: a quarter of an hour.
_LAW_LIMIT_S, _KEPT = 4.0, 90
#: So long a page waits for a check: a small box is checked at once.
_PATIENCE_S = 0.3
#: What changes all the time and moves nothing that a page other than that of the workers shows.
_HEARTBEATS = frozenset({"workers", "waiters", "samples"})


class Law:
    """What is known of the law of conservation: `broken`, the violations in words; None: unknown, and `why` says why."""

    __slots__ = ("at", "broken", "why")

    def __init__(self, broken: list[str] | None, why: str = "") -> None:
        self.broken = broken
        self.why = why
        self.at = time.time()


class Looks:
    """What the console has seen of a box since it was started; threads share it."""

    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._lock = threading.Lock()
        self._past: dict[str, deque[int]] = {}
        self._looked = self._checked = float("-inf")
        self._law = Law(None, "it is being checked")

    @property
    def law(self) -> Law:
        """The law, as it was when it was last checked, a minute ago at most while somebody looks; no page waits long for it."""
        if time.monotonic() - self._checked >= _LAW_S:
            check = threading.Thread(target=self._check, daemon=True)
            check.start()
            check.join(_PATIENCE_S)
        return self._law

    def waiting_of(self, queue: str) -> list[int]:
        """How many messages waited in a queue, every ten seconds while somebody looked, oldest first."""
        return list(self._past.get(queue, ()))

    def look(self) -> None:
        """Look at the queues and at the law, if that is due."""
        if time.monotonic() - self._looked >= _LOOK_S:
            self._looked = time.monotonic()
            for one in queues.queues(self._box):
                past = self._past.setdefault(one.queue, deque(maxlen=_KEPT))
                past.append(one.arrived + one.held + one.queued + one.in_hand)
        self._check()

    def _check(self) -> None:
        if time.monotonic() - self._checked < _LAW_S or not self._lock.acquire(blocking=False):
            return
        try:
            found = broken_within(self._box, _LAW_LIMIT_S)
            self._law = Law(
                found, "" if found is not None else "the box is large: seriatim doctor --audit checks it to the end"
            )
        except SeriatimError as error:
            self._law = Law(None, error.what)
        finally:
            self._checked = time.monotonic()
            self._lock.release()


class Poller:
    """Asks what has changed, once a second while a page is open, whatever the number of open pages."""

    def __init__(self, box: MessageBox, looks: Looks) -> None:
        self._box = box
        self._looks = looks
        self._listeners: set[asyncio.Queue[str | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def stream(self) -> AsyncIterator[str]:
        """The events of one open page, as text of server-sent events; ends when the server stops."""
        mine: asyncio.Queue[str | None] = asyncio.Queue(maxsize=4)
        if self._is_over:
            return
        self._loop = asyncio.get_running_loop()
        self._listeners.add(mine)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll())
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(mine.get(), _ALIVE_S)
                except TimeoutError:
                    yield ": alive\n\n"
                    continue
                if event is None:
                    return
                yield event
        finally:
            self._listeners.discard(mine)

    def end(self) -> None:
        """End all streams, because the server stops; from any thread, or from a signal's handler."""
        self._is_over = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        for one in self._listeners:
            self._tell(one, None)

    async def _poll(self) -> None:
        before: Mapping[str, int] | None = None
        is_away = False
        while self._listeners and not self._is_over:
            try:
                now = await asyncio.to_thread(changes, self._box)
                await asyncio.to_thread(self._looks.look)
            except SeriatimError as error:
                if not is_away:
                    _LOG.warning(
                        "the box doesn't answer: %s", error, extra=fields("console_box_away", error=str(error))
                    )
                    self._send("away", error.what)
                is_away, before = True, None
            else:
                changed = sorted(name for name in now if before is not None and now[name] != before.get(name))
                if is_away or (before is not None and set(changed) - _HEARTBEATS):
                    self._send("changed", json.dumps(changed))
                elif changed:
                    self._send("alive", json.dumps(changed))
                before, is_away = now, False
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(_ASK_S)

    def _send(self, kind: str, data: str) -> None:
        event = f"event: {kind}\ndata: {' '.join(data.splitlines())}\n\n"
        for one in self._listeners:
            self._tell(one, event)

    @staticmethod
    def _tell(one: asyncio.Queue[str | None], event: str | None) -> None:
        while one.full():  # a page that doesn't listen needs only the newest
            one.get_nowait()
        one.put_nowait(event)
