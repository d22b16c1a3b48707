"""`Party`: one of the three that know numbers. A call that takes too long counts as absent; it isn't asked again for a while."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from seriatim.box.connection.interruption import Interruption
from seriatim.box.postgres.translate import is_locked
from seriatim.errors import DeploymentError, SchemaMismatch, SeriatimError, Unavailable, UsageError
from seriatim.rested import asked_within

Resource = TypeVar("Resource")
_Result = TypeVar("_Result")
#: A party that wasn't asked for this long is asked, so that its connection stays open, seconds.
_WARM_S = 5.0


class _Call:
    def __init__(self, work: Callable[[], object], patience_s: float) -> None:
        self.work = work
        self._patience_s = patience_s
        self.done = threading.Event()
        self.result: object = None
        self.error: BaseException | None = None

    def run(self, interruption: Interruption) -> None:
        try:
            # A dropped idle connection leaves time for another one.
            with interruption.calling(self), asked_within(self._patience_s / 3):
                self.result = self.work()
        except BaseException as error:  # noqa: BLE001 -- raised where the call was made
            self.error = error
        finally:
            self.done.set()


class _Thread:
    """A thread that makes one call after another; a daemon, because a frozen server would delay the process's end."""

    def __init__(self, name: str) -> None:
        self.calls: queue.Queue[_Call | None] = queue.Queue()
        self.interruption = Interruption()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (call := self.calls.get()) is not None:
            call.run(self.interruption)


class Party(Generic[Resource]):
    """A box or the journal, opened at first use. Threads may share it."""

    def __init__(
        self, name: str, opened: Callable[[], Resource], close: Callable[[Resource], None], patience_s: float,
        retry_after_s: float,
    ) -> None:  # fmt: skip
        self.name = name
        self._open, self._close = opened, close
        self.patience_s, self._retry_after_s = patience_s, retry_after_s
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._resource: Resource | None = None
        self._away_until = 0.0
        self._why = ""
        self._idle: list[_Thread] = []
        self._asked_at = 0.0
        self._is_closed = False

    @property
    def resource(self) -> Resource:
        with self._opening:
            if self._is_closed:
                raise UsageError("the regions are closed", remedy="open them again")
            if self._resource is None:
                self._resource = self._open()
            return self._resource

    @property
    def is_away(self) -> bool:
        """Whether it isn't asked now, because it didn't answer a moment ago."""
        return time.monotonic() < self._away_until

    def ask_again(self) -> None:
        """Ask it at the next call, even if it didn't answer a moment ago."""
        self._away_until = 0.0

    def keep_warm(self, touch: Callable[[Resource], object]) -> None:
        """Call `touch` with it, without waiting, if it wasn't asked for a while: so its connection works when it is needed."""
        with self._lock:
            if self.is_away or self._is_closed or time.monotonic() - self._asked_at < _WARM_S:
                return
            self._asked_at = time.monotonic()
        threading.Thread(target=self._warm, args=[touch], name=f"seriatim {self.name}", daemon=True).start()

    def _warm(self, touch: Callable[[Resource], object]) -> None:
        with suppress(SeriatimError):  # the next caller gets the error
            self.call(touch)

    def call(
        self, work: Callable[[Resource], _Result], *, patience_s: float | None = None, anyway: bool = False
    ) -> _Result:
        """Do something with it, for a while at most."""
        if self.is_away and not anyway:
            raise Unavailable(f"{self.name} is away: {self._why}", remedy="repeat it later")
        patience_s = self.patience_s if patience_s is None else patience_s
        with self._lock:
            thread = self._idle.pop() if self._idle else _Thread(f"seriatim {self.name}")
        call = _Call(lambda: work(self.resource), patience_s)
        self._asked_at = time.monotonic()
        thread.calls.put(call)
        if not call.done.wait(patience_s):
            thread.interruption.ask(call)
            thread.calls.put(None)  # it ends when its call does
            why = f"it didn't answer within {patience_s:g} s"
            if patience_s > self.patience_s:  # the next short call shows whether it is away
                raise Unavailable(f"{self.name} is busy: {why}", remedy="repeat it later")
            raise self._away(why)
        with self._lock:
            self._idle.append(thread)
        if (error := call.error) is None:
            self._away_until = 0.0
            return call.result  # type: ignore[return-value]
        if isinstance(error, SchemaMismatch) or is_locked(error):
            raise error
        if isinstance(error, Unavailable | DeploymentError):
            raise self._away(str(error)) from error
        raise error

    def close(self) -> None:
        """Close it; a call under way ends by itself."""
        with self._lock:
            idle, self._idle = self._idle, []
        for resource in idle:
            resource.calls.put(None)
        if not self._opening.acquire(timeout=self.patience_s):
            return  # a call is opening it, and its server doesn't answer
        try:
            self._is_closed = True
            opened, self._resource = self._resource, None
        finally:
            self._opening.release()
        if opened is not None:
            self._close(opened)

    def _away(self, why: str) -> Unavailable:
        self._why = why
        self._away_until = time.monotonic() + self._retry_after_s
        return Unavailable(f"{self.name} is away: {why}", remedy="repeat it later")
