"""Calls of the user's code: noted while they run, and moved to a separate process after a call has ended its worker.

A worker notes each call of the user's function in a small file, and removes the file when the call returns. So a run
can report in which function a batch takes long. If the call ends its worker (by a segmentation fault, or because the
kernel kills a process that takes too much memory), the file stays, and the batch is processed once more with each call
in a separate process (`child_process.py`). A message at which that process ends, too, is *fatal*: it is recorded for
its batch before anything of the batch leaves, so that the batch has the same result whenever it runs again.

This works if the workers share the folder with the driver; elsewhere nothing is noted, and a fatal message is found by
Spark's own second attempt.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from pyspark import TaskContext

from seriatim.spark.calls.child_process import Ended, apart

_T = TypeVar("_T")
_BATCH_ID = "streaming.sql.batchId"
_FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is running.

    Args:
        function: the function's name.
        messages: the number of messages that it got.
        first: the id of the first message.
        since_s: its start, in seconds since 1970.
        batch: the micro-batch; -1: none.
    """

    function: str
    messages: int
    first: str
    since_s: float
    batch: int = -1


@dataclass(frozen=True, slots=True)
class Calling:
    """The way in which a worker calls the user's code."""

    #: The folder for notes of calls; None: calls aren't noted.
    folder: str | None = None
    #: The micro-batch in which a worker was ended before; -1: none.
    doubted: int = -1
    batch: int = -1
    #: Whether each call is made in a separate process.
    apart: bool = False
    function: str = ""
    place: str = ""

    def here(self) -> Calling:
        """The same, for the Spark task of this thread."""
        task = TaskContext.get()
        if task is None:
            return self
        batch = int(task.getLocalProperty(_BATCH_ID) or -1)
        again = batch >= 0 and batch == self.doubted
        return replace(self, batch=batch, apart=again or task.attemptNumber() > 0)

    def of(self, function: str, place: str | None) -> Calling:
        return replace(self, function=function, place=place or "")

    def call(self, messages: int, first: str, work: Callable[[], _T]) -> _T | Ended:
        """Run `work`, which calls the function; in a separate process it may end without a result."""
        with self.noted(messages, first):
            return apart(work) if self.apart else work()

    def noted(self, messages: int, first: str) -> AbstractContextManager[None]:
        return noted(self.folder, self.function, messages, first, self.batch)

    def fatal(self, messages: Callable[[], Iterable[tuple[str, bytes | None]]]) -> dict[int, str]:
        """The places of messages that were found fatal in this batch before, and the reasons."""
        folder = self._fatal()
        if folder is None or not folder.is_dir():
            return {}
        known = {file.name for file in folder.iterdir()}
        names = (self._name(message_id, body) for message_id, body in messages())
        return {place: (folder / name).read_text("utf-8") for place, name in enumerate(names) if name in known}

    def keep_fatal(self, message_id: str, body: bytes | None, reason: str) -> None:
        """Record that a message is fatal. Raises `OSError`."""
        folder = self._fatal()
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / self._name(message_id, body)
        hidden = folder / f".{file.name}-{uuid.uuid4().hex}"
        with hidden.open("w", encoding="utf-8") as out:
            out.write(reason)
            out.flush()
            os.fsync(out.fileno())
        hidden.rename(file)

    def _fatal(self) -> Path | None:
        return None if self.folder is None or self.batch < 0 else Path(self.folder, _FATAL, str(self.batch))

    def _name(self, message_id: str, body: bytes | None) -> str:
        """A key that is unique to a message in a batch; a source may have two messages with the same id."""
        told = json.dumps([self.function, self.place, message_id]).encode()
        return blake2b(told + (body or b""), digest_size=20).hexdigest()


@contextmanager
def noted(folder: str | None, function: str, messages: int, first: str, batch: int = -1) -> Iterator[None]:
    """Note a call while the block runs; without a note if the folder can't be written."""
    if folder is None:
        yield
        return
    note = Path(folder, f"{os.getpid()}-{uuid.uuid4().hex}")
    with suppress(OSError):
        note.write_text(json.dumps(asdict(Call(function, messages, first, time.time(), batch))), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def calls_in(folder: Path) -> list[Call]:
    """The running calls, the longest first. Calls of a killed worker stay until `forget_calls`."""
    calls = []
    with suppress(OSError):
        for note in folder.iterdir():
            with suppress(OSError, ValueError, TypeError):  # it has just returned, or is being written
                calls.append(Call(**json.loads(note.read_text(encoding="utf-8"))))
    return sorted(calls, key=lambda call: call.since_s)


def left_calls(folder: Path) -> int:
    """The last micro-batch with a call that never returned; -1: none. Call it only while no query runs."""
    return max((call.batch for call in calls_in(folder)), default=-1)


def forget_calls(folder: Path) -> None:
    """Make the folder, and delete all notes of calls; call it before a query starts."""
    folder.mkdir(parents=True, exist_ok=True)
    for note in folder.iterdir():
        if note.name != _FATAL:
            note.unlink(missing_ok=True)


def forget_fatal(folder: Path, batch: int) -> None:
    """Delete the records of fatal messages before a micro-batch: these batches are done and won't run again."""
    with suppress(FileNotFoundError):
        for old in Path(folder, _FATAL).iterdir():
            if int(old.name) < batch:
                shutil.rmtree(old)
