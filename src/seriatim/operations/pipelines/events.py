"""Events of a pipeline's groups, for operators: list and count."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import translate
from itertools import islice
from pathlib import Path
from re import compile as pattern
from typing import Any

from seriatim.box.views.events import KindCount, checked_kinds
from seriatim.errors import UsageError, shown
from seriatim.operations.period import When, moments
from seriatim.operations.pipelines.found import FoundPipeline, find
from seriatim.spark.control.operator_log import EVENT

__all__ = ["GroupEvent", "KindCount", "events", "events_by_kind"]

_MOST = 100_000
#: Between the numbers of the first events of two batches: more than a batch can have.
_PLACES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """An event of a pipeline's group.

    Args:
        event_id: its number: it rises from batch to batch, and within a batch in order of time.
        at: the time of the batch, or by which clock it happened.
        queue: the destination.
        group: the group's key.
        incarnation: that of the destination, from 0.
        kind: what happened.
        first: the first number concerned; None: it concerns none.
        last: the last number concerned.
        count: how many messages or numbers it stands for.
        batch: the batch in which it happened.
        operation_id: the command that caused it; None: a rule did.
        action: its action.
        actor: the operator's name.
        reason: the operator's reason.
    """

    event_id: int
    at: datetime
    queue: str
    group: str
    incarnation: int
    kind: str
    first: int | None
    last: int | None
    count: int
    batch: int
    operation_id: str | None = None
    action: str | None = None
    actor: str | None = None
    reason: str | None = None

    @property
    def position(self) -> int:
        """The number behind which an exporter goes on: the same as `event_id`."""
        return self.event_id

    @property
    def numbers(self) -> str | None:
        """The numbers concerned, as people write them."""
        if self.first is None:
            return None
        return str(self.first) if self.first == self.last else f"{self.first}..{self.last}"

    @property
    def by(self) -> str | None:
        """The actor and the reason; None: a rule caused it."""
        return None if self.actor is None else f"{self.actor}: {self.reason}"


def events(
    pipeline: str | Path | FoundPipeline,
    queue: str | None = None,
    *,
    group: str | None = None,
    key: str | None = None,
    kinds: str | Collection[str] | None = None,
    since: When | None = None,
    until: When | None = None,
    before: int | None = None,
    after: int | None = None,
    limit: int = 100,
) -> list[GroupEvent]:
    """List events of a pipeline's groups, newest first; behind a position oldest first.

    Args:
        pipeline: its name, or its file.
        queue: only of groups of this destination.
        group: only of the group with this key.
        key: only of groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
        kinds: only events of this kind, or of these kinds.
        since: only events from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was, as
            seconds or ``"2h"``.
        until: only events before this moment, likewise.
        before: only events with a lower `event_id`, for paging: the last one of the previous call.
        after: only events behind this position, oldest first, as an exporter reads them; 0 begins. None: newest first.
        limit: the largest number of rows.

    Raises:
        UsageError: there is no such pipeline or kind, or the limit or the range of time is invalid; or there are both `before` and `after`.
        CheckpointMismatch: a file of the operator log is damaged.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} events", remedy=f"an integer from 1 to {_MOST:,}")
    if before is not None and after is not None:
        raise UsageError("before and after can't be combined", remedy="leave one of them out")
    found = _events(
        pipeline, queue, group=group, key=key, kinds=kinds, since=since, until=until, before=before, after=after
    )
    return list(islice(found, limit))


def events_by_kind(
    pipeline: str | Path | FoundPipeline,
    queue: str | None = None,
    *,
    group: str | None = None,
    key: str | None = None,
    kinds: str | Collection[str] | None = None,
    since: When | None = None,
    until: When | None = None,
) -> list[KindCount]:
    """Count events by their kind, the most frequent first; see `events` for the arguments and errors."""
    counts: dict[str, list[Any]] = {}
    for one in _events(pipeline, queue, group=group, key=key, kinds=kinds, since=since, until=until):
        count = counts.setdefault(one.kind, [0, set(), one.at, one.at])
        count[0] += 1
        count[1].add((one.queue, one.group))
        count[2], count[3] = min(count[2], one.at), max(count[3], one.at)
    found = [KindCount(kind, many, len(groups), first, last) for kind, (many, groups, first, last) in counts.items()]
    return sorted(found, key=lambda one: (-one.events, one.kind))


def _events(
    pipeline: str | Path | FoundPipeline,
    queue: str | None,
    *,
    group: str | None,
    key: str | None,
    kinds: str | Collection[str] | None,
    since: When | None,
    until: When | None,
    before: int | None = None,
    after: int | None = None,
) -> Iterator[GroupEvent]:
    named = checked_kinds(kinds)
    begin, end = moments(since, until)
    found = pipeline if isinstance(pipeline, FoundPipeline) else find(pipeline)
    fits = pattern(translate("*" if key is None else key.replace("[", "[[]")))
    entries = found.place.operator_log.entries(
        after=-1 if after is None else after // _PLACES - 1,
        through=None if before is None else before // _PLACES,
        newest_first=after is None,
        kind=EVENT,
    )
    for entry in entries:
        event = _event(entry)
        if (
            (before is None or event.event_id < before)
            and (after is None or event.event_id > after)
            and queue in (None, event.queue)
            and group in (None, event.group)
            and (named is None or event.kind in named)
            and fits.match(event.group)
            and (begin is None or event.at >= begin)
            and (end is None or event.at < end)
        ):
            yield event


def _event(entry: dict[str, Any]) -> GroupEvent:
    own = ("event_id", "at", "kind")
    known: dict[str, Any] = {name: entry.get(name) for name in GroupEvent.__slots__ if name not in own}
    # By the event clock something may happen before any time is known.
    at = datetime.fromtimestamp(max(entry["at"], 0) / 1_000_000, UTC)
    return GroupEvent(entry["batch"] * _PLACES + entry["place"], at, kind=entry["event"], **known)
