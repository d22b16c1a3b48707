"""Lines of coroutines that wait for messages: one thread and one connection listen for all of them, on any event loop.

After a notification one coroutine of each line looks; if it finds a message the next one looks, and so on. A coroutine that waits for a
group
of its own lets the next one look in any case: the message may be for that one. So a message wakes as many coroutines as it needs, and a
thousand waiting ones cost nothing but their memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

from seriatim.box.box import MessageBox
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.listener import Listener
from seriatim.errors import SeriatimError
from seriatim.pipeline.text.log_fields import fields

__all__ = ["WaitingCoroutine", "WaitingLines"]

_LOG = logging.getLogger("seriatim.aio")
#: Like waiting threads: a notification may be missed, and a group may become free without one; seconds.
_LOOK_S = 1.0
#: A due timer is being fired by another process; the pause before the next look, seconds.
_SHORT_S = 0.05
#: How long the thread stays after the last coroutine has gone: others may come; seconds.
_IDLE_S = 15.0


class WaitingCoroutine:
    """The place of one coroutine in the line of a queue; in a ``with``. `box`: the box by whose role it receives."""

    def __init__(self, lines: WaitingLines, box: MessageBox, queue: str, *, is_particular: bool) -> None:
        self.line = box, queue
        #: Whether not every message of the queue is for it.
        self.is_particular = is_particular
        self.is_looking = False
        #: False: others wait here for the same, have found nothing, and would be called before it; so it may wait without a look.
        self.needs_look = True
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Event()

    def __enter__(self) -> Self:
        """Join the line before its first look, if the process listens for the queue already."""
        self._lines.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.leave(self)

    async def turn(self, timeout_s: float) -> None:
        """Wait for this coroutine's turn to look again, at most this number of seconds. It has looked, and found nothing."""
        self._lines.wait(self)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._turn.wait()
                self._turn.clear()
                self.is_looking = True

    def call(self) -> bool:
        """Make it look. Thread-safe. Return False if its event loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._turn.set)
        except RuntimeError:
            return False
        return True


class _Line:
    """The coroutines that wait for messages of one queue, first come, first served."""

    def __init__(self) -> None:
        self.places: dict[WaitingCoroutine, None] = {}
        #: Whether a publisher's notification would be heard; the coroutines that have joined since, without a look.
        self.is_asked = False
        self.blind: list[WaitingCoroutine] = []
        #: The coroutine that looks now, and those that look next in this round; whether another round follows.
        self._has_turn: WaitingCoroutine | None = None
        self._round: deque[WaitingCoroutine] = deque()
        self._again = False

    @property
    def is_quiet(self) -> bool:
        """Whether coroutines wait, all of which have found nothing since the last notification."""
        return self.is_asked and bool(self.places) and self._has_turn is None and not self._again

    def call(self) -> None:
        """Handle a notification: one coroutine looks."""
        if self._has_turn is not None:
            self._again = True
        else:
            self._begin()

    def asked(self) -> None:
        """From now on calls are heard."""
        is_anew, self.is_asked = not self.is_asked, True
        blind, self.blind = self.blind, []
        for place in blind:
            place.call()
        if is_anew and len(blind) < len(self.places):
            self.call()

    def looked(self, place: WaitingCoroutine, *, goes_on: bool) -> None:
        """Note that a coroutine has looked, or is gone. `goes_on`: there may be a message for the next one."""
        place.is_looking = False
        if self._has_turn is not place:
            return
        self._has_turn = None
        if goes_on:
            self._next()
        if self._has_turn is None and self._again:
            self._begin()

    def _begin(self) -> None:
        self._again = False
        self._round = deque(self.places)
        self._next()

    def _next(self) -> None:
        while self._round:
            place = self._round.popleft()
            if place in self.places and place.call():
                self._has_turn = place
                return


class WaitingLines:
    """All lines of a box."""

    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._lock = threading.Lock()
        self._lines: dict[tuple[MessageBox, str], _Line] = {}
        self._thread: threading.Thread | None = None
        #: A pipe that tells the thread of a change.
        self._heard, self._told = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._told, False)
        self._is_closed = False

    def place(self, queue: str, *, is_particular: bool, box: MessageBox | None = None) -> WaitingCoroutine:
        """A place for a coroutine; arguments as of `WaitingCoroutine`."""
        return WaitingCoroutine(self, box or self._box, queue, is_particular=is_particular)

    def enter(self, place: WaitingCoroutine) -> None:
        """A coroutine is about to look for the first time."""
        with self._lock:
            line = self._lines.get(place.line)
            if line is not None and line.is_asked:
                place.needs_look = not line.is_quiet
                line.places[place] = None

    def wait(self, place: WaitingCoroutine) -> None:
        """A coroutine has looked in vain, and waits."""
        with self._lock:
            line = self._lines.setdefault(place.line, _Line())
            if place in line.places:
                if place.is_looking:
                    line.looked(place, goes_on=place.is_particular)
                return
            line.places[place] = None
            if line.is_asked or self._is_closed:  # messages since its look have notified others
                place.call()
                return
            line.blind.append(place)
            self._stir()
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="seriatim-listens", daemon=True)
                self._thread.start()

    def leave(self, place: WaitingCoroutine) -> None:
        """A coroutine waits no more: it has a message, its time is over, or it was cancelled."""
        with self._lock:
            line = self._lines.get(place.line)
            if line is None or place not in line.places:
                return
            del line.places[place]
            line.blind = [other for other in line.blind if other is not place]
            line.looked(place, goes_on=True)
            if not line.places:
                del self._lines[place.line]
                self._stir()

    @property
    def is_ending(self) -> bool:
        """Whether the waits without end are to end."""
        return self._is_closed or self._box.access.ending.is_set()

    def call_all(self) -> None:
        """Have all coroutines look once more; from any thread."""
        self._call_all()

    def close(self) -> None:
        """End the thread. All coroutines look once more, and find the box closed."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._stir()
        if thread is not None:
            thread.join()
        self._call_all()

    def __del__(self) -> None:
        os.close(self._told)
        os.close(self._heard)

    def _stir(self) -> None:
        with suppress(BlockingIOError):  # it is full of the same notifications
            os.write(self._told, b".")

    def _run(self) -> None:
        while True:
            try:
                with self._box.more(1) as box, box.session() as session, translated(session.access.place):
                    listener = Listener(session.transaction)
                    with listener.listening():
                        self._listen(listener)
            except SeriatimError as error:
                _LOG.warning(
                    "listening for messages failed, and is tried again: %s",
                    error,
                    extra=fields("listening_retried", error=str(error)),
                )
                self._call_all()  # the next lookers get the error
                time.sleep(_LOOK_S)
            with self._lock:
                if self._is_closed or not self._lines:
                    self._thread = None
                    return

    def _call_all(self) -> None:
        with self._lock:
            for line in self._lines.values():
                line.is_asked, line.blind = False, []
                for place in line.places:
                    place.call()

    def _listen(self, listener: Listener) -> None:
        """Call coroutines until none has waited for a while."""
        is_called, look_at = False, time.monotonic() + _LOOK_S
        while not self._is_closed:
            with suppress(BlockingIOError):
                os.read(self._heard, 65536)
            with self._lock:
                lines = {
                    (box.access.role, known[name].queue_id): line
                    for (box, name), line in self._lines.items()
                    if name in (known := box.access.known.definitions.queues)
                }
                if is_called:
                    for line in lines.values():
                        line.is_asked = False
                        line.call()
            due_s = listener.ask(list(lines), anew=is_called)
            with self._lock:
                for line in lines.values():
                    line.asked()
                is_idle = not self._lines
            now = time.monotonic()
            until = now + _IDLE_S if is_idle else look_at if due_s is None else min(look_at, now + max(due_s, _SHORT_S))
            is_called = listener.wait(until - now, self._heard)
            if is_called or time.monotonic() < until:
                continue
            with self._lock:
                if is_idle and not self._lines:
                    return
                for line in self._lines.values():
                    line.call()
            look_at = time.monotonic() + _LOOK_S
