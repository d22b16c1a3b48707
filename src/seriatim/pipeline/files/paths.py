"""Check the files and folders of a pipeline: that they exist, have the right kind, and don't lie inside each other.

A relative path is relative to the current directory, as in every other command of a shell.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from seriatim.pipeline.text.section import Section, likely
from seriatim.pipeline.text.storable import fits_text

#: What this version reads and writes.
FILE_FORMATS = ("csv", "json", "parquet")
#: Ports that are files of our own, each batch exactly once; any other format is a sink of Spark's.
PORT_FORMATS = ("csv", "json", "parquet")

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
_GLOB = re.compile(r"[*?\[{]")
# What a system of files says that has no files without names.
_NO_NAMELESS_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
# What a system of files takes, relative paths with some room for the folder that they are relative to.
_LONGEST, _LONGEST_PART = 2_000, 255


def file_format(section: Section) -> str | None:
    written = section.text("format", required=True)
    if written is None or written in FILE_FORMATS:
        return written
    remedy = likely(written, FILE_FORMATS)
    section.fault("format", f"the format {written!r} is not available in this version", remedy)
    return None


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path
    section: Section
    key: str

    @property
    def title(self) -> str:
        return self.section.full(self.key)

    def fault(self, what: str, remedy: str) -> None:
        self.section.fault(self.key, what, remedy)


class Paths:
    """The paths that a pipeline file names, compared with each other in the order of reading. `inputs`: whether input folders have to be
    there.
    """

    def __init__(self, *, inputs: bool = True) -> None:
        self._inputs = inputs
        self._sources: list[_Folder] = []
        self._written: list[_Folder] = []
        # The same, to be found by path, and by every folder above it.
        self._by_path: dict[Path, _Folder] = {}
        self._above: dict[Path, _Folder] = {}

    def source(self, section: Section, key: str) -> Path | None:
        """An input folder, or a pattern of files or folders: it must exist."""
        path = _local(section, key, required=True)
        if path is None:
            return None
        folder = _before_pattern(path)
        if not self._inputs:
            return path
        if not folder.exists():
            section.fault(key, f"the input folder {str(folder)!r} does not exist", "create it, or mend the path")
        elif not folder.is_dir():
            section.fault(key, f"{str(path)!r} is a file; new messages come as files in a folder", "name its folder")
        elif not os.access(folder, os.R_OK | os.X_OK):
            section.fault(key, f"the input folder {str(folder)!r} can't be read", "mend its permissions")
        else:
            self._sources.append(_Folder(folder.resolve(), section, key))
            return path
        return None

    def file(self, section: Section, key: str) -> Path | None:
        """A file or a folder of files that is read once: it must exist."""
        path = _local(section, key, required=True)
        if path is None or path.exists():
            return path
        section.fault(key, f"{str(path)!r} does not exist", "create it, or mend the path")
        return None

    def written(self, section: Section, key: str, *, required: bool = False) -> Path | None:
        """A folder for this pipeline's output alone; it is created if it is missing."""
        return self._output(section, key, obstacle, required=required)

    def port(self, section: Section, key: str, *, required: bool = False) -> Path | None:
        """A folder to deliver to. If it can't be written now, that is no fault of the file: its messages wait."""
        return self._output(section, key, lambda _: None, required=required)

    def _output(
        self, section: Section, key: str, obstacle: Callable[[Path], str | None], *, required: bool
    ) -> Path | None:
        path = _local(section, key, required=required)
        if path is None:
            return None
        if _GLOB.search(str(path)):
            section.fault(key, f"{str(path)!r} is a pattern; a folder is needed to write to")
        elif (what := obstacle(path)) is not None:
            section.fault(key, what, "name another one, or mend it")
        else:
            self._claim(_Folder(path.resolve(), section, key))
            return path
        return None

    def finish(self, checkpoint: Path, pipeline: Section) -> None:
        """Compare the written folders with the read folders, and all with the checkpoint."""
        side_by_side = "take two folders side by side"
        for port in self._written:
            for source in self._sources:
                if _overlap(port.path, source.path):
                    what = f"{port.title} and {source.title} have folders inside each other: the pipeline would read what it writes"
                    port.fault(what, side_by_side)
        own = checkpoint.resolve()
        for folder in (*self._sources, *self._written):
            aside_in_own = folder.title in {"set_aside", "unrouted"} and own in folder.path.parents
            if _overlap(folder.path, own) and not aside_in_own:
                what = f"{folder.title} and the checkpoint {str(checkpoint)!r} have folders inside each other"
                pipeline.fault("checkpoint" if pipeline.has("checkpoint") else "name", what, side_by_side)

    def _claim(self, folder: _Folder) -> None:
        same = self._by_path.get(folder.path)
        near = self._above.get(folder.path) or next(filter(None, map(self._by_path.get, folder.path.parents)), None)
        if same is not None:
            folder.fault(f"{folder.title} has the same folder as {same.title}", "each port needs a folder of its own")
        elif near is not None:
            folder.fault(
                f"{folder.title} and {near.title} have folders inside each other", "each port needs a folder of its own"
            )
        self._written.append(folder)
        self._by_path.setdefault(folder.path, folder)
        for above in folder.path.parents:
            self._above.setdefault(above, folder)


def obstacle(path: Path) -> str | None:
    """The reason why a folder can't be written or made now; None: it can."""
    try:
        standing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    except OSError as error:  # a folder above that may not be looked into
        return f"{str(path)!r} can't be written to: {error.strerror}"
    if not standing.is_dir():
        return f"{str(standing)!r} is a file; a folder is needed to write to"
    what = None if os.access(standing, os.W_OK | os.X_OK) else "permission denied"
    what = what or _refusal(standing)
    return None if what is None else f"the folder {str(standing)!r} can't be written to: {what}"


def _refusal(folder: Path) -> str | None:
    """Why nothing can be made in a folder, although its permissions allow it; None: something can."""
    try:
        # A file without a name, which leaves nothing behind.
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as error:
        if error.errno not in _NO_NAMELESS_FILES:
            return os.strerror(error.errno or 0).lower()
    else:
        return None
    try:
        Path(tempfile.mkdtemp(prefix=".seriatim-", dir=folder)).rmdir()
    except OSError as error:
        return os.strerror(error.errno or 0).lower()
    return None


def _local(section: Section, key: str, *, required: bool) -> Path | None:
    text = section.text(key, required=required)
    if text is None:
        return None
    if (
        not fits_text(text)
        or len(text) > _LONGEST
        or max(len(part.encode()) for part in text.split("/")) > _LONGEST_PART
    ):
        remedy = f"at most {_LONGEST:,} characters, and {_LONGEST_PART} bytes between two slashes"
        section.fault(key, f"{text!r:.80} can't be a path", remedy)
        return None
    if _SCHEME.match(text):
        section.fault(key, f"{text!r}: only paths of this machine are available in this version", "write a plain path")
        return None
    return Path(text).expanduser() if text.startswith("~/") else Path(text)


def _before_pattern(path: Path) -> Path:
    parts = path.parts
    plain = next((number for number, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    return Path(*parts[:plain])


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents
