"""Seconds of processor time by kind of process: what something costs, also on a machine that does other work."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import astuple, dataclass
from operator import sub
from pathlib import Path

__all__ = ["Used", "peaks", "used"]

#: The bit of SIGCHLD in the list of the signals that a process ignores.
_SIGCHLD = 1 << (signal.SIGCHLD - 1)
#: The seconds of each child of a process that ignores SIGCHLD, by its number and its start, when it was last seen. PySpark's daemon does,
#: so the kernel forgets what an ended worker has used.
_FORGOTTEN: dict[tuple[int, str], float] = {}


@dataclass(frozen=True, slots=True)
class Used:
    """Seconds of processor time: of Spark's JVM, of its compilers, of Python workers, of PostgreSQL, and of this process."""

    jvm: float = 0.0
    compilers: float = 0.0
    python: float = 0.0
    server: float = 0.0
    own: float = 0.0

    def __sub__(self, before: Used) -> Used:
        return Used(*map(sub, astuple(self), astuple(before)))

    @property
    def total(self) -> float:
        """All of them."""
        return sum(astuple(self))

    @property
    def steady(self) -> float:
        """All but the JVM's compilers, which are busy in a short run only."""
        return self.total - self.compilers

    def told(self, messages: int) -> str:
        """The seconds for 100,000 messages, for people; as `steady`."""
        kinds = (("JVM", self.jvm), ("Python", self.python), ("PostgreSQL", self.server), ("this process", self.own))
        return ", ".join(f"{name} {seconds * 100_000 / messages:.2f}" for name, seconds in kinds if seconds)


def used(server: int | None = None) -> Used:
    """What this process and those that it started have used so far.

    Args:
        server: the process of a PostgreSQL server, whose processes count, too.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    own: dict[int, float] = {}
    gone: dict[int, float] = {}
    started: dict[int, str] = {}
    for process, fields in _read(Path("/proc")):
        children[int(fields[1])].append(process)
        own[process], gone[process], started[process] = _seconds(fields[11:13]), _seconds(fields[13:15]), fields[19]

    def below(process: int) -> float:
        found = {child: own[child] + below(child) for child in children[process]}
        if found and _forgets(process):
            _FORGOTTEN.update({(child, started[child]): seconds for child, seconds in found.items()})
        return gone.get(process, 0.0) + sum(found.values())

    me = os.getpid()
    of_python = below(me)
    forgotten = sum(seconds for (child, start), seconds in _FORGOTTEN.items() if started.get(child) != start)
    jvms = [child for child in children[me] if _name(Path(f"/proc/{child}")) == "java"]
    threads = [
        (Path(f"/proc/{jvm}/task/{thread}"), fields)
        for jvm in jvms
        for thread, fields in _read(Path(f"/proc/{jvm}/task"))
    ]
    compilers = sum(_seconds(fields[11:13]) for thread, fields in threads if "CompilerThre" in _name(thread))
    of_jvms = sum(own[jvm] for jvm in jvms)
    return Used(
        of_jvms - compilers,
        compilers,
        of_python + forgotten - of_jvms,
        own.get(server, 0.0) + below(server) if server is not None else 0.0,
        own[me],
    )


def _forgets(process: int) -> bool:
    """Whether what ended children have used is forgotten."""
    with suppress(OSError):  # it has just ended
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("SigIgn:"):
                return bool(int(line.split()[1], 16) & _SIGCHLD)
    return False


def peaks() -> tuple[float, float]:
    """The most memory, in MB, that Spark's process has had so far, and the most that any living Python worker has had."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for process, fields in _read(Path("/proc")):
        children[int(fields[1])].append(process)
    jvms = [child for child in children[os.getpid()] if _name(Path(f"/proc/{child}")) == "java"]
    below = [*jvms]
    for process in below:
        below += children[process]
    return max(map(_peak, jvms), default=0.0), max(map(_peak, set(below) - set(jvms)), default=0.0)


def _peak(process: int) -> float:
    with suppress(OSError):  # it has just ended
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1000
    return 0.0


def _read(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """The numbers of processes or threads, with what the kernel tells of them behind their names."""
    for one in folder.iterdir():
        if one.name.isdecimal():
            with suppress(OSError):  # it has just ended
                yield int(one.name), (one / "stat").read_text().rpartition(")")[2].split()


def _seconds(ticks: list[str]) -> float:
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _name(of: Path) -> str:
    with suppress(OSError):
        return (of / "comm").read_text().strip()
    return ""
