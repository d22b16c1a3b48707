"""Spark's logs in a checkpoint: find an incomplete or mixed-up log, with which a query would read something twice, or not at all.

Spark believes its files. A file of offsets that is a copy of an older one makes it read again what was delivered; a file of a source's log
that is missing lets new files pass unread. So the batches with which a run begins are compared with each other before Spark sees them.
"""

from __future__ import annotations

import json
from pathlib import Path

from seriatim.errors import CheckpointMismatch
from seriatim.spark.receive.noted_files import log_offsets
from seriatim.spark.state.checkpoint_files import numbers_in

REMEDY = "restore the checkpoint from a backup, all of it, with its ports as of the same moment, or give the pipeline a new one"
_TIME = "batchTimestampMs"


def check_spark_logs(query: Path) -> None:
    """Refuse logs that don't belong together."""
    offsets, commits = numbers_in(query / "offsets"), numbers_in(query / "commits")
    if not offsets and not commits:
        return
    _check_metadata(query / "metadata")
    last = max(offsets, default=-1)
    if commits and commits[-1] > last:
        problem = f"batch {commits[-1]} is committed, and the file with which it began is missing"
        raise CheckpointMismatch(problem, where=str(query / "offsets" / str(commits[-1])), remedy=REMEDY)
    if len(offsets) > 1 and offsets[-2] != last - 1:
        problem = f"batch {last} was begun, and the file of the one before it is missing"
        raise CheckpointMismatch(problem, where=str(query / "offsets" / str(last - 1)), remedy=REMEDY)
    times = {number: _time_of(query / "offsets" / str(number)) for number in offsets}
    for number in reversed(offsets[-2:]):
        copies = [other for other, time in times.items() if other != number and time == times[number] is not None]
        if copies:
            problem = f"the file is that of batch {min(copies)}" if min(copies) < number else "the file is there twice"
            raise CheckpointMismatch(problem, where=str(query / "offsets" / str(number)), remedy=REMEDY)
        for place, log in log_offsets(query, number).items():
            if log >= 0:
                _check_source(query / "sources" / str(place), log)


def _check_metadata(file: Path) -> None:
    """Check the metadata; Spark makes a missing file anew, and fails at a damaged one."""
    if not file.exists():
        return
    try:
        whole = isinstance(json.loads(file.read_bytes())["id"], str)
    except (OSError, ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        remedy = "restore it from a backup, or delete it: Spark makes it anew"
        raise CheckpointMismatch("the file is damaged", where=str(file), remedy=remedy)


def _check_source(folder: Path, log: int) -> None:
    file = next((path for path in (folder / str(log), folder / f"{log}.compact") if path.exists()), None)
    if file is None:
        problem = "the file is missing that says which files a batch has read"
        raise CheckpointMismatch(problem, where=str(folder / str(log)), remedy=REMEDY)
    try:
        version, *lines = file.read_text(encoding="utf-8").splitlines()
        batches = [int(json.loads(line)["batchId"]) for line in lines] if version.startswith("v") else []
    except (OSError, ValueError, KeyError, TypeError):
        batches = []
    if not batches:
        raise CheckpointMismatch("the file is damaged", where=str(file), remedy=REMEDY)
    if max(batches) != log:
        problem = f"the file is that of number {max(batches)}"
        raise CheckpointMismatch(problem, where=str(file), remedy=REMEDY)


def _time_of(file: Path) -> int | None:
    """Return when a batch began; None: the file doesn't have it."""
    try:
        return int(json.loads(file.read_text(encoding="utf-8").splitlines()[1])[_TIME])
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None
