"""A thread that listens for all that wait in a process, on one connection; it begins with the first and ends when nobody waits any more."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Protocol

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.listener import Listener
from seriatim.errors import SeriatimError
from seriatim.pipeline.text.event_log import LOG

#: A notification may be missed, and a group may become free without one; a look at this interval finds it, seconds.
LOOK_S = 1.0
#: How long the thread stays after the last one that waited has gone: others may come; seconds.
IDLE_S = 15.0


class Opened(Protocol):
    @property
    def access(self) -> Access:
        """The box as internal modules use it."""


class ListeningThread(ABC):
    """A thread that begins and ends by itself. `more`: opens the box with one more connection."""

    def __init__(self, more: Callable[[], AbstractContextManager[Opened]]) -> None:
        self._more = more
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        #: A pipe that tells the thread of a change.
        self._heard, self._told = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._told, False)
        self._is_closed = False

    @property
    @abstractmethod
    def _is_needed(self) -> bool:
        """Whether anybody waits."""

    @abstractmethod
    def call_all(self) -> None:
        """Have all that wait look once more. Thread-safe."""

    @abstractmethod
    def _listen(self, listener: Listener, transaction: Transaction) -> None:
        """Call those that wait, until none has waited for a while."""

    def close(self) -> None:
        """End the thread. All that wait look once more, and find the box closed."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._stir()
        if thread is not None:
            thread.join()
        self.call_all()

    def __del__(self) -> None:
        os.close(self._told)
        os.close(self._heard)

    def _begin(self) -> None:
        """Begin the thread, or tell it of a change; the caller has the lock."""
        self._stir()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="seriatim-listens", daemon=True)
            self._thread.start()

    def _stir(self) -> None:
        with suppress(BlockingIOError):  # it is full of the same notifications
            os.write(self._told, b".")

    def _stirred(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._heard, 65536)

    def _run(self) -> None:
        while True:
            try:
                with self._more() as box, box.access.connect() as connection, translated(box.access.place):
                    transaction = Transaction(box.access, connection)
                    listener = Listener(transaction)
                    with listener.listening():
                        self._listen(listener, transaction)
            except SeriatimError as error:
                LOG.warning("listening_retried", error=error)
                self.call_all()  # the next lookers get the error
                time.sleep(LOOK_S)
            with self._lock:
                if self._is_closed or not self._is_needed:
                    self._thread = None
                    return
