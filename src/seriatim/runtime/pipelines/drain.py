"""End a pipeline from outside: after its batch, or when all present messages have been taken in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event as Pause
from typing import Any

from seriatim.errors import EnvironmentProblem
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.runtime.pipelines.progress import Report, RunSummary, Tell
from seriatim.runtime.pipelines.run import run
from seriatim.spark.control.pipeline_place import PipelinePlace
from seriatim.spark.resequence.groups_in_state import groups_in_state
from seriatim.spark.state.checkpoint_files import write_synced, writing

#: How long a caller waits for a run by default. A run cancels its batch before that.
PATIENCE_S = 600.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Drained:
    summary: RunSummary
    #: The groups that still hold messages, in the form of `views`.
    groups: list[dict[str, Any]]


def stop(place: PipelinePlace, *, patience: float = PATIENCE_S) -> bool:
    """End the run of a pipeline after its present batch, and wait for its end. Nothing held is lost."""
    if not place.is_running():
        return False
    request = place.root / "stop"
    with writing("the checkpoint", place.root):
        write_synced(request, b"")
    deadline, pause = time.monotonic() + patience, Pause()
    while place.is_running():
        if time.monotonic() > deadline:
            raise EnvironmentProblem(
                f"the run of pipeline {place.name!r} has not ended in {patience:g} s",
                where=str(place.root),
                remedy="it ends after its present batch; wait for that, or end its process",
            )
        pause.wait(_LOOK_S)
    request.unlink(missing_ok=True)
    return True


def drain(
    pipeline: Pipeline,
    place: PipelinePlace,
    *,
    progress: Report | None = None,
    tell: Tell | None = None,
    conf: Mapping[str, str] | None = None,
    patience: float = PATIENCE_S,
) -> Drained:
    """End a pipeline when all present messages have been taken in, and all that can leave have left. A running query can't leave its
    sources, so its run is ended after its batch; a run in this process takes in what is there then.
    """
    stop(place, patience=patience)
    groups: list[dict[str, Any]] = []

    def look(session: Any) -> None:
        groups_held = groups_in_state(session, place.root, [route.queue for route in pipeline.route])
        groups.extend(group for group in groups_held if group["held"])

    summary = run(pipeline, drain=True, progress=progress, tell=tell, conf=conf, ended=look)
    return Drained(summary, groups)
