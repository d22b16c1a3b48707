"""Exact counts of a pipeline's messages by disposition, from the first batch on.

The tally is stored in the checkpoint after each batch is in place, before Spark commits it. A
batch that runs again is added to the counts before it, so it counts once. Its file names its batch, so one that was replaced
by an older one, or comes from a later backup than the rest, is noticed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.pipelines.progress import HeldGroup, SkippedHoles, SuspectedRestart, SuspectedRestarts
from seriatim.spark.deliver.set_aside_reasons import SetAsideReason
from seriatim.spark.deliver.stage import Delivered
from seriatim.spark.resequence.bucket import LONGEST, MOST_SUSPECTED, waited_since
from seriatim.spark.state.checkpoint_files import write_synced

#: The key among the counts of dispositions for messages that operators have put back: they arrived once more.
PUT_BACK = "put_back"


@dataclass(frozen=True, slots=True)
class Standing:
    batch: int = -1
    #: The numbers of messages decided so far, by destination and disposition, and of those that were put back.
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: The operator's last report for each bucket of its state.
    reports: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def count(self, destination: str, disposition: str) -> int:
        return self.counts.get(destination, {}).get(disposition, 0)

    def held(self, destination: str) -> int:
        """The number of held messages of that destination, from the operator's reports."""
        return sum(report.get("held", {}).get(destination, 0) for report in self.reports.values())

    def holes(self) -> int:
        return sum(sum(report.get("holes", {}).values()) for report in self.reports.values())

    def held_groups(self) -> int:
        return sum(sum(report.get("held_groups", {}).values()) for report in self.reports.values())

    def longest(self) -> tuple[HeldGroup, ...]:
        """Of the groups that hold messages the few that have waited longest."""
        groups = [group for report in self.reports.values() for group in report.get("longest", [])]
        return tuple(HeldGroup.of(group) for group in sorted(groups, key=waited_since)[:LONGEST])

    def suspected(self) -> SuspectedRestarts:
        """The groups whose producer seems to have begun anew."""
        reports = [report["suspected"] for report in self.reports.values() if "suspected" in report]
        first = sorted(tuple(group) for report in reports for group in report["first"])[:MOST_SUSPECTED]
        return SuspectedRestarts(
            sum(report["groups"] for report in reports), tuple(SuspectedRestart(*hole) for hole in first)
        )

    def after(self, delivered: Delivered, reports: Sequence[Mapping[str, Any]]) -> Standing:
        """The counts with one more batch, and what the operator reports of it."""
        counts = {destination: Counter(by) for destination, by in self.counts.items()}
        for (destination, disposition), rows in delivered.counts.items():
            counts.setdefault(destination, Counter())[disposition] += rows
        for report in reports:
            for destination, rows in report.get(PUT_BACK, {}).items():
                counts.setdefault(destination, Counter())[PUT_BACK] += rows
        standing = {**self.reports, **{str(report["bucket"]): report for report in reports}}
        return Standing(delivered.batch, {name: dict(by) for name, by in counts.items()}, standing)


class Tally:
    def __init__(self, file: Path) -> None:
        self._file = file
        #: Whether the counts aren't those of the checkpoint: its former content isn't known, and the law can't be checked.
        self.is_lost = False
        self.standing, self._before = _read(file)
        #: The counts before the first batch that this object counted.
        self.opening = self.standing
        self._opened = False
        # The batches whose counts weren't asked for yet.
        self._counted: dict[int, Standing] = {}
        self._tasks: dict[int, tuple[int, ...]] = {}
        self._reasons: dict[int, tuple[SetAsideReason, ...]] = {}
        self._skipped: dict[int, SkippedHoles] = {}

    def begin(self, *, begun: int, committed: int) -> None:
        """Begin a run. The file is made before the first batch: a file that is missing later was lost, whenever a run was killed."""
        if not self._file.exists():
            if begun < 0:
                self._write()
                return
            noun = "is missing: counts of messages begin at 0"
        # The entry of Spark's log that begins a batch may be lost in a power failure, and the tally of that batch not.
        elif not committed <= self.standing.batch <= begun + 1:
            noun = (
                f"is that of batch {self.standing.batch}, and batch {committed} is the last that is committed: "
                "counts of messages go on from it"
            )
        else:
            return
        self.is_lost = True
        self.standing = self._before = self.opening = replace(self.standing, batch=committed)
        LOG.warning("tally_lost", _file=self._file, _noun=noun)

    def add(self, delivered: Delivered) -> None:
        """Count a batch; it replaces itself if it was the last counted batch."""
        replayed = delivered.batch <= self.standing.batch
        before = self._before if replayed else self.standing
        if not self._opened:
            self.opening, self._opened = before, True
        reports = [json.loads(report) for report in delivered.reports]
        for report in reports:
            for kept in ("answers", "events"):  # they are in the operator log
                report.pop(kept, None)
        skipped = _skipped(reports)
        after = before.after(delivered, reports)
        for report in reports:
            report.pop(PUT_BACK, None)  # it is counted
        self._before, self.standing = before, after
        self._counted[delivered.batch] = after
        self._tasks[delivered.batch] = delivered.tasks
        self._reasons[delivered.batch] = delivered.reasons
        self._skipped[delivered.batch] = skipped
        self._write()

    def gather(self, bucket: int) -> None:
        """Merge the reports of all buckets into one. After a move the buckets are others, and report in their first batch."""
        together = {"bucket": bucket, **_together(self.standing.reports.values())}
        standing = Standing(self.standing.batch, self.standing.counts, {str(bucket): together})
        self.standing = self._before = self.opening = standing
        self._write()

    def _write(self) -> None:
        content = {"standing": _plain(self.standing), "before": _plain(self._before)}
        write_synced(self._file, json.dumps(content).encode())

    def through(self, batch: int) -> list[Standing]:
        """Return the counts after each batch up to this one that this object counted and hasn't forgotten."""
        return [standing for number, standing in sorted(self._counted.copy().items()) if number <= batch]

    def after(self, batch: int) -> Standing | None:
        """The counts after a batch that this object counted; the counts of earlier batches are forgotten. A batch may be counted and then
        be cancelled.
        """
        for old in [number for number in list(self._counted) if number < batch]:
            del self._counted[old]
            self._tasks.pop(old, None)
        return self._counted.get(batch)

    def tasks(self, batch: int) -> tuple[int, ...]:
        """The number of messages of each task, for a batch that this object counted."""
        return self._tasks.get(batch, ())

    def reasons_through(self, batch: int) -> list[SetAsideReason]:
        """Return why messages were set aside in the batches up to this one; each batch is returned once."""
        return [reason for old in sorted(self._reasons) if old <= batch for reason in self._reasons.pop(old)]

    def skipped_through(self, batch: int) -> SkippedHoles:
        """Return the holes that were skipped in the batches up to this one; each batch is returned once."""
        return sum((self._skipped.pop(old) for old in sorted(self._skipped) if old <= batch), start=SkippedHoles())


def _together(reports: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    whole_report: dict[str, Any] = {"longest": []}
    groups: list[Any] = []
    for report in reports:
        for key in ("held", "holes", "groups", "held_groups"):
            whole_report[key] = dict(Counter(whole_report.get(key, {})) + Counter(report.get(key, {})))
        whole_report["longest"] = sorted([*whole_report["longest"], *report.get("longest", [])], key=waited_since)[
            :LONGEST
        ]
        for key in ("suspected", "stopped"):
            if key in report:
                before = whole_report.get(key, {"groups": 0, "first": groups})
                whole_report[key] = {
                    "groups": before["groups"] + report[key]["groups"],
                    "first": [*before["first"], *report[key]["first"]],
                }
    return whole_report


def _skipped(reports: Iterable[dict[str, Any]]) -> SkippedHoles:
    """Take the skipped holes of a batch out of its reports, which only describe the state."""
    skipped = [report.pop("skipped") for report in reports if "skipped" in report]
    first = sorted(tuple(hole) for part in skipped for hole in part["first"])
    return SkippedHoles.of(sum(part["holes"] for part in skipped), sum(part["numbers"] for part in skipped), first)


def _plain(standing: Standing) -> dict[str, object]:
    return {"batch": standing.batch, "counts": standing.counts, "reports": standing.reports}


def _read(file: Path) -> tuple[Standing, Standing]:
    try:
        content = json.loads(file.read_bytes())
        return Standing(**content["standing"]), Standing(**content["before"])
    except FileNotFoundError:
        return Standing(), Standing()
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointMismatch("the tally is damaged", where=str(file), remedy="restore or remove it") from error
