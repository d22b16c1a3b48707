"""Threads that carry waiting batches to their ports, a few at a time.

A port may hang for ever, such as a table that another process has locked. Python waits at its end for the threads of an executor; these
threads don't keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait

_LOOK_S = 0.1


class Carriers:
    def __init__(self, most: int) -> None:
        self._room = threading.BoundedSemaphore(most)
        self._carried: dict[str, Future[None]] = {}

    def carry(self, destination: str, work: Callable[[], None]) -> None:
        """Start work for a destination in a thread, unless a thread works for it already."""
        if destination in self._carried:
            return
        done: Future[None] = Future()
        self._carried[destination] = done
        threading.Thread(target=self._work, args=(work, done), name=f"carrier of {destination}", daemon=True).start()

    def collect(self) -> None:
        """Forget finished work. Raises the work's error."""
        for destination, done in list(self._carried.items()):
            if done.done():
                del self._carried[destination]
                done.result()

    def forget_failures(self) -> None:
        """Forget failed work, so that it may be tried again."""
        self._carried = {name: done for name, done in self._carried.items() if not (done.done() and done.exception())}

    def settled(self) -> bool:
        """Return whether no thread is working. Raises the work's error."""
        return all(done.done() and done.result() is None for done in self._carried.values())

    def wait(self, given_up: Callable[[], bool]) -> bool:
        """Wait until no thread is working, and return True; or until `given_up`, asked several times a second, and return False."""
        while wait(self._carried.values(), timeout=_LOOK_S).not_done:
            if given_up():
                return False
        return True

    def _work(self, work: Callable[[], None], done: Future[None]) -> None:
        try:
            with self._room:
                work()
        except BaseException as error:  # noqa: BLE001 -- who collects it gets it
            done.set_exception(error)
        else:
            done.set_result(None)
