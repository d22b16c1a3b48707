"""Events of a pipeline's groups, for operators: list and count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from seriatim.box.views.events import EventFilter, KindCount
from seriatim.box.views.filtered import filtered
from seriatim.errors import UsageError
from seriatim.kernel.values.time import moment_of
from seriatim.operations.pipelines.found import OF_PIPELINE, FoundPipeline, found_of
from seriatim.pipeline.text.counted import numbers_text
from seriatim.spark.control.operator_log import EVENT

__all__ = ["GroupEvent", "KindCount", "events", "events_by_kind"]

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
        return numbers_text(self.first, self.last)

    @property
    def by(self) -> str | None:
        """The actor and the reason; None: a rule caused it."""
        return None if self.actor is None else f"{self.actor}: {self.reason}"


@filtered(EventFilter, OF_PIPELINE)
def events(pipeline: str | Path | FoundPipeline, chosen: EventFilter) -> list[GroupEvent]:
    """List events of a pipeline's groups, newest first; behind a position oldest first, as an exporter reads them.

    Raises:
        CheckpointMismatch: a file of the operator log is damaged.
    """
    if chosen.before is not None and chosen.after is not None:
        raise UsageError("before and after can't be combined", remedy="leave one of them out")
    return list(islice(_events(pipeline, chosen), chosen.limit))


@filtered(EventFilter, OF_PIPELINE, without=("before", "after"))
def events_by_kind(pipeline: str | Path | FoundPipeline, chosen: EventFilter) -> list[KindCount]:
    """Count events by their kind, the most frequent first."""
    counts: dict[str, list[Any]] = {}
    for one in _events(pipeline, chosen):
        count = counts.setdefault(one.kind, [0, set(), one.at, one.at])
        count[0] += 1
        count[1].add((one.queue, one.group))
        count[2], count[3] = min(count[2], one.at), max(count[3], one.at)
    found = [KindCount(kind, many, len(groups), first, last) for kind, (many, groups, first, last) in counts.items()]
    return sorted(found, key=lambda one: (-one.events, one.kind))[: chosen.limit]


def _events(pipeline: str | Path | FoundPipeline, chosen: EventFilter) -> Iterator[GroupEvent]:
    before, after = chosen.before, chosen.after
    entries = found_of(pipeline).place.operator_log.entries(
        after=-1 if after is None else after // _PLACES - 1,
        through=None if before is None else before // _PLACES,
        newest_first=after is None,
        kind=EVENT,
    )
    for event in map(_event, entries):
        if (
            (before is None or event.event_id < before)
            and (after is None or event.event_id > after)
            and chosen.fits(event)
        ):
            yield event


def _event(entry: dict[str, Any]) -> GroupEvent:
    own = ("event_id", "at", "kind")
    known: dict[str, Any] = {name: entry.get(name) for name in GroupEvent.__slots__ if name not in own}
    # By the event clock something may happen before any time is known.
    at = moment_of(max(entry["at"], 0))
    return GroupEvent(entry["batch"] * _PLACES + entry["place"], at, kind=entry["event"], **known)
