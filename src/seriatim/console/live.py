"""Live pages: what the console last read of a box (`Looks`), and the one poller of a process that tells open pages of changes.

No page waits long for a read that takes long: it shows the last result, and a thread reads again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, Self, TypeVar

from seriatim.box.box import MessageBox
from seriatim.console.pipelines import Pipelines
from seriatim.errors import SeriatimError
from seriatim.operations import queues
from seriatim.operations.changes import changes
from seriatim.operations.doctor import Finding, State, findings_of
from seriatim.operations.invariants import Account, account_within, broken_within
from seriatim.operations.looking import clock_ahead_s
from seriatim.operations.queue_standing import QueueStanding, queue_standing
from seriatim.operations.queues import QueueCounts
from seriatim.pipeline.text.event_log import LOG

T = TypeVar("T")

#: Seconds between two questions for changes, two looks at the queues, two checks of the law of conservation, and two signs of life.
_ASK_S, _LOOK_S, _LAW_S, _ALIVE_S = 1.0, 10.0, 60.0, 15.0
#: The longest time that the law is checked, and the number of rates that are kept: those of a quarter of an hour.
_LAW_LIMIT_S, _KEPT = 4.0, 90
#: Seconds between two comparisons of clocks, and the difference from which on they count as different.
_CLOCK_S, _SAME_CLOCK_S = 60.0, 1.0
#: The longest time that a page waits for a look, in which a small box is read; and the first page, which has no earlier result to show.
_PATIENCE_S, _FIRST_S = 0.25, 2.0
#: The longest time that the page of a queue waits for the state of the queue: the page is about that.
_STANDING_S = 1.0
#: A look that takes longer than this is repeated after 100 times its duration: so it takes a hundredth of the time.
_QUICK_S, _SHARE = 0.02, 100
#: The law is checked group by group after 1,000 times the duration of such a check; between two of them only its sums are compared.
_AUDIT_SHARE = 1000
#: Tables that change all the time, but change nothing on a page other than that of the workers.
_HEARTBEATS = frozenset({"workers", "waiters", "samples"})


@dataclass(frozen=True, slots=True)
class Law:
    """The last look at the law of conservation."""

    #: The violations in words; None: unknown, and `why` says why.
    broken: list[str] | None
    why: str = ""
    account: Account | None = None
    #: When it was checked group by group; None: it wasn't.
    at: datetime | None = None

    @property
    def is_broken(self) -> bool:
        """Whether a message is lost, or counted twice."""
        return bool(self.broken) or (self.account is not None and not self.account.is_even)


class Look(Generic[T]):
    """The last result of a read of a box. A page that asks for it starts the read again in a thread, if that is due, and waits for a
    moment only. `read`: reads. `pause`: from the seconds that a read has taken to those until the next one. `moved`: called after a read
    for which pages have not waited. `patience_s`: how long a page waits.
    """

    def __init__(
        self,
        read: Callable[[], T],
        pause: Callable[[float], float],
        moved: Callable[[], None],
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._read, self._pause, self._moved, self._patience_s = read, pause, moved, patience_s
        self._lock, self._next = threading.Lock(), float("-inf")
        #: The last result; None: there is none yet.
        self.seen: T | None = None
        #: Why the last read failed; empty: it didn't.
        self.why = ""
        #: When the last result was read, by the monotonic clock.
        self.at = float("-inf")

    def now(self) -> Self:
        """Read again if that is due, and wait a moment for it."""
        if time.monotonic() >= self._next:
            thread = threading.Thread(target=self._look, daemon=True)
            thread.start()
            thread.join(_FIRST_S if self.seen is None else self._patience_s)
        return self

    def again(self) -> None:
        self._next = float("-inf")

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.at

    def _look(self) -> None:
        if not self._lock.acquire(blocking=False):
            return
        began = time.monotonic()
        try:
            self.seen, self.why = self._read(), ""
            self.at = time.monotonic()
        except SeriatimError as error:
            self.why = error.what
        finally:
            took = time.monotonic() - began
            self._next = time.monotonic() + self._pause(took)
            if took > self._patience_s:
                self._moved()
            self._lock.release()


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of queues. `rows`: None until they are counted for the first time. `age_s`: seconds since then. `why`: why the last
    counting failed.
    """

    rows: list[QueueCounts] | None
    age_s: float = 0.0
    why: str = ""


class Looks:
    """What the console has read of a box since it was started; threads share it. Counting takes time in proportion to the messages of a
    box. So no page waits long for a count, and a count that takes long is repeated rarely.
    """

    def __init__(self, box: MessageBox) -> None:
        self._box = box
        self._rates: dict[str, deque[float]] = {}
        self._released: tuple[float, dict[str, int]] | None = None
        self._looked = self._next_audit = float("-inf")
        self._audited = Law(None, "it is being checked")
        self._ahead, self._clock_read = timedelta(), float("-inf")
        #: How many looks ended after the pages that asked for them had gone out; the poller tells pages when it changes.
        self.number = 0
        self._counts = Look(lambda: queues.queues(box), _seldom, self._moved)
        self._law = Look(self._check, lambda took: max(_LAW_S, took * _SHARE), self._moved)
        #: The findings of `seriatim doctor` that aren't ok, the wrong ones first.
        self._found = Look(self._find, lambda took: max(_LOOK_S, took * _SHARE), self._moved)
        self._standing: dict[str, Look[QueueStanding]] = {}

    def _moved(self) -> None:
        self.number += 1

    def now(self) -> datetime:
        """The time by the database's clock, on which a box depends; this machine's clock may differ."""
        if time.monotonic() - self._clock_read >= _CLOCK_S:
            self._clock_read = time.monotonic()
            with contextlib.suppress(SeriatimError):
                ahead_s = clock_ahead_s(self._box)
                # The time that the question takes is no difference.
                self._ahead = timedelta(seconds=ahead_s if abs(ahead_s) > _SAME_CLOCK_S else 0)
        return datetime.now(UTC) + self._ahead

    @property
    def law(self) -> Law:
        """The result of the last check of the law; unless the box is large, it is at most a minute old."""
        return self._law.now().seen or self._audited

    def counted(self) -> Counted:
        """The counts of the queues; only those that exist now, and whether each is enabled now."""
        look = self._counts.now()
        if look.seen is None:
            return Counted(None, why=look.why)
        defined = self._box.definitions().queues
        rows = [replace(one, enabled=defined[one.queue].enabled) for one in look.seen if one.queue in defined]
        return Counted(rows, look.age_s, look.why)

    def standing(self, queue: str) -> Look[QueueStanding]:
        read = partial(queue_standing, self._box, queue)
        look = Look(read, lambda took: took * _SHARE if took > _STANDING_S else 0.0, self._moved, _STANDING_S)
        return self._standing.setdefault(queue, look).now()

    def findings(self) -> Look[list[Finding]]:
        """The findings of the doctor in the box that aren't ok, the wrong ones first."""
        return self._found.now()

    def recount(self) -> None:
        """Count the queues and look for findings anew for the next page: something was done."""
        looks: list[Look[Any]] = [self._counts, self._found, *self._standing.values()]
        for look in looks:
            look.again()

    def _find(self) -> list[Finding]:
        findings = [one for one in findings_of(self._box) if one.state is not State.OK]
        return sorted(findings, key=lambda one: one.state is not State.WRONG)

    def rates_of(self, queue: str) -> list[float]:
        """The messages a second that a queue's groups released, in steps of ten seconds while a page was open, oldest first."""
        return list(self._rates.get(queue, ()))

    def look(self) -> None:
        """Count the messages that the queues have released, if that is due."""
        if time.monotonic() - self._looked >= _LOOK_S:
            now, before = time.monotonic(), self._released
            found = queues.released(self._box)
            took = time.monotonic() - now
            self._looked = time.monotonic() + max(took * _SHARE - _LOOK_S, 0.0)
            self._released = now, found
            if before is not None:
                for queue, count in found.items():
                    past = self._rates.setdefault(queue, deque(maxlen=_KEPT))
                    past.append(max(count - before[1].get(queue, 0), 0) / (now - before[0]))

    def _check(self) -> Law:
        """Check the law by its sums, and from time to time, or if they are uneven, group by group."""
        began, account = time.monotonic(), None
        try:
            account = account_within(
                self._box, _LAW_LIMIT_S
            )  # for a role that sees some queues only, the sums of these
            if began >= self._next_audit or (account is not None and not account.is_even):
                self._audit()
        except SeriatimError as error:
            self._next_audit = float("-inf")
            return Law(None, error.what, account)
        return replace(self._audited, account=account)

    def _audit(self) -> None:
        began = time.monotonic()
        found = broken_within(self._box, _LAW_LIMIT_S)
        why = "" if found is not None else "the box is large: seriatim doctor --audit checks it to the end"
        self._audited = Law(found, why, at=self.now())
        took = time.monotonic() - began
        self._next_audit = time.monotonic() + took * (_SHARE if found else _AUDIT_SHARE)


def _seldom(took: float) -> float:
    return took * _SHARE if took > _QUICK_S else 0.0


class Poller:
    """Asks for changes once a second while pages are open, and sends them to all of these pages."""

    def __init__(self, box: MessageBox, looks: Looks, pipelines: Pipelines | None = None) -> None:
        self._box = box
        self._looks = looks
        self._pipelines = pipelines or Pipelines()
        self._listeners: set[asyncio.Queue[str | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Why the box can't be asked; empty: it can, or nobody has asked yet.
        self._away = ""

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
            if self._away:
                yield _event("away", self._away)
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
        counts = self._looks.number
        while self._listeners and not self._is_over:
            try:
                now = {**await asyncio.to_thread(changes, self._box), **self._pipelines.changes()}
                await asyncio.to_thread(self._looks.look)
            except SeriatimError as error:
                if not self._away:
                    LOG.warning("console_box_away", error=error)
                    self._send("away", error.what)
                self._away, before = error.what, None
            else:
                changed = sorted(name for name in now if before is not None and now[name] != before.get(name))
                counts, is_counted = self._looks.number, self._looks.number != counts
                if self._away or is_counted or (before is not None and set(changed) - _HEARTBEATS):
                    self._send("changed", json.dumps(changed))
                elif changed:
                    self._send("alive", json.dumps(changed))
                before, self._away = now, ""
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(_ASK_S)

    def _send(self, kind: str, data: str) -> None:
        for one in self._listeners:
            self._tell(one, _event(kind, data))

    @staticmethod
    def _tell(one: asyncio.Queue[str | None], event: str | None) -> None:
        while one.full():  # a page that doesn't listen needs only the newest
            one.get_nowait()
        one.put_nowait(event)


def _event(kind: str, data: str) -> str:
    return f"event: {kind}\ndata: {' '.join(data.splitlines())}\n\n"
