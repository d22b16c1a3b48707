"""SIGKILL to a pipeline's whole process group, again and again: nothing is lost, repeated or reordered.

The delivered files are counted with pyarrow, as any reader finds them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.disk import Disk, check, check_conservation
from tests.faults.feed import LOCATION, write_feed
from tests.faults.process import Run, running
from tests.soak import full, seed, sized

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


def moments() -> Iterator[tuple[Callable[[Disk, int], Moment], int]]:
    """Moments and how many batches pass before each at least: of each kind one, or ten in all, four of them while the sink writes."""
    chance = random.Random(seed())
    kinds = [writing, in_place, told, computing, starting] + ([writing] * 3 + [in_place, told]) * full()
    chance.shuffle(kinds)
    return ((kind, chance.randrange(sized(3, 2))) for kind in kinds)


@pytest.mark.proves(
    "a pipeline of files, killed starting, computing, writing, in place and told, delivers once and in order"
)
@pytest.mark.soak
def test_killed_at_each_moment_a_pipeline_loses_repeats_and_reorders_nothing(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    disk = Disk(tmp_path)
    # A file is a batch. A kill has waited for so few batches that some are left for the last run.
    truth = write_feed(tmp_path / "in", seed(), files=sized(32, 13))
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE)
    killed: Counter[str] = Counter()
    for number, (kind, after) in enumerate(moments()):
        with running(file, tmp_path / f"run-{number}.jsonl") as run:
            run.kill_when(kind(disk, after))
            assert not run.alive()
        killed[kind.__name__] += 1
        assert kind is not writing or disk.writes()
    assert {one.__name__ for one in (writing, in_place, told, computing, starting)} == set(killed)
    assert killed.total() == (10 if full() else 5)
    with running(file, tmp_path / "last.jsonl") as run:
        assert run.wait() == 0, (tmp_path / "last.err").read_text()
        end = run.progress()[-1]
    assert (end["event"], end["ending"], end["holes"]) == ("end", "once", 0)
    assert not any(list(port.glob(".staging*")) for port in disk.ports)
    check(disk, truth)
    check_conservation(disk, truth)
    figures(f"killed {', '.join(f'{count} x {name}' for name, count in killed.items())}")
