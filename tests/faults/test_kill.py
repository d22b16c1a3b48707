"""SIGKILL to a pipeline's whole process group, again and again: nothing is lost, repeated or reordered.

The delivered files are counted with pyarrow, as any reader finds them.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from seriatim.runtime.checkpoint import Checkpoint
from seriatim.runtime.tally import Tally
from tests.delivered import table_of
from tests.faults.feed import LOCATION, Truth, write_feed
from tests.faults.process import Run, running

SEED = 20240501

FILE = f"""
name: orders
checkpoint: checkpoint
buckets: 2
trigger: 0s
spark: {{spark.master: "local[2]", spark.sql.shuffle.partitions: 2}}
receive:
  - location: {LOCATION}
    source: {{format: json, path: in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{key: $.group, number: {{path: $.number, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: key, sequence: number}}
    deliver: {{format: json, path: out/ordered}}
  - to: archive
    resequence: {{policy: fifo, group: key}}
    deliver: {{format: parquet, path: out/archive}}
"""


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
        return any(_names(port / ".staging") for port in self.ports)

    def in_place(self, batch: int) -> list[str]:
        return [port.name for port in self.ports if (port / f"batch={batch:010d}").exists()]


def _names(folder: Path) -> list[str]:
    try:
        return [one.name for one in folder.iterdir()]
    except FileNotFoundError:
        return []


def _last(log: Path) -> int:
    return max((int(name) for name in _names(log) if name.isdecimal()), default=-1)


Moment = Callable[[Run], bool]


def starting(disk: Disk, after: int) -> Moment:
    """Spark has been started, and nothing else."""
    begun = disk.begun()
    return lambda run: "java" in run.alive().values() and disk.begun() == begun


def told(disk: Disk, after: int) -> Moment:
    """A batch has been told to whoever watches; what follows it may have come to anything."""
    return lambda run: len(run.progress()) > after


def computing(disk: Disk, after: int) -> Moment:
    """A batch has begun and writes nothing yet."""
    before = disk.committed()

    def moment(run: Run) -> bool:
        batch = disk.begun()
        return (
            batch > before + 1 + after and disk.committed() < batch and not disk.writes() and not disk.in_place(batch)
        )

    return moment


def writing(disk: Disk, after: int) -> Moment:
    """The sink writes; also a batch that was killed before and runs again."""
    before = disk.committed()

    def moment(run: Run) -> bool:
        return disk.writes() and disk.begun() > disk.committed() >= before + after

    return moment


def in_place(disk: Disk, after: int) -> Moment:
    """A port has a batch, and Spark doesn't know yet that it is done."""
    before = disk.committed()

    def moment(run: Run) -> bool:
        batch = disk.begun()
        return batch > before + 1 + after and disk.committed() < batch and bool(disk.in_place(batch))

    return moment


def moments(seed: int) -> Iterator[tuple[Callable[[Disk, int], Moment], int]]:
    """Ten moments and how many batches pass before each, four of them while the sink writes."""
    chance = random.Random(seed)
    kinds = [writing] * 4 + [in_place] * 2 + [told] * 2 + [computing, starting]
    chance.shuffle(kinds)
    return ((kind, chance.randrange(3)) for kind in kinds)


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


@pytest.mark.faults
def test_killed_at_ten_moments_a_pipeline_loses_repeats_and_reorders_nothing(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    truth = write_feed(tmp_path / "in", SEED)
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE)
    killed: Counter[str] = Counter()
    for number, (kind, after) in enumerate(moments(SEED)):
        with running(file, tmp_path / f"run-{number}.jsonl") as run:
            run.kill_when(kind(disk, after))
            assert not run.alive()
        killed[kind.__name__] += 1
        assert kind is not writing or disk.writes()
    assert killed.total() == 10
    assert killed["writing"] >= 3
    with running(file, tmp_path / "last.jsonl") as run:
        assert run.wait() == 0, (tmp_path / "last.err").read_text()
        end = run.progress()[-1]
    assert (end["event"], end["ending"], end["holes"]) == ("end", "once", 0)
    assert not any((port / ".staging").exists() for port in disk.ports)
    check(disk, truth)
    check_conservation(disk, truth)
