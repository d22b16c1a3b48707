"""What a pipeline of two destinations has on disk, ``ordered`` (standard) and ``archive`` (fifo), and what has to be there."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.runtime.pipelines.tally import Tally
from tests.delivered import table_of
from tests.faults.feed import Truth


@dataclass(frozen=True)
class Disk:
    """What a pipeline has on disk, where its moments can be seen."""

    root: Path

    @property
    def ports(self) -> list[Path]:
        return [self.root / "out/ordered", self.root / "out/archive", self.root / "checkpoint/set-aside"]

    def begun(self) -> int:
        return _last(self.root / "checkpoint/query/offsets")

    def committed(self) -> int:
        return _last(self.root / "checkpoint/query/commits")

    def writes(self) -> bool:
        return any(_names(staging) for port in self.ports for staging in port.glob(".staging*"))

    def in_place(self, batch: int) -> list[str]:
        return [port.name for port in self.ports if (port / f"batch={batch:010d}").exists()]


def _names(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir()]
    except FileNotFoundError:
        return []


def _last(log: Path) -> int:
    return max((int(name) for name in _names(log) if name.isdecimal()), default=-1)


def delivered(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The rows of a port: batches in order of name, in each of them its files, in each of them its rows."""
    return table_of(folder, kind).to_pylist()


def by_group(rows: list[dict[str, Any]]) -> dict[str, list[tuple[str, int]]]:
    """Of each group (message, number) in order of delivery; ordinals must count them."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["group"]].append((row["message_id"], row["number"]))
        assert row["ordinal"] == len(groups[row["group"]]), row
    return dict(groups)


def check(disk: Disk, truth: Truth) -> None:
    ordered, archive, aside = disk.ports
    assert by_group(delivered(ordered, "json")) == truth.ordered()
    assert by_group(delivered(archive, "parquet")) == dict(truth.arrived)
    rows = delivered(aside, "json")
    found = Counter((row["destination"], row["disposition"], row["message_id"]) for row in rows)
    expected = [("ordered", "duplicate", message) for message in truth.repeated()]
    expected += [(to, "invalid", message) for to in ("ordered", "archive") for message in truth.invalid]
    assert found == Counter(expected)
    assert all(row["reason"] for row in rows)


def check_conservation(disk: Disk, truth: Truth) -> None:
    standing = Tally(Checkpoint(disk.root / "checkpoint").tally).standing
    everything = sum(map(len, truth.arrived.values())) + len(truth.invalid)
    for to in ("ordered", "archive"):
        assert standing.held(to) == 0
        assert sum(standing.counts[to].values()) == everything
    assert standing.count("ordered", "duplicate") == len(truth.repeated())
    assert standing.count("ordered", "invalid") == standing.count("archive", "invalid") == len(truth.invalid)
