"""Run work in a separate process, for code that may end the process that it runs in.

The child is a fork: it has all data of the parent, and its changes in memory don't affect the parent. It returns the
result of the work pickled.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO, NoReturn, TypeVar

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that ended before its work did."""

    #: Its exit code; negative: the signal that ended it.
    status: int

    def __str__(self) -> str:
        if self.status >= 0:
            return f"exit code {self.status}"
        try:
            name = signal.Signals(-self.status).name
        except ValueError:  # a real-time signal has no name
            name = "no name"
        return f"signal {-self.status} ({name})"


def apart(work: Callable[[], _T]) -> _T | Ended:
    """Run `work` in a child process; return its result, or how the process ended without a result."""
    code, reply = _in_child(lambda answer: _hand_back(work, answer))
    if code:
        return Ended(code)
    try:
        returned, value = pickle.loads(reply)  # noqa: S301 -- by the child
    except (EOFError, pickle.UnpicklingError):  # it ended by `os._exit(0)` and wrote no result
        return Ended(code)
    if not returned:
        raise value
    done: _T = value
    return done


def ends(work: Callable[[int], object], places: Sequence[int]) -> tuple[int, Ended] | None:
    """Run `work` for one place after another in a child process; results and exceptions are ignored."""

    def do(done: BinaryIO) -> None:
        for place in places:
            with suppress(Exception, SystemExit):
                work(place)
            done.write(b".")
            done.flush()

    code, done = _in_child(do)
    return (places[len(done)], Ended(code)) if len(done) < len(places) else None


def _in_child(work: Callable[[BinaryIO], None]) -> tuple[int, bytes]:
    """The exit code of a child, or the negative number of the signal that ended it, and its output."""
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _do(work, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        reply = answer.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), reply


def _do(work: Callable[[BinaryIO], None], writing: int) -> NoReturn:
    """Run the child; it never returns into the parent's code."""
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        with os.fdopen(writing, "wb") as answer:
            work(answer)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        status = 0
    finally:
        os._exit(status)


def _hand_back(work: Callable[[], object], answer: BinaryIO) -> None:
    try:
        outcome = True, work()
    except Exception as error:  # noqa: BLE001 -- it is raised by the parent
        outcome = False, error
    pickle.dump(outcome, answer, pickle.HIGHEST_PROTOCOL)
