"""A list of the PostgreSQL data folders that this user created or trusts; it is stored outside of projects.

A project can come from anywhere: an archive, a repository, a shared folder. A data folder of PostgreSQL is like code:
its author decides what the server does, as the user who starts it. So each folder has an id in a file beside it, and
the user's list has a file of that name with the folder's inode number. A copied, unpacked or restored folder has
another inode, so it isn't trusted.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from seriatim.box.server.private_folder import is_private
from seriatim.errors import EnvironmentProblem

_ID = re.compile(r"[0-9a-f]{32}")
#: Notes of folders that have been gone for this long are removed, seconds.
_KEPT_S = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class OwnData:
    data_id: str
    folder: str
    inode: int
    #: The user that owns it, and runs its server.
    uid: int
    #: The folder of the server's socket, if it had one.
    sockets: str | None = None


class Registry:
    """This user's notes, in ``$XDG_STATE_HOME/seriatim/postgres``, ``~/.local/state/…`` or, without a home, ``/var/tmp``."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._folder = _place(environment)

    def find(self, data_id: str | None) -> OwnData | None:
        """The note of an id; None if there is none, or the text is no id."""
        if data_id is None or not _ID.fullmatch(data_id):
            return None
        try:
            return OwnData(data_id=data_id, **json.loads((self._folder / data_id).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def note(self, data: OwnData) -> None:
        text = json.dumps({name: value for name, value in asdict(data).items() if name != "data_id"})
        draft = self._folder / f".{data.data_id}-{secrets.token_hex(4)}"
        draft.write_text(text, encoding="utf-8")
        draft.replace(self._folder / data.data_id)

    def all(self) -> list[OwnData]:
        """All notes; notes of folders that have been gone for long are deleted."""
        kept = []
        for path in self._folder.iterdir():
            if (row := self.find(path.name)) is None:
                continue
            with suppress(OSError):
                if not Path(row.folder).exists() and time.time() - path.stat().st_mtime > _KEPT_S:
                    path.unlink()
                    continue
            kept.append(row)
        return kept


def new_id() -> str:
    return secrets.token_hex(16)


def _place(environment: Mapping[str, str]) -> Path:
    """The first folder that is private to this user, or can be made so."""
    uid = os.geteuid()
    for place in (*_homes(environment, uid), Path(f"/var/tmp/seriatim-{uid}")):  # noqa: S108 -- taken only if it is ours alone
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                place.mkdir(mode=0o700)
            if is_private(place, uid):
                folder = place / "postgres"
                folder.mkdir(mode=0o700, exist_ok=True)
                if os.access(folder, os.W_OK):
                    return folder
    raise EnvironmentProblem(
        "it can't be noted which data are yours: there is no folder for it",
        remedy="set XDG_STATE_HOME to a folder of yours, or give a DSN",
    )


def _homes(environment: Mapping[str, str], uid: int) -> list[Path]:
    if (named := Path(environment.get("XDG_STATE_HOME", ""))).is_absolute():
        return [named / "seriatim"]
    homes = [Path(environment.get("HOME", ""))]
    with suppress(KeyError):
        homes.append(Path(pwd.getpwuid(uid).pw_dir))
    # A command that root runs for a user may have that user's home in its environment.
    return [home / ".local/state/seriatim" for home in homes if home.is_absolute() and _belongs(home, uid)]


def _belongs(path: Path, uid: int) -> bool:
    try:
        return path.stat().st_uid == uid
    except OSError:
        return False
