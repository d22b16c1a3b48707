"""A run on Spark as a process group of its own, to be killed, and what /proc says of processes."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.command import command, environment

DEADLINE_S = 480.0
#: How often a moment to kill is looked for, which may be short; and what stays once it has come. A look takes time from who is looked at.
LOOK_S, PATIENT_LOOK_S = 0.002, 0.05
FREEZE_S = 5.0


class Run:
    """A running command: the driver and Spark in one process group, the workers in the same session."""

    def __init__(self, process: subprocess.Popen[bytes], told: Path) -> None:
        self.process = process
        self._told = told

    def progress(self) -> list[dict[str, object]]:
        """What it has told so far; a line that is not complete yet doesn't count."""
        return [json.loads(line) for line in self._told.read_bytes().split(b"\n")[:-1]]

    def kill_when(self, moment: Callable[[Run], bool]) -> None:
        """SIGKILL the process group at a moment, which is short only when Spark has workers.

        The group is frozen first, and killed only if the moment is still there; else it goes on to the next one.
        A group may not freeze: where one process waits for a child that it has just made (vfork) and the child is
        stopped, the parent can't be.
        """
        until(lambda: moment(self) or self._has_workers(), self.process)
        while True:
            until(lambda: moment(self), self.process, LOOK_S)
            if self.freezes() and moment(self):
                break
            self.thaw()
        os.killpg(self.process.pid, signal.SIGKILL)
        assert self.process.wait(DEADLINE_S) == -signal.SIGKILL
        for one in self.alive():  # workers end when Spark is gone
            wait_for_end(one)

    def freezes(self) -> bool:
        """SIGSTOP the process group; whether all of it stands still now."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        until = time.monotonic() + FREEZE_S
        while time.monotonic() < until:
            if self._is_frozen():
                return True
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_S)
        return False

    def thaw(self) -> None:
        """Let the process group go on."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def wait(self) -> int:
        """The exit code, when it has ended by itself."""
        return self.process.wait(DEADLINE_S)

    def alive(self) -> dict[int, str]:
        """The processes of its session that are not gone, and their names."""
        return in_session(self.process.pid)

    def _has_workers(self) -> bool:
        every = [(one, *told) for one, told in _processes()]
        java = {one for one, name, _, _, session in every if name == "java" and session == self.process.pid}
        return any(parent in java for _, _, _, parent, _ in every)

    def _is_frozen(self) -> bool:
        group = [one for one in self.alive() if _group(one) == self.process.pid]
        return all(map(is_stopped, group))


@contextmanager
def running(file: Path, told: Path, *options: str) -> Iterator[Run]:
    """Start the command on a pipeline file; its JSON lines go to `told`, its errors beside it."""
    with started(command("run", file, "--once", "--json", *options), file.parent, told) as run:
        yield run


@contextmanager
def started(words: Sequence[str], folder: Path, told: Path) -> Iterator[Run]:
    """Start a command in a folder; what it prints goes to `told`, its errors beside it."""
    with told.open("wb") as out, told.with_suffix(".err").open("wb") as errors:
        process = subprocess.Popen(
            words, stdout=out, stderr=errors, cwd=folder, env=environment(), start_new_session=True
        )
    run = Run(process, told)
    try:
        yield run
    finally:
        for one in run.alive():
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait(DEADLINE_S)


def until(condition: Callable[[], bool], process: subprocess.Popen[bytes], look_s: float = PATIENT_LOOK_S) -> None:
    """Wait for a condition that comes about while a process runs."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "the moment didn't come"
        try:
            code = process.wait(look_s)
        except subprocess.TimeoutExpired:
            continue
        raise AssertionError(f"it ended before the moment came, with {code}")


def in_session(leader: int) -> dict[int, str]:
    """The processes of a session that are not gone, and their names."""
    return {one: name for one, (name, state, _, session) in _processes() if session == leader and state != "Z"}


def children(process: int) -> list[int]:
    """The processes that a process has started and that are not gone."""
    return [one for one, (_, state, parent, _) in _processes() if parent == process and state != "Z"]


def _processes() -> Iterator[tuple[int, tuple[str, str, int, int]]]:
    """(process id, (name, state, parent, session)) of all."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            name, rest = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
            yield int(folder.name), (name, rest[0], int(rest[1]), int(rest[3]))


def wait_for_end(process: int) -> None:
    """Wait until a process that may not be ours is gone."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([handle], [], [], DEADLINE_S)
    finally:
        os.close(handle)
    assert ended, f"process {process} is still alive"


def _group(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except ProcessLookupError:
        return None


def is_stopped(process: int) -> bool:
    """Whether no thread of a process runs, or will before it is told to."""
    return all(state in {"T", "Z"} for state in _states(process))


def _states(process: int) -> Iterator[str]:
    """The states of its threads."""
    for stat in Path("/proc", str(process), "task").glob("*/stat"):
        try:
            text = stat.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        yield text[text.rindex(")") + 2]
