"""The operator log of a pipeline: who did what, when and why, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Unpack

from seriatim.operations.log_entries import LogEntry
from seriatim.operations.log_filter import LogChoice, LogFilter, checked_limit, log_filter
from seriatim.operations.period import ends_of
from seriatim.operations.pipelines.found import FOLDER, FoundPipeline, find
from seriatim.spark.control.commands import LOOK, Command, CommandResult
from seriatim.spark.control.log import COMMAND
from seriatim.spark.control.pipeline_place import PipelinePlace

__all__ = ["LogEntry", "operator_log", "operator_log_of", "operator_logs_here"]


def operator_log(
    pipeline: str | Path, queue: str | None = None, *, limit: int = 100, **chosen: Unpack[LogChoice]
) -> list[LogEntry]:
    """List entries of a pipeline's operator log, newest first; queued commands come before all others.

    Args:
        pipeline: its name, or its file.
        queue: only commands for groups of this destination.
        limit: the largest number of rows.
        chosen: what narrows the list further: `group`, `actor`, `action`, `since`, `until`; see `LogChoice`.

    Raises:
        UsageError: there is no such pipeline, or the limit or the range of time is invalid.
        CheckpointMismatch: its checkpoint, or a file of the log, is damaged.
    """
    return operator_log_of(find(pipeline), queue, limit=limit, **chosen)


def operator_log_of(
    found: FoundPipeline, queue: str | None = None, *, limit: int = 100, **chosen: Unpack[LogChoice]
) -> list[LogEntry]:
    """The same of a pipeline that was found."""
    return list(islice(_entries(found.place, log_filter(queue, **chosen)), checked_limit(limit)))


def operator_logs_here(queue: str | None = None, *, limit: int = 100, **chosen: Unpack[LogChoice]) -> list[LogEntry]:
    """Entries of the operator logs of all pipelines with a checkpoint below this folder, newest first; see `operator_log`."""
    found: list[LogEntry] = []
    by = log_filter(queue, **chosen)
    for one in sorted(FOLDER.glob("*/pipeline.json")):
        found += islice(_entries(PipelinePlace.of(one.parent.absolute()), by), limit)
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]


def _entries(place: PipelinePlace, by: LogFilter) -> Iterator[LogEntry]:
    since, until = ends_of(by.times)
    queued = place.not_obeyed()
    answered = {one.id for one in place.operator_log.answers()} if queued else set()
    waiting = [Command.of(one) for one in queued if one["kind"] == COMMAND and one["id"] not in answered]
    for command in reversed(waiting):
        if _fits(command, command.key, by, since, until):
            yield _logged(place.name, CommandResult.to(command, "queued", at=command.at))
    for answer in place.operator_log.answers(newest_first=True):
        if _fits(answer, answer.group, by, since, until):
            yield _logged(place.name, answer)


def _fits(
    one: Command | CommandResult, group: str | None, by: LogFilter, since: datetime | None, until: datetime | None
) -> bool:
    at = datetime.fromtimestamp(one.at / 1_000_000, UTC)
    pairs = ((by.queue, one.queue), (by.group, group), (by.actor, one.actor), (by.action, one.verb))
    return (
        one.verb != LOOK
        and all(wanted in (None, its) for wanted, its in pairs)
        and (since is None or at >= since)
        and (until is None or at < until)
    )


def _logged(pipeline: str, answer: CommandResult) -> LogEntry:
    told: dict[str, Any] = {
        "arguments": dict(answer.arguments),
        "why": answer.why,
        "before": answer.before,
        "after": answer.after,
    }
    told |= {"released": answer.released, "set_aside": answer.set_aside, "dry_run": answer.dry_run}
    return LogEntry(
        answer.id,
        datetime.fromtimestamp(answer.at / 1_000_000, UTC),
        pipeline,
        answer.actor,
        answer.verb,
        answer.queue,
        answer.group,
        "dry run" if answer.dry_run and answer.result == "done" else answer.result,
        answer.reason,
        {name: value for name, value in told.items() if value},
        None if answer.batch < 0 else answer.batch,
    )
