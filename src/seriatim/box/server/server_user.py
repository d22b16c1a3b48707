"""A system user for a server that root starts: PostgreSQL refuses root, and ``nobody`` is shared with others.

The user has a number and no name, so nothing has to be added to the system. Only ``initdb`` needs a name: it looks up
the user that it runs as. So it runs as a user with a name, but in a group that only the server has; other processes of
that user can neither read its files nor trace it. Its files are then given to the server's user.
"""

from __future__ import annotations

import grp
import os
import pwd
import secrets
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from seriatim.box.server.binaries import Owner
from seriatim.errors import EnvironmentProblem

#: Numbers that neither distributions nor container managers give away by themselves, as systemd lists them: where all are mapped, and
#: for containers that have the first 65,536 only.
_FREE = (range(1_879_048_192, 2_147_352_576), range(60_706, 61_184))
_TRIES = 1_000


def new_owner(taken_ids: Collection[int], free: Collection[range] = _FREE) -> Owner:
    """A user and group number that nothing on this system uses, nor any box of root."""
    used = {*taken_ids, *_running()}
    mapped = [_mapped("uid"), _mapped("gid")]
    for numbers in free:
        for _ in range(min(_TRIES, 4 * len(numbers))):
            number = secrets.choice(numbers)
            if (
                number not in used
                and all(any(number in span for span in ranges) for ranges in mapped)
                and _is_free(number)
            ):
                return Owner(number, number)
    raise EnvironmentProblem(
        "PostgreSQL refuses to run as root, and there is no number for a user of its own",
        remedy="work as another user, or give a DSN of a PostgreSQL of your own",
    )


def maker_for(owner: Owner) -> Owner:
    """The user that runs ``initdb``: a user with a name, in the group of the server's user."""
    with suppress(KeyError):
        return Owner(pwd.getpwnam("nobody").pw_uid, owner.gid)
    for user in pwd.getpwall():
        if user.pw_uid:
            return Owner(user.pw_uid, owner.gid)
    raise EnvironmentProblem(
        "PostgreSQL refuses to run as root, and root is the only user of this system that has a name",
        remedy="work as another user, or give a DSN of a PostgreSQL of your own",
    )


def give(folder: int, owner: Owner) -> None:
    """Give an open folder, and everything in it, to a user. For a link only the link itself is given."""
    for _, _, files, handle in os.fwalk(".", dir_fd=folder):
        for name in files:
            if os.lstat(name, dir_fd=handle).st_nlink > 1:
                raise EnvironmentProblem(
                    f"{name} of the embedded PostgreSQL has another name, too",
                    remedy="copy the data, and trust the copy",
                )
    for _, folders, files, handle in os.fwalk(".", dir_fd=folder):
        for name in (*folders, *files):
            os.chown(name, owner.uid, owner.gid, dir_fd=handle, follow_symlinks=False)
    os.fchown(folder, owner.uid, owner.gid)


def _running() -> Iterator[int]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield process.stat().st_uid


def _mapped(kind: str) -> list[range]:
    """The numbers that exist in this user namespace."""
    try:
        lines = Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return [range(2**32 - 1)]
    return [range(int(first), int(first) + int(count)) for first, _, count in map(str.split, lines)]


def _is_free(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        with suppress(KeyError):
            look(number)
            return False
    return True
