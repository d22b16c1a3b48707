"""The operator log of a pipeline: who did what, when and why, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self

from seriatim.box.views.filters import LogFilter
from seriatim.errors import UsageError, shown
from seriatim.operations.log_entries import LogEntry
from seriatim.operations.period import When, moments
from seriatim.operations.pipelines.found import FOLDER, FoundPipeline, find
from seriatim.spark.control.commands import LOOK, Answer, Command
from seriatim.spark.control.log import COMMAND
from seriatim.spark.control.pipeline_place import PipelinePlace, log_position

__all__ = ["LogEntry", "operator_log", "operator_log_of", "operator_logs_here"]

_MOST = 100_000


def operator_log(
    pipeline: str | Path,
    queue: str | None = None,
    *,
    group: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: When | None = None,
    until: When | None = None,
    limit: int = 100,
) -> list[LogEntry]:
    """List entries of a pipeline's operator log, newest first; queued commands come before all others.

    Args:
        pipeline: its name, or its file.
        queue: only commands for groups of this destination.
        group: only commands for groups with this key.
        actor: only commands of this actor.
        action: only this action, such as ``"skip_message"``.
        since: only commands from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was, as
            seconds or ``"2h"``.
        until: only commands before this moment, likewise.
        limit: the largest number of rows.

    Raises:
        UsageError: there is no such pipeline, or the limit or the range of time is invalid.
        CheckpointMismatch: its checkpoint, or a file of the log, is damaged.
    """
    return operator_log_of(
        find(pipeline), queue, group=group, actor=actor, action=action, since=since, until=until, limit=limit
    )


def operator_log_of(
    found: FoundPipeline,
    queue: str | None = None,
    *,
    group: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: When | None = None,
    until: When | None = None,
    limit: int = 100,
) -> list[LogEntry]:
    """The same of a pipeline that was found."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} actions", remedy=f"an integer from 1 to {_MOST:,}")
    chosen = _Chosen.of(queue, group, actor, action, since, until)
    return list(islice(_entries(found.place, chosen), limit))


def operator_logs_here(
    queue: str | None = None,
    *,
    group: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: When | None = None,
    until: When | None = None,
    limit: int = 100,
) -> list[LogEntry]:
    """Entries of the operator logs of all pipelines with a checkpoint below this folder, newest first; see `operator_log`."""
    found: list[LogEntry] = []
    chosen = _Chosen.of(queue, group, actor, action, since, until)
    for one in sorted(FOLDER.glob("*/pipeline.json")):
        found += islice(_entries(PipelinePlace.of(one.parent.absolute()), chosen), limit)
    return sorted(found, key=lambda one: one.at, reverse=True)[:limit]


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A filter, whose times are moments."""

    by: LogFilter
    since: datetime | None
    until: datetime | None

    @classmethod
    def of(
        cls,
        queue: str | None,
        group: str | None,
        actor: str | None,
        action: str | None,
        since: When | None,
        until: When | None,
    ) -> Self:
        return cls(LogFilter(queue, group, actor, action), *moments(since, until))

    def fits(self, one: Command | Answer) -> bool:
        at, key = datetime.fromtimestamp(one.at / 1_000_000, UTC), one.key if isinstance(one, Command) else one.group
        pairs = (
            (self.by.queue, one.queue),
            (self.by.group, key),
            (self.by.actor, one.actor),
            (self.by.action, one.verb),
        )
        return (
            one.verb != LOOK
            and all(wanted in (None, its) for wanted, its in pairs)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


def _entries(place: PipelinePlace, chosen: _Chosen) -> Iterator[LogEntry]:
    after = log_position(place.root / "query", done=True)
    queued = place.control.read(after, place.control.last())
    answered = {one.id for one in place.operator_log.answers()} if queued else set()
    waiting = [Command.of(one) for one in queued if one["kind"] == COMMAND and one["id"] not in answered]
    for command in reversed(waiting):
        if chosen.fits(command):
            yield _logged(place.name, Answer.to(command, "queued", at=command.at))
    for answer in place.operator_log.answers(newest_first=True):
        if chosen.fits(answer):
            yield _logged(place.name, answer)


def _logged(pipeline: str, answer: Answer) -> LogEntry:
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
