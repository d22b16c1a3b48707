"""Processes that use the embedded PostgreSQL of a folder, and when its server has gone."""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import pytest

import seriatim as sq
from seriatim.box.server.embedded import trust
from seriatim.operations import identity
from tests.command import environment

DEADLINE_S = 120.0

_USER = """
import sys
import seriatim as sq

with sq.MessageBox.open() as box:
    with box.session() as tx:
        first = tx.dispense("crm", count=10).first
    print(first, flush=True)
    sys.stdin.readline()
"""


def _environment() -> dict[str, str]:
    return {name: value for name, value in environment().items() if name != "SERIATIM_DSN"}


class User:
    """A process that has taken ten numbers, and keeps the box open until it is told to end."""

    def __init__(self, folder: Path, *before: str) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", _USER],
            cwd=folder,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> Self:
        """When it has the box open and its numbers."""
        self.first = int(self.process.stdout.readline())
        return self

    def end(self) -> int:
        """Its exit code, when it has been told to end."""
        self.process.communicate("\n")
        return self.process.returncode

    def kill(self) -> None:
        if not self.process.stdout.closed:
            self.process.kill()
            self.process.communicate()


def put_box(folder: Path) -> None:
    """Put what the first use of a folder leaves behind there, so that the next use needs a tenth of the time: an empty box."""
    subprocess.run(["cp", "-a", Path(_made().name, ".seriatim"), folder], check=True)
    trust(folder / ".seriatim" / "postgres")  # a copy is somebody else's


@cache
def _made() -> TemporaryDirectory[str]:
    """The folder of a box that was made and closed. It is gone at the end of this process."""
    made = TemporaryDirectory(prefix="seriatim-box-")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.name)
        patch.delenv("SERIATIM_DSN", raising=False)
        with sq.MessageBox.open() as box:
            identity.forget(box)
    assert has_gone(Path(made.name))
    return made


def has_gone(folder: Path) -> bool:
    """Whether the server of a folder has gone, or goes within the deadline: one that lost its supervisor is told to stop."""
    return has_no_supervisor(folder) and all(map(_ends, servers_in(data_of(folder))))


def _ends(process: int) -> bool:
    try:
        ended = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([ended], [], [], DEADLINE_S)[0])
    finally:
        os.close(ended)


def has_no_supervisor(folder: Path) -> bool:
    """Whether the supervisor of a folder has ended, or ends within the deadline: its lock is free then."""
    server = folder / ".seriatim" / "postgres"
    free = threading.Event()

    def wait() -> None:
        with (server / "supervisor.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            free.set()

    threading.Thread(target=wait, daemon=True).start()
    return free.wait(DEADLINE_S)


def servers_in(data: Path) -> list[int]:
    """The processes of PostgreSQL that work on a data folder."""
    from seriatim.box.server.supervisor import _servers_in

    return _servers_in(data)


def supervisor_of(data: Path) -> int:
    """The process that started the server."""
    postmaster = int((data / "postmaster.pid").read_text().split()[0])
    status = Path(f"/proc/{postmaster}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid")))


def data_of(folder: Path) -> Path:
    return folder / ".seriatim" / "postgres" / "data"


def is_root() -> bool:
    return os.geteuid() == 0
