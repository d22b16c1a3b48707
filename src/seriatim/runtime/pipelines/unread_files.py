"""Input files that aren't read, or have changed since: Spark reads a file once by its name, and skips names with ``_`` and ``.``."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from seriatim.pipeline.declared.pipeline import Pipeline, Receive
from seriatim.pipeline.files.source import OPTIONS

#: A file is checked until this many later ones of its location were read.
MOST_NOTED = 100_000
#: The most files that are named.
MOST_NAMED = 10
_TOLD = {
    "changed": "has changed since it was read, and what is new in it isn't read: write new messages into a file with a new name",
    "hidden": "isn't read, because its name begins with _ or .: give it another name",
}
_FORMATS = frozenset({*OPTIONS, "avro", "binaryfile", "orc"})
# Names of files that engines and desktops write beside data, and that are never input.
_MARKERS = (
    "_SUCCESS",
    "_metadata",
    "_common_metadata",
    "_started_*",
    "_committed_*",
    "*.crc",
    ".DS_Store",
    "*._COPYING_",
)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """An input file that isn't read, or not as it is now.

    Args:
        path: the file.
        why: it has ``changed`` since it was read, or its name is ``hidden``.
    """

    path: str
    why: Literal["changed", "hidden"]

    def __str__(self) -> str:
        return f"{self.path} {_TOLD[self.why]}"


@dataclass(frozen=True, slots=True)
class UnreadFiles:
    """The input files that aren't read, or not as they are now.

    Args:
        changed: how many have changed since they were read.
        hidden: how many have names that begin with ``_`` or ``.``.
        first: the first of them, at most ten.
    """

    changed: int = 0
    hidden: int = 0
    first: tuple[UnreadFile, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.first)


class InputFiles:
    def __init__(self, pipeline: Pipeline, query: Path) -> None:
        self._pipeline = pipeline
        #: Spark's checkpoint of its query, if there is one.
        self._query = query
        self._through: dict[int, int] = {}
        self._written: dict[int, dict[str, int]] = {}

    def look(self) -> UnreadFiles:
        files = self.unread()
        changed = sum(file.why == "changed" for file in files)
        return UnreadFiles(changed, len(files) - changed, tuple(files[:MOST_NAMED]))

    def unread(self) -> list[UnreadFile]:
        """Return unread files, changed ones first. A file that is empty, or can't be checked, counts as none."""
        changed = [UnreadFile(path, "changed") for path in sorted(set(self._changed()))]
        return [*changed, *(UnreadFile(path, "hidden") for path in sorted(set(self._hidden())))]

    def _changed(self) -> Iterator[str]:
        if not self._query.exists():
            return
        from seriatim.spark.receive.noted_files import noted_lately, path_of  # noqa: PLC0415 -- what needs an extra, where it is there

        try:
            for place, last, files in noted_lately(self._query, self._through, MOST_NOTED):
                self._through[place] = last
                noted = self._written.setdefault(place, {})
                for file in files:
                    noted.pop(file.uri, None)
                    noted[file.uri] = file.written
                while len(noted) > MOST_NOTED:
                    del noted[next(iter(noted))]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # Spark is merging its log, and the next look sees it; or it is damaged, which the start of a run reports
        for noted in self._written.values():
            for uri, written in noted.items():
                path = path_of(uri)
                if _is_changed(_written(Path(path)), written):
                    yield path

    def _hidden(self) -> Iterator[str]:
        for entry in self._pipeline.receive:
            for path in _candidates(entry):
                is_hidden = path.name.startswith(("_", ".")) and "=" not in path.name
                if (
                    is_hidden
                    and not any(fnmatchcase(path.name, pattern) for pattern in _MARKERS)
                    and _written(path) is not None
                ):
                    yield str(path)


def _written(path: Path) -> int | None:
    """Return when a file was written, in milliseconds; None: it is gone, empty, or can't be checked."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns // 1_000_000 if status.st_size else None


def _is_changed(size: int | None, noted: int) -> bool:
    """Return whether a file's time differs from the noted one; a copy may have whole seconds only, as `tar` makes them."""
    return size is not None and size != noted and size != noted // 1000 * 1000


def _candidates(entry: Receive) -> Iterator[Path]:
    """Yield the files in which a location looks for messages, including names that Spark skips."""
    if entry.source.path is None or entry.source.format.lower() not in _FORMATS:
        return
    options = {name.lower(): value for name, value in entry.source.options.items()}
    wanted = options.get("pathglobfilter", "*")
    is_deep = options.get("recursivefilelookup", "").lower() == "true"
    for path in glob.glob(str(entry.source.path.absolute()), include_hidden=True):  # noqa: PTH207 -- an absolute pattern
        if Path(path).is_file():
            yield Path(path)
        for folder, below, names in os.walk(path):
            below[:] = [name for name in below if is_deep and not name.startswith(("_", "."))]
            yield from (Path(folder, name) for name in names if fnmatchcase(name, wanted))
