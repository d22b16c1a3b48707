"""A folder that only this user can write to; it is opened once, and all files are reached from it.

The folder and its parent have to belong to the user. Nobody else may write to either, or enter the inner folder. Files
are reached from the open folder and not by a path, so renaming a parent folder can't lead elsewhere. Links, and
everything else that isn't a plain file, are refused, because an archive may contain them.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from seriatim.errors import EnvironmentProblem

#: Enough for a folder that we may not list.
_PASSED = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
_ELSEWHERE = "work in a folder of your own, or give a DSN"


class PrivateFolder:
    """An open folder; it is closed with this object."""

    def __init__(self, path: Path, *, make: bool = True) -> None:
        self.path = path
        above = path.parent
        self.handle = -1
        try:
            if make:
                above.parent.mkdir(parents=True, exist_ok=True)
            with (
                closing_handle(os.open(above.parent, _PASSED)) as outer,
                closing_handle(_entered(outer, above, 0o755, make=make)) as inner,
            ):
                self.handle = _entered(inner, path, 0o700, make=make)
        except FileNotFoundError:
            if not make:
                raise
            raise _unusable(path, os.strerror(errno.ENOENT)) from None
        except OSError as error:
            raise _unusable(path, str(error.strerror)) from error

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the folder; files that were opened in it stay open."""
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    def stat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.handle)
        except FileNotFoundError:
            return None

    def open(self, name: str, mode: str = "ab") -> IO[bytes]:
        """Open a file in it: ``ab`` to append, which makes a missing file; ``rb`` to read."""
        flags = os.O_RDONLY if mode == "rb" else os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            # Opening a pipe would wait for a process at its other end.
            handle = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600, dir_fd=self.handle)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._odd(name) from error
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(handle)
            raise self._odd(name)
        return os.fdopen(handle, mode)

    def read(self, name: str) -> str | None:
        """The content of a file; None if it is missing."""
        try:
            with self.open(name, "rb") as file:
                return file.read().decode(errors="replace")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        draft = f"{name}.new-{secrets.token_hex(8)}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=self.handle)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o644)  # the server may be another user, who gets it open
            file.write(text)
        os.replace(draft, name, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def rename(self, name: str, to: str) -> None:
        """Rename a file or folder; the new name is free, or the name of a file."""
        os.rename(name, to, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Lock that file exclusively, for a ``with`` block."""
        with self.open(name) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _odd(self, name: str) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"{name} of the embedded PostgreSQL is no plain file",
            where=str(self.path / name),
            remedy="look where it came from, and remove it",
        )


def is_private(folder: Path, uid: int) -> bool:
    """Whether the status is that of a folder that only this user can enter."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid and not status.st_mode & 0o077


def _entered(above: int, path: Path, mode: int, *, make: bool) -> int:
    """Open a folder below an open one, and check its owner. A new folder isn't writable for others."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(path.name, mode, dir_fd=above)
    status = os.lstat(path.name, dir_fd=above)
    name, follow = path.name, os.O_NOFOLLOW
    if stat.S_ISLNK(status.st_mode):
        _check_owner(path, status)
        name, follow = os.readlink(path.name, dir_fd=above), 0
    handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | follow, dir_fd=above)
    try:
        status = os.fstat(handle)
        _check_owner(path, status)
        _check_mode(path, status, mode)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise EnvironmentProblem(
            f"the folder of the embedded PostgreSQL belongs to another user (uid {status.st_uid})",
            where=str(path),
            remedy=_ELSEWHERE,
        )


def _check_mode(path: Path, status: os.stat_result, mode: int) -> None:
    if mode == 0o700 and status.st_mode & 0o077:
        raise EnvironmentProblem(
            "others can enter the folder of the embedded PostgreSQL",
            where=str(path),
            remedy=f"if all in it is yours: chmod 700 {path}; else {_ELSEWHERE}",
        )
    if status.st_mode & 0o002 or (status.st_mode & 0o020 and not _is_own_group(path, status.st_gid)):
        raise EnvironmentProblem(
            "others may write to the folder of the embedded PostgreSQL",
            where=str(path),
            remedy=f"if all in it is yours: chmod go-w {path}; else {_ELSEWHERE}",
        )


def _is_own_group(path: Path, gid: int) -> bool:
    """Whether a group is the user's own: many systems make such a group, with write permission by default."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    alone = user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    # With an access list the rights of the group are the most that any entry of it gives.
    return alone and "system.posix_acl_access" not in (os.listxattr(path) if hasattr(os, "listxattr") else ())


@contextmanager
def closing_handle(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)


def _unusable(path: Path, why: str) -> EnvironmentProblem:
    return EnvironmentProblem(
        f"the folder of the embedded PostgreSQL can't be used: {why}",
        where=str(path),
        remedy="use a folder of your own, or give a DSN",
    )
