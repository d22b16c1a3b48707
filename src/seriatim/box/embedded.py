"""The embedded PostgreSQL: a private server of one folder, shared by the processes of one user.

Three locks, all by the kernel (`flock`), so that a process that dies leaves none behind: ``users.lock`` is held
shared by everybody who uses the server, ``start.lock`` by the one who starts it, ``supervisor.lock`` by the
supervisor, which stops it with the last user.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg

from seriatim.box import supervisor
from seriatim.box.binaries import NEWEST, Binaries, Owner, find_binaries
from seriatim.errors import EnvironmentProblem

__all__ = ["EmbeddedServer"]

_LOG = logging.getLogger("seriatim.box")
#: So often it is seen to that the server is supervised; after a start that failed it is left alone for longer.
_LOOK_S, _REST_S = 1.0, 10.0
#: Who closes it waits at most so long for a look that starts the server; without users that stops by itself.
_END_S = 5.0
#: A start after a crash reads the log again, which may take a while.
_START_S = 120.0
_LOG_BYTES = 10 * 2**20
#: A path of a unix socket has at most 107 bytes; PostgreSQL adds a name of its own.
_SOCKET_FOLDER_BYTES = 107 - len("/.s.PGSQL.5432")


class EmbeddedServer:
    """The server of a folder, running for as long as this object is open.

    It is started again where it was killed with its supervisor, also for those who have only its DSN: workers, and their
    processes.

    Args:
        folder: where it keeps its data, its log and its locks; made where it isn't there.
        major: the version of PostgreSQL for new data; data that are there keep theirs.

    Raises:
        EnvironmentProblem: it can't be started; says why and where its log is.
    """

    def __init__(self, folder: Path, major: int = NEWEST) -> None:
        self._folder = folder.absolute()
        self._major = major
        self._process = os.getpid()
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._users = (self._folder / "users.lock").open("a")
        except OSError as error:
            raise EnvironmentProblem(
                f"the folder of the embedded PostgreSQL can't be used: {error.strerror}",
                where=str(self._folder),
                remedy="use a folder of your own, or give a DSN",
            ) from error
        try:
            with _locked(self._folder / "start.lock"):
                fcntl.flock(self._users, fcntl.LOCK_SH)
                self.dsn = self._running()
        except BaseException:
            self.close()
            raise
        self._watch = threading.Thread(target=self._keep, name="seriatim-embedded", daemon=True)
        self._watch.start()

    def found_again(self) -> str:
        """The DSN, for a new connection: the server is started once more where its supervisor was killed.

        Raises:
            EnvironmentProblem: it can't be started; says why and where its log is.
        """
        if not self._is_supervised():
            with _locked(self._folder / "start.lock"):
                self.dsn = self._running()
        return self.dsn

    def close(self) -> None:
        """Stop using it. The last one's leaving stops it."""
        if os.getpid() == self._process:  # a forked child has no such thread
            self._closed.set()
            if self._watch is not None and self._watch is not threading.current_thread():
                self._watch.join(_END_S)
        self._users.close()

    def _keep(self) -> None:
        """Look again and again, until it is closed."""
        wait_s, told = _LOOK_S, ""
        while not self._closed.wait(wait_s):
            try:
                self.found_again()
            except Exception as error:  # noqa: BLE001 -- whatever it is, a later look may find better times
                wait_s = _REST_S
                if str(error) != told:
                    _LOG.warning("the embedded PostgreSQL is not back: %s", error)
                told = str(error)
            else:
                wait_s, told = _LOOK_S, ""

    def _running(self) -> str:
        """The DSN of the server, once it answers; starts it where nobody has."""
        started = False
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            # First the supervisor, then the server: one that has lost its supervisor may answer, and is stopping.
            if not self._is_supervised():
                if started:
                    raise self._problem("the embedded PostgreSQL doesn't start")
                self._start()
                started = True
            dsn = self._dsn()
            if dsn and _answers(dsn):
                return dsn
            time.sleep(0.02)
        raise self._problem(f"the embedded PostgreSQL doesn't answer after {_START_S:.0f} s")

    def _dsn(self) -> str | None:
        try:
            sockets = json.loads((self._folder / "server.json").read_text(encoding="utf-8"))["sockets"]
        except FileNotFoundError:
            return None
        return f"postgresql://seriatim@/postgres?host={quote(sockets, safe='')}"

    def _is_supervised(self) -> bool:
        with (self._folder / "supervisor.lock").open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    def _start(self) -> None:
        data = self._folder / "data"
        owner = _owner(data)
        major = int((data / "PG_VERSION").read_text(encoding="ascii")) if data.exists() else self._major
        binaries = find_binaries(major).reachable_by(owner)
        if not data.exists():
            self._make(data, binaries, owner)
        (self._folder / "server.json").unlink(missing_ok=True)  # of a supervisor that was killed
        sockets = self._sockets(owner)
        task = supervisor.Task(
            folder=str(self._folder),
            data=str(data),
            postgres=str(binaries.postgres),
            sockets=str(sockets),
            major=major,
            uid=owner.uid if owner else None,
            gid=owner.gid if owner else None,
        )
        words = [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(asdict(task))]
        with self._log() as log:
            # It leaves this session, so that neither Ctrl-C nor a closed terminal reaches the server.
            subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, check=True
            )

    def _sockets(self, owner: Owner | None) -> Path:
        """The folder of the socket: that of the last start, since a box that was open then looks for the server there.

        A copy of this folder, whose number is another one, gets its own.
        """
        note = self._folder / "sockets.json"
        number = self._folder.stat().st_ino
        if note.exists():
            before = json.loads(note.read_text(encoding="utf-8"))
            if before["of"] == number and _is_ours(Path(before["sockets"]), owner):
                return Path(before["sockets"])
        folder = _socket_folder(owner)
        draft = note.with_suffix(".new")
        draft.write_text(json.dumps({"sockets": str(folder), "of": number}), encoding="utf-8")
        draft.replace(note)
        return folder

    def _make(self, data: Path, binaries: Binaries, owner: Owner | None) -> None:
        """Make the data folder, whole or not at all."""
        for draft in self._folder.glob("data.new-*"):
            shutil.rmtree(draft)
        draft = Path(tempfile.mkdtemp(prefix="data.new-", dir=self._folder))
        where = str(draft)
        handed_over: tuple[int, ...] = ()
        opened = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if owner is not None:
                os.chown(draft, owner.uid, owner.gid)
                where, handed_over = f"/proc/self/fd/{opened}", (opened,)
            told = subprocess.run(
                [binaries.initdb, "-D", where, "-U", "seriatim", *_INITDB],
                user=owner.uid if owner else None,
                group=owner.gid if owner else None,
                extra_groups=[] if owner else None,
                pass_fds=handed_over,
                cwd="/",
                env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"},
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            os.close(opened)
        if told.returncode:
            raise EnvironmentProblem(
                f"the data of the embedded PostgreSQL can't be made: {_last_line(told.stderr)}",
                where=str(self._folder),
                remedy="mend that, or give a DSN of a PostgreSQL of your own",
            )
        draft.rename(data)

    @contextmanager
    def _log(self) -> Iterator[IO[bytes]]:
        path = self._folder / "server.log"
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        with path.open("ab") as log:
            yield log

    def _problem(self, what: str) -> EnvironmentProblem:
        log = self._folder / "server.log"
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        return EnvironmentProblem(f"{what}: {_last_line(text)}", where=str(log), remedy="the log says more")


#: Nobody but this user gets into the socket's folder, which is why nobody is asked for a password.
_INITDB = (
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    # Unless told otherwise PostgreSQL makes tables in the schema that is named as the user: the box's.
    "--set=search_path=public",
)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _owner(data: Path) -> Owner | None:
    """Whom PostgreSQL runs as, which refuses to be root: the owner of the data, or else ``nobody``."""
    if os.geteuid() != 0:
        return None
    if data.exists():
        found = data.stat()
        return Owner(found.st_uid, found.st_gid)
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError as error:
        raise EnvironmentProblem(
            "PostgreSQL refuses to run as root, and there is no user 'nobody' to run it as",
            remedy="work as another user, or give a DSN of a PostgreSQL of your own",
        ) from error
    return Owner(nobody.pw_uid, nobody.pw_gid)


def _socket_folder(owner: Owner | None) -> Path:
    """A new folder with a short path, which only the server's user (and root) can enter."""
    candidates = [] if owner else [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()]
    for place in (*candidates, "/tmp", "/var/tmp"):  # noqa: S108 -- mkdtemp makes a folder there that is ours alone
        try:
            if not place:
                continue
            folder = Path(tempfile.mkdtemp(prefix="seriatim-", dir=place))
        except OSError:
            continue
        if len(os.fsencode(folder)) <= _SOCKET_FOLDER_BYTES:
            if owner is not None:
                os.chown(folder, owner.uid, owner.gid)
            return folder
        folder.rmdir()
    raise EnvironmentProblem("no folder for the socket of PostgreSQL can be made in /tmp", remedy="make /tmp writable")


def _is_ours(folder: Path, owner: Owner | None) -> bool:
    """Whether a folder is the server's user's alone; made again where it has gone."""
    uid = os.geteuid() if owner is None else owner.uid
    try:
        folder.mkdir(mode=0o700)
        if owner is not None:
            os.chown(folder, owner.uid, owner.gid)
    except FileExistsError:
        pass
    except OSError:
        return False
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == uid and not found.st_mode & 0o077


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL" in line or "error" in line.lower()]
    return (telling or lines or ["it said nothing"])[-1]
