"""A standalone cluster of Spark on this machine: a master and workers, each a process group of its own.

The workers know nothing of seriatim: their environment has no path to it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from tests.command import environment
from tests.faults.process import DEADLINE_S, children, in_session, is_stopped, until, wait_for_end

SPARK_HOME = Path(pyspark.__file__).parent
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"
_EXECUTOR = b"CoarseGrainedExecutorBackend"
#: How often a task that writes is looked for, and which processes may have one: these are the same from batch to batch.
_LOOK_S, _WRITERS_S = 0.001, 0.2


class Node:
    """A master or a worker."""

    def __init__(self, name: str, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._log = log
        self._process = process

    def said(self, what: re.Pattern[str] | str) -> re.Match[str] | None:
        """The first place in its log."""
        return re.search(what, self._log.read_text(errors="replace"))

    def wait_until_it_says(self, what: re.Pattern[str] | str) -> re.Match[str]:
        """The first place in its log, when it is there."""
        until(lambda: self.said(what) is not None, self._process)
        found = self.said(what)
        assert found is not None
        return found

    def executors(self) -> list[int]:
        """The process ids of the executors that a worker has started."""
        return [one for one in children(self._process.pid) if _EXECUTOR in _command_of(one)]

    def kill_executor(self, executor: int) -> None:
        """SIGKILL to an executor alone; its Python workers end by themselves, those too that were stopped."""
        left = [one for child in children(executor) for one in (child, *children(child))]
        os.kill(executor, signal.SIGKILL)
        for one in left:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)
            wait_for_end(one)

    def kill(self) -> None:
        """SIGKILL to the node and its executors, all at once; Python workers end when their executor is gone."""
        family = in_session(self._process.pid)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(DEADLINE_S)
        for one in family:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)
            wait_for_end(one)


class Cluster:
    """A master and its workers, of one core each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.nodes: list[Node] = []
        self.url = ""

    @property
    def workers(self) -> list[Node]:
        """The workers, dead ones too."""
        return self.nodes[1:]

    def start(self, workers: int) -> None:
        """Start all nodes and wait until they know each other."""
        self._start("master", "master.Master", "--webui-port", "0")
        self.url = self.nodes[0].wait_until_it_says(_MASTER)[1]
        for number in range(workers):
            name = f"worker-{number}"
            place = ["--work-dir", str(self._folder / name), "--webui-port", "0"]
            self._start(name, "worker.Worker", "--cores", "1", "--memory", "1g", *place, self.url)
        for worker in self.workers:
            worker.wait_until_it_says(_REGISTERED)

    def stop(self) -> None:
        """Kill what is left."""
        for node in self.nodes:
            node.kill()

    def _start(self, name: str, main: str, *options: str) -> None:
        words = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{main}"]
        words += ["--host", "127.0.0.1", "--port", "0", *options]
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                words, stdout=out, stderr=out, cwd=self._folder, env=self._environment(), start_new_session=True
            )
        self.nodes.append(Node(name, log, process))

    def _environment(self) -> Mapping[str, str]:
        without = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
        local = self._folder / "local"
        return {**without, "SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_DIRS": str(local), "SPARK_DAEMON_MEMORY": "256m"}


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """A cluster with its logs and scratch files in a folder, gone at the end of the block."""
    folder.mkdir()
    made = Cluster(folder)
    try:
        made.start(workers)
        yield made
    finally:
        made.stop()


def catch_writing(worker: Node, ports: list[Path], process: subprocess.Popen[bytes]) -> int:
    """Stop a task of a worker's executor while it has a file of one of the ports open, and say which executor it is.

    Such a task has not answered the driver, so its micro-batch can't be complete. When its executor is killed, it is
    left behind with its file.
    """
    caught: list[int] = []
    writers: dict[int, int] = {}
    asked = 0.0

    def look() -> bool:
        nonlocal asked
        stagings = [staging for port in ports for staging in port.glob(".staging*")]
        if any(map(_is_filled, stagings)):
            caught.extend(executor for python, executor in writers.items() if _stop_writing(python, stagings))
        elif time.monotonic() - asked >= _WRITERS_S:
            writers.clear()
            writers.update(_writers(worker))
            asked = time.monotonic()
        return bool(caught)

    until(look, process, _LOOK_S)
    return caught[0]


def _writers(worker: Node) -> Iterator[tuple[int, int]]:
    """The Python processes of a worker's executors, each with its executor."""
    for executor in worker.executors():
        for daemon in children(executor):
            yield from ((one, executor) for one in children(daemon))


def _is_filled(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is not None
    except FileNotFoundError:
        return False


def _stop_writing(process: int, folders: list[Path]) -> bool:
    """Stop a process that has a file of one of the folders open; if it had closed it by then, let it go on."""
    if not _writes(process, folders):
        return False
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
        while not is_stopped(process):
            os.sched_yield()
        if _writes(process, folders):
            return True
        os.kill(process, signal.SIGCONT)
    return False


def _writes(process: int, folders: list[Path]) -> bool:
    return any(file.parent in folders for file in _open_files(process))


def _open_files(process: int) -> Iterator[Path]:
    with suppress(FileNotFoundError, ProcessLookupError):
        for link in Path("/proc", str(process), "fd").iterdir():
            with suppress(FileNotFoundError):
                yield link.readlink()


def _command_of(process: int) -> bytes:
    try:
        return Path("/proc", str(process), "cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
