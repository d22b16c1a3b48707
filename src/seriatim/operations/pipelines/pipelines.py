"""Pipelines, for operators: which there are, whether they run, how far they are, and what they hold."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch
from seriatim.kernel.values.time import maybe_moment_of
from seriatim.operations.pipelines.found import FOLDER, FoundPipeline, found_of
from seriatim.operations.tables.texts import SET_ASIDE
from seriatim.spark.control.lease_state import LeaseState
from seriatim.spark.control.log import COMMAND
from seriatim.spark.control.pace import Pace
from seriatim.spark.control.pipeline_place import PipelinePlace


@dataclass(frozen=True, slots=True)
class DestinationCounts:
    """The messages of a destination, from the first batch on.

    Args:
        queue: the destination; None: of messages that have none.
        released: how many it has released.
        held: how many it holds.
        holes: how many of its groups wait for a missing number.
        groups: how many groups it knows.
        late: how many were set aside as late.
        duplicate: how many were duplicates.
        invalid: how many were invalid.
        rejected: how many were rejected.
        dead: how many are dead.
        unrouted: how many matched no destination.
        void: how many left nothing, and let the next number pass.
        copy: how many were copies of messages that the other of two regions had shown.
    """

    queue: str | None
    released: int
    held: int
    holes: int
    groups: int
    late: int
    duplicate: int
    invalid: int
    rejected: int
    dead: int
    unrouted: int
    void: int = 0
    copy: int = 0


@dataclass(frozen=True, slots=True)
class PipelineCounts:
    """A pipeline, after its last batch.

    Args:
        pipeline: its name.
        checkpoint: the folder of its checkpoint.
        running: whether a run has it.
        batch: its last committed batch; None: there is none yet.
        batch_at: the time of that batch.
        behind: how many records a run is behind its source, of the partition that is furthest behind; None: the source can't tell, or
            nothing runs.
        received_per_s: the messages a second that a run has received in the last minute; None: nothing runs.
        released_per_s: the messages a second that it has released in the last minute; None: nothing runs.
        held: how many messages it holds.
        held_groups: how many groups hold some.
        waiting_groups: how many groups wait for a missing number.
        oldest: since when the group waits that has waited longest.
        age_s: how long that is, in seconds; None: none waits.
        set_aside: how many messages were set aside, from the first batch on.
        queued: how many commands wait for it.
        state_bytes: the size of its state on disk.
        destinations: the counts of each destination.
        lease: whether the run delivers, where another one may; None: nothing runs, or no other run may.
    """

    pipeline: str
    checkpoint: str
    running: bool
    batch: int | None
    batch_at: datetime | None
    behind: int | None
    received_per_s: float | None
    released_per_s: float | None
    held: int
    held_groups: int
    waiting_groups: int
    oldest: datetime | None
    age_s: float | None
    set_aside: int
    queued: int
    state_bytes: int
    destinations: tuple[DestinationCounts, ...]
    lease: LeaseState | None = None

    @property
    def holes(self) -> int:
        """How many groups wait for a missing number: the same as `waiting_groups`."""
        return self.waiting_groups


@dataclass(frozen=True, slots=True)
class NextTicket:
    """The next ticket of a location: its name, and the `epoch` and the `number` of the ticket."""

    location: str
    epoch: int
    number: int


def next_tickets(pipeline: str | Path | FoundPipeline) -> list[NextTicket]:
    """The next ticket of each location at which a pipeline stamps, after its last batch, by location.

    Starts Spark to read its state, unless this process runs it already; that takes some seconds.

    Raises:
        UsageError: there is no such pipeline, or it has not run yet.
        CheckpointMismatch: its checkpoint is another pipeline's, of another layout, or damaged.
    """
    found = found_of(pipeline)
    last = {one.location: one.stamp.last_number for one in found.declared.receive if one.stamp is not None}
    query = found.place.root / "query"
    if not last or _last_batch(query)[0] is None:
        return [NextTicket(location, 0, 1) for location in sorted(last)]
    from seriatim.spark.front.positions import positions_in  # noqa: PLC0415 -- Spark is slow to start
    from seriatim.spark.session.builder import session_for_a_look  # noqa: PLC0415

    with session_for_a_look(found.name) as session:
        positions = positions_in(session, str(query.absolute()))
    of = {name: divmod(positions.get(name, 1) - 1, number) for name, number in last.items()}
    return [NextTicket(location, epoch, number + 1) for location, (epoch, number) in sorted(of.items())]


def pipelines() -> list[PipelineCounts]:
    """All pipelines with a checkpoint below this folder, by name.

    Raises:
        CheckpointMismatch: a checkpoint is damaged, or of another layout.
    """
    return [_counts(PipelinePlace.of(one.parent.absolute())) for one in sorted(FOLDER.glob("*/pipeline.json"))]


def counts_of(pipeline: str | Path | FoundPipeline) -> PipelineCounts:
    """One pipeline, by its name or its file.

    Raises:
        UsageError: there is none, or it has not run yet.
        CheckpointMismatch: its checkpoint is another pipeline's, of another layout, or damaged.
    """
    return _counts(found_of(pipeline).place)


def _counts(place: PipelinePlace) -> PipelineCounts:
    query = place.root / "query"
    standing = _standing(place.root / "tally.json")
    reports = list(standing["reports"].values())
    names = sorted(
        {*standing["counts"], *(name for one in reports for name in one.get("groups", {}))} - {"\x1fnowhere"}
    )
    destinations = tuple(_destination(name, standing["counts"].get(name, {}), reports) for name in names)
    since = [group[5] for one in reports for group in one.get("longest", ()) if group[5] is not None]
    batch, at = _last_batch(query)
    entries = place.not_obeyed()
    running, oldest = place.is_running(), min(since, default=None)
    now = time.time()
    pace = Pace.of(place.root) if running else None
    return PipelineCounts(
        place.name,
        str(place.root),
        running,
        batch,
        at,
        behind=None if pace is None else pace.behind,
        received_per_s=None if pace is None else pace.received_per_s(now),
        released_per_s=None if pace is None else pace.released_per_s(now),
        held=sum(one.held for one in destinations),
        held_groups=sum(sum(one.get("held_groups", {}).values()) for one in reports),
        waiting_groups=sum(one.holes for one in destinations),
        oldest=maybe_moment_of(oldest),
        age_s=None if oldest is None else max(0.0, round(now - oldest / 1_000_000, 1)),
        set_aside=sum(getattr(one, what) for one in destinations for what in SET_ASIDE),
        queued=sum(one["kind"] == COMMAND for one in entries),
        state_bytes=_size(query / "state"),
        destinations=destinations,
        lease=LeaseState.of(place.root) if running else None,
    )


def _destination(name: str, counts: dict[str, int], reports: list[dict[str, Any]]) -> DestinationCounts:
    held, holes, groups = (
        sum(one.get(what, {}).get(name, 0) for one in reports) for what in ("held", "holes", "groups")
    )
    aside = {what: counts.get(what, 0) for what in SET_ASIDE}
    others = {what: counts.get(what, 0) for what in ("unrouted", "void", "copy")}
    return DestinationCounts(name or None, counts.get("released", 0), held, holes, groups, **aside, **others)


def _standing(file: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())["standing"]
        return {"counts": dict(found["counts"]), "reports": dict(found["reports"])}
    except FileNotFoundError:
        return {"counts": {}, "reports": {}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch("the tally is damaged", where=str(file), remedy="restore or remove it") from error


def _last_batch(query: Path) -> tuple[int | None, datetime | None]:
    commits = query / "commits"
    numbers = [int(one.name) for one in commits.iterdir() if one.name.isdecimal()] if commits.is_dir() else []
    if not numbers:
        return None, None
    try:
        told = json.loads((query / "offsets" / str(max(numbers))).read_text(encoding="utf-8").splitlines()[1])
        return max(numbers), maybe_moment_of(int(told["batchTimestampMs"]) * 1000)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return max(numbers), None  # a run says what is wrong with the file


def _size(folder: Path) -> int:
    total = 0
    for one in folder.rglob("*"):
        try:
            total += one.stat().st_size if one.is_file() else 0
        except FileNotFoundError:
            continue  # a run has deleted it meanwhile
    return total
