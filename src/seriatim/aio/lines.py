"""Lines of coroutines that wait for messages: one thread and one connection listen for all of them, on any event loop.

After a notification one coroutine of each line looks; if it finds a message the next one looks, and so on. A coroutine that waits for a
group
of its own lets the next one look in any case: the message may be for that one. So a message wakes as many coroutines as it needs, and a
thousand waiting ones cost nothing but their memory.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from typing import Self

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.turns.listener import Listener
from seriatim.box.turns.listening_thread import IDLE_S, LOOK_S, ListeningThread

#: A due timer is being fired by another process; the pause before the next look, seconds.
_SHORT_S = 0.05


class WaitingCoroutine:
    """The place of one coroutine in the line of a queue; in a ``with``. `box`: the box by whose role it receives."""

    def __init__(
        self, lines: WaitingLines, box: MessageBox, queue: str, *, is_particular: bool, key: object = None
    ) -> None:
        self.line = box, queue
        #: A later coroutine with this key takes its place, and it looks once more; None: nobody does.
        self.key = key
        #: Whether not every message of the queue is for it.
        self.is_particular = is_particular
        self.is_looking = False
        #: False: another one waits here for any message, and would be called before it; so it may wait without a look.
        self.needs_look = True
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Event()

    def __enter__(self) -> Self:
        """Join the line before its first look, if the process listens for the queue already."""
        self._lines.enter(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.leave(self)

    async def turn(self, timeout_s: float) -> None:
        """Wait for this coroutine's turn to look again, at most this number of seconds. It has looked, and found nothing."""
        self._lines.wait(self)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._turn.wait()
                self._turn.clear()
                self.is_looking = True

    @property
    def is_ending(self) -> bool:
        """Whether it shall not wait forever any more."""
        return self._lines.is_ending or self.line[0].access.ending.is_set()

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
        """Whether one waits for any message, and there is none since the last notification."""
        return (
            self.is_asked
            and self._has_turn is None
            and not self._again
            and any(not place.is_particular for place in self.places)
        )

    def join(self, place: WaitingCoroutine) -> None:
        """Add a coroutine at the end, or in the place of an earlier one with the same key."""
        before = None if place.key is None else next((one for one in self.places if one.key == place.key), None)
        if before is None:
            self.places[place] = None
            return
        self.places = {place if one is before else one: None for one in self.places}
        self.looked(before, goes_on=True)
        before.call()

    def call(self) -> None:
        """Handle a notification: one coroutine looks."""
        if self._has_turn is not None:
            self._again = True
        else:
            self._begin()

    def asked(self) -> None:
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


class WaitingLines(ListeningThread):
    def __init__(self, box: MessageBox) -> None:
        super().__init__(lambda: box.more(1))
        self._box = box
        self._lines: dict[tuple[MessageBox, str], _Line] = {}

    @property
    def _is_needed(self) -> bool:
        return bool(self._lines)

    def place(
        self, queue: str, *, is_particular: bool, box: MessageBox | None = None, key: object = None
    ) -> WaitingCoroutine:
        """A place for a coroutine; arguments as of `WaitingCoroutine`."""
        return WaitingCoroutine(self, box or self._box, queue, is_particular=is_particular, key=key)

    def enter(self, place: WaitingCoroutine) -> None:
        """A coroutine is about to look for the first time."""
        with self._lock:
            line = self._lines.get(place.line)
            if line is not None and line.is_asked:
                place.needs_look = not line.is_quiet
                line.join(place)

    def wait(self, place: WaitingCoroutine) -> None:
        """A coroutine has looked in vain, and waits."""
        with self._lock:
            line = self._lines.setdefault(place.line, _Line())
            if place in line.places:
                if place.is_looking:
                    line.looked(place, goes_on=place.is_particular)
                return
            line.join(place)
            if line.is_asked or self._is_closed:  # messages since its look have notified others
                place.call()
                return
            line.blind.append(place)
            self._begin()

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
        return self._is_closed or self._box.access.ending.is_set()

    def call_all(self) -> None:
        with self._lock:
            for line in self._lines.values():
                line.is_asked, line.blind = False, []
                for place in line.places:
                    place.call()

    def _listen(self, listener: Listener, _transaction: Transaction) -> None:
        """Call coroutines until none has waited for a while."""
        is_called, look_at = False, time.monotonic() + LOOK_S
        while not self._is_closed:
            self._stirred()
            with self._lock:
                lines = [
                    ((box.access.role, known[name].queue_id), line)
                    for (box, name), line in self._lines.items()
                    if name in (known := box.access.known.definitions.queues)
                ]
                if is_called:
                    for _, line in lines:
                        line.is_asked = False
                        line.call()
            due_s = listener.ask({role_and_queue for role_and_queue, _ in lines}, anew=is_called)
            with self._lock:
                for _, line in lines:
                    line.asked()
                is_idle = not self._lines
            now = time.monotonic()
            until = now + IDLE_S if is_idle else look_at if due_s is None else min(look_at, now + max(due_s, _SHORT_S))
            is_called = listener.wait(until - now, self._heard)
            if is_called or time.monotonic() < until:
                continue
            with self._lock:
                if is_idle and not self._lines:
                    return
                for line in self._lines.values():
                    line.call()
            look_at = time.monotonic() + LOOK_S
