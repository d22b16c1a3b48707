"""The operator log of a pipeline: who did what, when and why, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from seriatim.box.views.filtered import filtered
from seriatim.box.views.operations_done import LogFilter
from seriatim.kernel.values.time import moment_of
from seriatim.operations.log_entries import LogEntry
from seriatim.operations.pipelines.found import FOLDER, OF_PIPELINE, FoundPipeline, found_of
from seriatim.spark.control.commands import LOOK, Command, CommandResult
from seriatim.spark.control.log import COMMAND
from seriatim.spark.control.pipeline_place import PipelinePlace

__all__ = ["LogEntry", "operator_log", "operator_logs_here"]


@filtered(LogFilter, OF_PIPELINE, without=("before",))
def operator_log(pipeline: str | Path | FoundPipeline, chosen: LogFilter) -> list[LogEntry]:
    """List entries of a pipeline's operator log, newest first; queued commands come before all others.

    Raises:
        CheckpointMismatch: its checkpoint, or a file of the log, is damaged.
    """
    return list(islice(_entries(found_of(pipeline).place, chosen), chosen.limit))


def operator_logs_here(chosen: LogFilter) -> list[LogEntry]:
    """Entries of the operator logs of all pipelines with a checkpoint below this folder, newest first; see `operator_log`."""
    found: list[LogEntry] = []
    for one in sorted(FOLDER.glob("*/pipeline.json")):
        found += islice(_entries(PipelinePlace.of(one.parent.absolute()), chosen), chosen.limit)
    return sorted(found, key=lambda one: one.at, reverse=True)[: chosen.limit]


def _entries(place: PipelinePlace, chosen: LogFilter) -> Iterator[LogEntry]:
    queued = place.not_obeyed()
    answered = {one.id for one in place.operator_log.answers()} if queued else set()
    waiting = [Command.of(one) for one in queued if one["kind"] == COMMAND and one["id"] not in answered]
    told = chain(
        (CommandResult.to(one, "queued", at=one.at) for one in reversed(waiting)),
        place.operator_log.answers(newest_first=True),
    )
    return filter(chosen.fits, (_logged(place.name, one) for one in told if one.verb != LOOK))


def _logged(pipeline: str, answer: CommandResult) -> LogEntry:
    further = ("why", "before", "after", "released", "set_aside", "dry_run")
    told: dict[str, Any] = {"arguments": dict(answer.arguments), **{name: getattr(answer, name) for name in further}}
    result = "dry run" if answer.dry_run and answer.result == "done" else answer.result
    of = (answer.id, moment_of(answer.at), pipeline, answer.actor, answer.verb, answer.queue, answer.group)
    details = {name: value for name, value in told.items() if value}
    return LogEntry(*of, result, answer.reason, details, None if answer.batch < 0 else answer.batch)
