"""The files that Spark has noted in a checkpoint: those of a micro-batch, and the latest ones."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from seriatim.spark.state.checkpoint_files import numbers_in


class NotedFile(NamedTuple):
    """A file in Spark's log of a source: its URI, and when it was written, in milliseconds since 1970, as Spark saw it."""

    uri: str
    written: int


def noted_files(query: Path, batch: int) -> Iterator[NotedFile]:
    before, after = log_offsets(query, batch - 1), log_offsets(query, batch)
    for place, last in after.items():
        for number in range(before.get(place, -1) + 1, last + 1):
            yield from _logged(query / "sources" / str(place), number)


def noted_lately(query: Path, after: Mapping[int, int], most: int) -> Iterator[tuple[int, int, list[NotedFile]]]:
    """The last files that the file sources have noted."""
    batches = numbers_in(query / "offsets")
    for place, last in log_offsets(query, max(batches, default=-1)).items():
        log, begin = query / "sources" / str(place), after.get(place, -1)
        if last <= begin:
            continue
        files: deque[NotedFile] = deque(maxlen=most)
        if begin < 0:  # the newest entry that contains all earlier ones
            compact = [int(file.stem) for file in log.glob("*.compact") if file.stem.isdecimal()]
            begin = max((number for number in compact if number <= last), default=-1)
            if begin >= 0:
                files.extend(_read(log / f"{begin}.compact", None, most))
        for number in range(begin + 1, last + 1):
            files.extend(_logged(log, number))
        yield place, last, list(files)


def path_of(uri: str) -> str:
    """A file's URI as people write it: a path, if it is on this machine."""
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def log_offsets(query: Path, batch: int) -> dict[int, int]:
    """The ends of a micro-batch in the logs of the file sources, by place; empty: there is no such batch."""
    try:
        lines = (query / "offsets" / str(batch)).read_text("utf-8").splitlines()[2:]
    except FileNotFoundError:
        return {}
    offsets = (json.loads(line) if line.startswith("{") else {} for line in lines)
    return {place: int(offset["logOffset"]) for place, offset in enumerate(offsets) if offset.keys() == {"logOffset"}}


def _logged(log: Path, number: int) -> Iterator[NotedFile]:
    """The files of an entry in a source's log; every tenth entry contains all earlier ones, too."""
    file = log / str(number)
    return _read(file if file.exists() else log / f"{number}.compact", number)


def _read(file: Path, number: int | None, most: int | None = None) -> Iterator[NotedFile]:
    """The files in a file of a log: those of one entry, or of all (None); of these the last `most`."""
    with file.open(encoding="utf-8") as lines:
        next(lines, None)  # the version
        for line in deque(lines, maxlen=most):
            entry = json.loads(line)
            if number in (None, entry["batchId"]):
                yield NotedFile(entry["path"], entry["timestamp"])
