"""A separate program that keeps the embedded PostgreSQL running while a process uses it.

Each process that uses the server holds a shared lock on ``users.lock``; the kernel releases it when the process ends,
for any reason. The supervisor waits for the exclusive lock. When it gets the lock, no user is left, and it stops the
server. It restarts a server that dies while it is used. If the supervisor itself is killed, the server stops, too.

It is started by its path and uses the standard library only, so that it starts fast.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: The longest time of a clean stop; after it an immediate one follows, and the next start recovers from the log.
_STOP_S = 7.0
#: The number of failed starts in a row after which the server isn't started again.
_FAILED_STARTS = 3
#: The line of its note with the server's state, and its text for a server that answers.
_STATUS_LINE, _READY = 7, "ready   "
_PR_SET_PDEATHSIG = 1
#: Bytes at the end of the heap that a process of the server keeps, though it needs them only for the next statement: by default the C
#: library returns them after each, and gets them again from the kernel, empty (see mallopt(3)).
_KEPT_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "16777216", "MALLOC_TOP_PAD_": "1048576", "MALLOC_MMAP_THRESHOLD_": "4194304"}

#: A server's files in the folder of its socket; nothing else is removed there.
_SOCKET_NAMES = (".s.PGSQL.5432", ".s.PGSQL.5432.lock")
#: Settings that the server gets from us and from no file in its data, since each of these can run programs or load libraries, write or
#: listen elsewhere, or hide the socket. The command line takes precedence over files.
_SETTINGS = {
    "archive_cleanup_command": "",
    "archive_command": "",
    "archive_library": "",
    "archive_mode": "off",
    "dynamic_library_path": "$libdir",
    "external_pid_file": "",
    "ident_file": "/dev/null",
    "jit_provider": "llvmjit",
    "listen_addresses": "",
    "local_preload_libraries": "",
    "log_destination": "stderr",
    "logging_collector": "off",
    "log_checkpoints": "off",
    "max_connections": "200",
    "port": "5432",
    "primary_conninfo": "",
    "recovery_end_command": "",
    "restore_command": "",
    "session_preload_libraries": "",
    "shared_preload_libraries": "",
    "ssl": "off",
    "ssl_passphrase_command": "",
    "unix_socket_permissions": "0700",
}
#: Settings that older versions don't know.
_SETTINGS_SINCE = {18: {"extension_control_path": "$system", "oauth_validator_libraries": ""}}


@dataclass(frozen=True)
class Task:
    """The server to run. `folder`: the open one with the locks; `data`, `hba`: names in it; `uid`, `gid`: of another user."""

    folder: int
    data: str
    hba: str
    postgres: str
    sockets: str
    major: int
    uid: int | None
    gid: int | None


class _Supervisor:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._data = os.open(task.data, os.O_RDONLY | os.O_DIRECTORY)
        self._hba = os.open(task.hba, os.O_RDONLY | os.O_NOFOLLOW)
        self._server: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._clear()
        threading.Thread(target=self._wait_for_users, daemon=True).start()
        failed_starts = 0
        while not self._stopping.is_set() and failed_starts < _FAILED_STARTS:
            server = self._server = self._start()
            if self._stopping.is_set():  # the request came before there was a server to stop
                self._stop()  # and in a hurry later, because a new one misses the first signal
            stopped = server.wait() == 0
            failed_starts = 0 if stopped or self._had_answered() else failed_starts + 1
            if not self._stopping.is_set():
                self._clear()

    def _start(self) -> subprocess.Popen[bytes]:
        task = self._task
        data, hba = str(Path(task.data).absolute()), str(Path(task.hba).absolute())
        handed_over: tuple[int, ...] = ()
        if task.uid is not None:
            # The other user need not be able to walk to the folder: it gets the open files.
            data, hba = f"/proc/self/fd/{self._data}", f"/proc/self/fd/{self._hba}"
            handed_over = (self._data, self._hba)
        settings = _SETTINGS | {"data_directory": data, "hba_file": hba, "unix_socket_directories": task.sockets}
        # By these a box tells a copy of the folder from the folder itself.
        folder, status = os.fsencode(Path.cwd()).decode("utf-8", "backslashreplace"), os.fstat(self._data)
        settings |= {"seriatim.folder": folder, "seriatim.folder_inode": f"{status.st_dev}:{status.st_ino}"}
        for major, more in _SETTINGS_SINCE.items():
            settings |= more if task.major >= major else {}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return subprocess.Popen(
            [task.postgres, "-D", data, *options],
            user=task.uid,
            group=task.gid,
            extra_groups=None if task.uid is None else [],
            pass_fds=handed_over,
            cwd="/",
            env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"} | _KEPT_MEMORY,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 -- no other thread holds a lock that a child could want
        )

    def _had_answered(self) -> bool:
        """Whether the server that has died was ready; a server that ends by itself removes its note."""
        try:
            note = (Path(self._task.data) / "postmaster.pid").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return False
        return note.splitlines()[_STATUS_LINE:][:1] == [_READY]

    def _clear(self) -> None:
        """End processes that a killed server or supervisor left running on the data, and only then delete its stale notes. A note
        (``postmaster.pid``, and one beside the socket) names a process by a number that another process may have by now; with such a note
        PostgreSQL would never start again.
        """
        if sys.platform != "linux":
            return
        data = Path(self._task.data)
        deadline = time.monotonic() + _STOP_S
        while left := _servers_in(data):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGQUIT if time.monotonic() < deadline else signal.SIGKILL)
            time.sleep(0.05)
        (data / "postmaster.pid").unlink(missing_ok=True)
        for name in _SOCKET_NAMES:
            Path(self._task.sockets, name).unlink(missing_ok=True)

    def _wait_for_users(self) -> None:
        fcntl.flock(_lock("users.lock"), fcntl.LOCK_EX)
        self._stop()  # a new user waits for the lock until the process has ended

    def _stop(self) -> None:
        self._stopping.set()
        server = self._server
        if server is None:
            return
        server.send_signal(signal.SIGINT)
        hurry = threading.Timer(_STOP_S, server.send_signal, [signal.SIGQUIT])
        hurry.daemon = True
        hurry.start()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _servers_in(data: Path) -> list[int]:
    servers = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            is_server = process.name.isdigit() and (process / "comm").read_text().strip() == "postgres"
            if is_server and (process / "cwd").samefile(data):
                servers.append(int(process.name))
    return servers


def _lock(name: str) -> int:
    """Lock a file in the folder for as long as this process runs."""
    return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def main(task: Task) -> None:
    """Run in the background until no process uses the server any more; returns to the caller at once."""
    os.fchdir(task.folder)  # wherever that is by now
    fcntl.flock(_lock("supervisor.lock"), fcntl.LOCK_EX)
    if os.fork():
        os._exit(0)  # the lock belongs to both; no parent has to reap the other
    try:
        _Supervisor(task).run()
    finally:
        with suppress(OSError):
            for name in _SOCKET_NAMES:
                Path(task.sockets, name).unlink(missing_ok=True)
            Path(task.sockets).rmdir()


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])))
