"""Write commands to pipelines, and wait for the answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Event as Pause

from seriatim.errors import ActionRefused, UsageError
from seriatim.operations.pipelines.found import FoundPipeline
from seriatim.spark.control.commands import LOOK, Command, CommandResult

#: How long a caller waits for answers, unless it says otherwise.
WAIT_S = 10.0
_LOOK_S = 0.1


def told(pipeline: FoundPipeline, commands: Sequence[Command], *, wait: float = WAIT_S) -> list[CommandResult | None]:
    """Write commands into the control log, as one entry of it, and wait some seconds for an answer to each; None: there is none yet. A
    command whose id has an answer isn't written again. Where no run has the pipeline, nobody is waited for: its next run obeys them.
    """
    pipeline.place.check_log()
    running = pipeline.place.is_running()
    if not running and any(one.dry_run or one.verb == LOOK for one in commands):
        raise UsageError(
            f"pipeline {pipeline.name!r} isn't running, and only a run of it can tell what would be done",
            remedy="start it, or use `group show`",
        )
    log = pipeline.place.operator_log
    wanted = {one.id for one in commands}
    found = {one.id: one for one in log.answers() if one.id in wanted}
    seen = log.last_batch()
    new = [one for one in commands if one.id not in found]
    if not new:
        return [found[one.id] for one in commands]
    pipeline.place.control.append([one.entry() for one in new])
    deadline, pause = time.monotonic() + (wait if running else 0.0), Pause()
    while True:
        # A batch that ends now has its whole file at once.
        found |= {one.id: one for one in log.answers(after=seen) if one.id in wanted}
        if len(found) >= len(wanted) or time.monotonic() >= deadline:
            return [found.get(one.id) for one in commands]
        pause.wait(_LOOK_S)


def ask(pipeline: FoundPipeline, look: Command, *, wait: float = WAIT_S) -> list[CommandResult]:
    """Ask all buckets of a pipeline what a look asks for, which a run has to answer in some seconds."""
    seen = pipeline.place.operator_log.last_batch()
    told(pipeline, [look], wait=wait)
    found = [one for one in pipeline.place.operator_log.answers(after=seen) if one.id == look.id]
    if len(found) < pipeline.place.buckets:  # they come in one batch, if at all
        raise ActionRefused(
            f"pipeline {pipeline.name!r} has not answered in {wait:g} s",
            remedy="it is busy with a batch, or starting: try again",
        )
    return found
