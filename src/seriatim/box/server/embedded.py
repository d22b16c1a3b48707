"""The embedded PostgreSQL: a private server of one folder, shared by the processes of one user.

The folder has to belong to the user alone, and the user has to have created or trusted its data. No file that another
user could have put there decides what the server does, or which path is used.

There are three locks (`flock`), which the kernel releases when a process dies: every user of the server shares
``users.lock``, the process that starts it holds ``start.lock``, and the supervisor, which stops it after the last user,
holds ``supervisor.lock``.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from seriatim.box.server import supervisor
from seriatim.box.server.binaries import NEWEST, Binaries, Owner, find_binaries
from seriatim.box.server.own_data import OwnData, Registry, new_id
from seriatim.box.server.private_folder import PrivateFolder, closing_handle, is_private
from seriatim.box.server.server_user import give, maker_for, new_owner
from seriatim.errors import EnvironmentProblem, NotFound, UntrustedData, UsageError
from seriatim.pipeline.text.event_log import LOG

#: How often the supervisor is checked; and the pause after a failed start.
_LOOK_S, _REST_S = 1.0, 10.0
#: The longest wait of a close for a look that starts the server; without users that stops by itself.
_END_S = 5.0
#: A server without users ends within this time; its supervisor kills it before that.
_STOP_S = 15.0
#: A start after a crash reads the log again, which may take a while.
_START_S = 120.0
_LOG_BYTES = 10 * 2**20
#: A path of a unix socket has at most 107 bytes; PostgreSQL adds a name of its own.
_SOCKET_FOLDER_BYTES = 107 - len("/.s.PGSQL.5432")
#: The prefix of the names of these folders.
_SOCKETS = "seriatim-"
#: The data in the folder, their id beside them, and the access rules: all users of the socket.
_DATA, _ID, _HBA = "data", "id", "hba.conf"
_LET_IN = "local all all trust\nlocal replication all trust\n"


class EmbeddedServer:
    """The server of a folder, while this object is open; also a process with its DSN starts it again after it was killed."""

    def __init__(self, folder: Path, major: int = NEWEST) -> None:
        find_binaries(major)  # without binaries no folder is made
        #: The folder of its data, its log and its locks; made if it is missing.
        self._folder = PrivateFolder(folder.absolute())
        self._registry = Registry()
        self._own: OwnData | None = None
        #: The version of PostgreSQL for new data; existing data keep their version.
        self._major = major
        self._process = os.getpid()
        self._closed = threading.Event()
        self._watch: threading.Thread | None = None
        self._users = self._folder.open("users.lock")
        try:
            with self._folder.locked("start.lock"):
                fcntl.flock(self._users, fcntl.LOCK_SH)
                self.dsn = self._running()
        except BaseException:
            self.close()
            raise
        self._watch = threading.Thread(target=self._keep, name="seriatim-embedded", daemon=True)
        self._watch.start()

    def found_again(self) -> str:
        """The DSN, for a new connection: starts the server again if its supervisor was killed."""
        if not _is_supervised(self._folder):
            with self._folder.locked("start.lock"):
                self.dsn = self._running()
        return self.dsn

    def close(self) -> None:
        """Stop using the server. It stops after its last user."""
        if os.getpid() == self._process:  # a forked child has no such thread
            self._closed.set()
            if self._watch is not None and self._watch is not threading.current_thread():
                self._watch.join(_END_S)
        self._users.close()

    def _keep(self) -> None:
        """Check the server regularly, until this object is closed."""
        wait_s, warned = _LOOK_S, ""
        while not self._closed.wait(wait_s):
            try:
                self.found_again()
            except Exception as error:  # noqa: BLE001 -- whatever it is, a later look may find better times
                wait_s = _REST_S
                if str(error) != warned:
                    LOG.warning("embedded_not_back", error=error)
                warned = str(error)
            else:
                wait_s, warned = _LOOK_S, ""

    def _running(self) -> str:
        """The DSN of the server, once it answers; starts the server if it doesn't run."""
        self._own = _known(self._folder, self._registry)
        started = False
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            # First the supervisor, then the server: a server that has lost its supervisor may answer, and is stopping.
            if not _is_supervised(self._folder):
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
        own = self._own
        if own is None or own.sockets is None or not is_private(Path(own.sockets), own.uid):
            return None
        return f"postgresql://seriatim@/postgres?host={quote(own.sockets, safe='')}"

    def _start(self) -> None:
        version = self._folder.read(f"{_DATA}/PG_VERSION")
        binaries = find_binaries(self._major if version is None else int(version))
        if self._own is None:
            self._own = self._make(binaries)
        own = self._own
        owner = Owner(own.uid, own.uid) if os.geteuid() == 0 else None
        if own.sockets is None or not _is_ours(Path(own.sockets), own.uid, owner):
            own = self._own = replace(own, sockets=str(_socket_folder(owner)))
            self._registry.note(own)
        self._folder.write(_HBA, _LET_IN)
        task = supervisor.Task(
            folder=self._folder.handle,
            data=_DATA,
            hba=_HBA,
            postgres=str(binaries.reachable_by(owner).postgres),
            sockets=str(own.sockets),
            major=binaries.major,
            uid=owner.uid if owner else None,
            gid=owner.gid if owner else None,
        )
        words = [sys.executable, "-I", "-S", supervisor.__file__, json.dumps(asdict(task))]
        with self._log() as log:
            # It leaves this session, so that neither Ctrl-C nor a closed terminal reaches the server.
            subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                pass_fds=[self._folder.handle],
                start_new_session=True,
                check=True,
            )

    def _make(self, binaries: Binaries) -> OwnData:
        """Make the data folder, whole or not at all, and note that this user has created it."""
        owner = new_owner({row.uid for row in self._registry.all()}) if os.geteuid() == 0 else None
        maker = maker_for(owner) if owner else None
        folder = self._folder.handle
        with os.scandir(folder) as entries:
            drafts = [entry.name for entry in entries if entry.name.startswith("data.new-")]
        for name in drafts:
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
        draft = f"data.new-{secrets.token_hex(8)}"
        os.mkdir(draft, 0o700, dir_fd=folder)
        with closing_handle(os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)) as opened:
            if maker is not None:
                os.fchown(opened, maker.uid, maker.gid)
            self._fill(draft, opened, binaries.reachable_by(owner), maker)
            if owner is not None:
                give(opened, owner)
            data_id, inode = new_id(), os.fstat(opened).st_ino
        own = OwnData(data_id, str(self._folder.path), inode, owner.uid if owner else os.geteuid())
        self._registry.note(own)
        self._folder.write(_ID, data_id)
        self._folder.rename(draft, _DATA)
        return own

    def _fill(self, draft: str, opened: int, binaries: Binaries, maker: Owner | None) -> None:
        where, handed_over = str(self._folder.path / draft), tuple[int, ...]()
        if maker is not None:  # which need not be able to walk there
            where, handed_over = f"/proc/self/fd/{opened}", (opened,)
        result = subprocess.run(
            [binaries.initdb, "-D", where, "-U", "seriatim", *_INITDB],
            user=maker.uid if maker else None,
            group=maker.gid if maker else None,
            extra_groups=[] if maker else None,
            pass_fds=handed_over,
            cwd="/",
            env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise EnvironmentProblem(
                f"the data of the embedded PostgreSQL can't be made: {_last_line(result.stderr)}",
                where=str(self._folder.path),
                remedy="mend that, or give a DSN of a PostgreSQL of your own",
            )

    @contextmanager
    def _log(self) -> Iterator[IO[bytes]]:
        status = self._folder.stat("server.log")
        if status is not None and status.st_size > _LOG_BYTES:
            self._folder.rename("server.log", "server.log.1")
        with self._folder.open("server.log") as log:
            yield log

    def _problem(self, problem: str) -> EnvironmentProblem:
        text = self._folder.read("server.log") or ""
        return EnvironmentProblem(
            f"{problem}: {_last_line(text)}", where=str(self._folder.path / "server.log"), remedy="the log says more"
        )


@contextmanager
def serving(folder: Path, major: int = NEWEST) -> Iterator[EmbeddedServer]:
    """The server of a folder that its only user removes afterwards: at the end nothing writes there any more."""
    server = EmbeddedServer(folder, major)
    try:
        yield server
    finally:
        server.close()
        private = PrivateFolder(folder.absolute(), make=False)
        deadline = time.monotonic() + _STOP_S
        while _is_supervised(private) and time.monotonic() < deadline:
            time.sleep(0.02)


def trust(folder: Path) -> bool:
    """Trust the data in a folder, whose author may run programs as this user; root's go to a server user of their own."""
    try:
        private = PrivateFolder(folder.absolute(), make=False)
    except FileNotFoundError:
        raise NotFound("there is no embedded PostgreSQL in this folder", where=str(folder)) from None
    registry = Registry()
    with private.locked("start.lock"):
        with suppress(UntrustedData):
            if _known(private, registry) is None:
                raise UsageError("there are no data of an embedded PostgreSQL in this folder", where=str(folder))
            return False
        if _is_supervised(private):
            raise EnvironmentProblem(
                "the server of these data is running",
                where=str(folder),
                remedy="end what has the box open, and try again",
            )
        with closing_handle(os.open(_DATA, os.O_RDONLY | os.O_DIRECTORY, dir_fd=private.handle)) as opened:
            status = os.fstat(opened)
            uid = status.st_uid
            if os.geteuid() == 0:
                uid = _given_by_root(opened, registry, str(folder))
            elif uid != os.geteuid():
                raise EnvironmentProblem(
                    f"the data of the embedded PostgreSQL belong to another user (uid {uid})",
                    where=str(folder / _DATA),
                    remedy="copy them, so that the copy is yours",
                )
        data_id = new_id()
        registry.note(OwnData(data_id, str(private.path), status.st_ino, uid))
        private.write(_ID, data_id)
    return True


def peer_of(host: str | int | None) -> dict[str, str]:
    """The parameters by which libpq checks who owns an embedded server's socket: its folder may be another user's by now."""
    if os.geteuid() == 0 or host is None or not Path(str(host)).name.startswith(_SOCKETS):
        return {}
    try:
        return {"requirepeer": pwd.getpwuid(os.geteuid()).pw_name}
    except KeyError:  # libpq knows users by their names
        return {}


#: Only this user reaches the socket's folder, so no password is needed.
_INITDB = (
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--no-instructions",
    # By default PostgreSQL makes tables in the schema with the user's name: the box's.
    "--set=search_path=public",
)


def _known(folder: PrivateFolder, registry: Registry) -> OwnData | None:
    status = folder.stat(_DATA)
    if status is None:
        return None
    own = registry.find(folder.read(_ID))
    if own is None or own.inode != status.st_ino or own.uid != status.st_uid:
        raise UntrustedData(
            "the data of the embedded PostgreSQL weren't made by you on this machine: they were copied or unpacked. Their"
            " author can run programs as you",
            where=str(folder.path),
            remedy="if you trust them: seriatim box trust",
        )
    return own


def _is_supervised(folder: PrivateFolder) -> bool:
    with folder.open("supervisor.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _given_by_root(data: int, registry: Registry, where: str) -> int:
    """Give data to a server user of their own, and return this user."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    with closing_handle(os.open("pg_tblspc", flags, dir_fd=data)) as handle, os.scandir(handle) as entries:
        if any(entries):
            raise EnvironmentProblem(
                "the data have tablespaces in other folders, which can't be given to the user of the server",
                where=where,
                remedy="load a dump of them into a new box",
            )
    owner = new_owner({row.uid for row in registry.all()})
    give(data, owner)
    return owner.uid


def _socket_folder(owner: Owner | None) -> Path:
    """A new folder with a short path, which only the server's user (and root) can enter."""
    # In /run only root makes folders, even with a name that was free again.
    candidates = ["/run"] if owner else [os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir()]
    for place in (*filter(_keeps, candidates), "/tmp", "/var/tmp"):  # noqa: S108 -- mkdtemp makes a folder there that is ours alone
        try:
            folder = Path(tempfile.mkdtemp(prefix=_SOCKETS, dir=place))
        except OSError:
            continue
        if len(os.fsencode(folder)) <= _SOCKET_FOLDER_BYTES:
            if owner is not None:
                os.chown(folder, owner.uid, owner.gid)
            return folder
        folder.rmdir()
    raise EnvironmentProblem("no folder for the socket of PostgreSQL can be made in /tmp", remedy="make /tmp writable")


def _keeps(place: str) -> bool:
    """Return whether no other user can replace a folder there."""
    try:
        status = Path(place).stat()
    except OSError:
        return False
    return (
        bool(place)
        and status.st_uid in (0, os.geteuid())
        and bool(not status.st_mode & 0o022 or status.st_mode & 0o1000)
    )


def _is_ours(folder: Path, uid: int, owner: Owner | None) -> bool:
    """Whether a folder belongs to the server's user alone; makes the folder again if it is gone."""
    with suppress(OSError):
        folder.mkdir(mode=0o700)
        if owner is not None:
            os.chown(folder, owner.uid, owner.gid)
    return is_private(folder, uid)


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(make_conninfo(dsn, connect_timeout=5, **peer_of(conninfo_to_dict(dsn)["host"]))).close()
    except psycopg.OperationalError:
        return False
    return True


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL" in line or "error" in line.lower()]
    return (telling or lines or ["it said nothing"])[-1]
