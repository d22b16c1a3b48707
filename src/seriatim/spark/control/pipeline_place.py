"""A checkpoint of a pipeline, read by a process that doesn't run it: its owner, whether a run has it, how far it is."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from seriatim.errors import CheckpointMismatch, UsageError
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.control.source import FIRST_OFFSET
from seriatim.spark.state.checkpoint_files import numbers_in

#: The layout of checkpoints. Raise it whenever the content of the folder changes its form.
LAYOUT = 3
#: The last commit that converts a checkpoint of an older layout, and one whose buckets go by queue and key, to the present one.
_CONVERTS = "8473f540"
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class PipelinePlace:
    name: str
    root: Path
    id: str
    buckets: int

    @classmethod
    def of(cls, root: Path, name: str | None = None) -> PipelinePlace:
        file = root / "pipeline.json"
        try:
            content = json.loads(file.read_bytes())
            place, layout = (
                cls(str(content["pipeline"]), root, str(content["id"]), int(content["buckets"])),
                content["layout"],
            )
        except FileNotFoundError as error:
            problem = f"pipeline {name!r} has not run yet" if name else "there is no checkpoint of a pipeline"
            raise UsageError(problem, where=str(root), remedy="seriatim run makes its checkpoint") from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointMismatch("the file is damaged", where=str(file), remedy="restore it") from error
        if name is not None and place.name != name:
            problem = f"the checkpoint belongs to another pipeline: {place.name}, not {name}"
            raise CheckpointMismatch(problem, where=str(root), remedy="name the file of that pipeline")
        check_layout(layout, root)
        return place

    @property
    def control(self) -> ControlLog:
        return ControlLog(self.root / "control", self.id)

    @property
    def operator_log(self) -> OperatorLog:
        return OperatorLog(self.root / "operator-log", self.id)

    def is_running(self) -> bool:
        try:
            lock = os.open(self.root / "lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        else:
            return False
        finally:
            os.close(lock)

    def check_log(self) -> None:
        """Check the entries of the control log that aren't obeyed for certain."""
        self._behind_what_is_obeyed(self.control.check)

    def not_obeyed(self) -> list[dict[str, Any]]:
        """The entries of the control log that aren't obeyed for certain, in order."""
        return self._behind_what_is_obeyed(lambda after: self.control.read(after, self.control.last()))

    def _behind_what_is_obeyed(self, read: Callable[[int], _Read]) -> _Read:
        """Read the control log after the last file that is obeyed for certain. A run deletes what it has obeyed. A missing file only
        counts if it is still behind that file.
        """
        after = self._obeyed()
        while True:
            try:
                return read(after)
            except CheckpointMismatch:
                before, after = after, self._obeyed()
                if after == before:
                    raise

    def _obeyed(self) -> int:
        return log_position(self.root / "query", done=True)


def check_layout(layout: object, root: Path, *, is_cut_by_key: bool = True) -> None:
    if layout == LAYOUT and is_cut_by_key:
        return
    problem = f"the checkpoint has layout {layout}, this version of seriatim reads {LAYOUT}"
    if layout == LAYOUT:
        problem = "the groups of the checkpoint are in buckets by destination and key, this version of seriatim reads buckets by key"
    remedy = "run the version that wrote it, or give the pipeline a new checkpoint"
    if isinstance(layout, int) and layout <= LAYOUT:
        remedy = f"convert it with commit {_CONVERTS} of seriatim, the last that does: seriatim pipeline move FILE"
    raise CheckpointMismatch(problem, where=str(root), remedy=remedy)


def log_position(query: Path, *, done: bool = False) -> int:
    """The number of the last file of the control log that the newest batch of a query takes in; 0: none."""
    for batch in reversed(numbers_in(query / "offsets")):
        if done and not (query / "commits" / str(batch)).exists():
            continue
        position = _control_offset(query / "offsets" / str(batch))
        if position is not None:
            return int(position["log"])
    return 0


def _control_offset(file: Path) -> dict[str, Any] | None:
    """The control source's offset among those of a batch; None: the file can't be read, which a run reports better."""
    try:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                offset = json.loads(line)
                if isinstance(offset, dict) and offset.keys() == FIRST_OFFSET.keys():
                    return offset
    except (OSError, ValueError):
        pass
    return None
