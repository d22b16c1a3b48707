"""Calls of the user's code that are under way: noted by the workers, read by whoever shows a run's progress.

A worker that calls the user's function says so in a small file and removes it when the call returns, so that a run
can tell in which function a batch has been for so long. It is told as far as the workers share the folder with the
driver; elsewhere nothing is noted, and nothing depends on it.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Call", "calls_in", "forget_calls", "noted"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call under way.

    Args:
        function: its name.
        messages: how many it got.
        first: the id of the first of them.
        since_s: when it began, in seconds since 1970.
    """

    function: str
    messages: int
    first: str
    since_s: float


@contextmanager
def noted(folder: str | None, function: str, messages: int, first: str) -> Iterator[None]:
    """Note a call while the block runs; where the folder can't be written, do without."""
    if folder is None:
        yield
        return
    note = Path(folder, f"{os.getpid()}-{uuid.uuid4().hex}")
    with suppress(OSError):
        note.write_text(json.dumps(asdict(Call(function, messages, first, time.time()))), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            note.unlink(missing_ok=True)


def calls_in(folder: Path) -> list[Call]:
    """The calls under way, the longest first. Those of a worker that was killed stay until `forget_calls`."""
    found = []
    with suppress(OSError):
        for note in folder.iterdir():
            with suppress(OSError, ValueError, TypeError):  # it has just returned, or is being written
                found.append(Call(**json.loads(note.read_text(encoding="utf-8"))))
    return sorted(found, key=lambda call: call.since_s)


def forget_calls(folder: Path) -> None:
    """Make the folder, empty; before a query starts and when a batch is done, there is no call."""
    folder.mkdir(parents=True, exist_ok=True)
    for note in folder.iterdir():
        note.unlink(missing_ok=True)
