"""SIGKILL in each stage of a pipeline that goes from text to packets in one stage: tickets stay gap-free, and nothing is lost, repeated or reordered."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.disk import Disk, check, check_conservation, delivered
from tests.faults.feed import write_feed
from tests.faults.process import Run, running
from tests.faults.test_kill import FILE
from tests.soak import full, seed, sized

Moment = Callable[[Run], bool]


def shuffled(disk: Disk) -> bool:
    """Whether a task of the running batch has handed its packets over."""
    batch = disk.root / "checkpoint/query/offsets" / str(disk.begun())
    try:
        begun = batch.stat().st_mtime
        return any(file.stat().st_mtime >= begun for file in disk.root.glob("local/*/*/shuffle_*.index"))
    except FileNotFoundError:
        return False


def counted(disk: Disk) -> bool:
    """Whether a partition of the operator has written the state of the running batch, its counters with it."""
    return any(disk.root.glob(f"checkpoint/query/state/0/*/{disk.begun() + 1}.changelog"))


def is_open(disk: Disk) -> bool:
    """Whether a batch runs that isn't the first, and no port has it."""
    batch = disk.begun()
    return batch > max(disk.committed(), 0) and not disk.in_place(batch)


def reading(disk: Disk) -> Moment:
    """Tasks read text, and none has handed packets over."""
    return lambda _: is_open(disk) and not shuffled(disk) and not counted(disk)


def ordering(disk: Disk) -> Moment:
    """Packets were handed over, and no state is written."""
    return lambda _: is_open(disk) and shuffled(disk) and not counted(disk)


def stating(disk: Disk) -> Moment:
    """A partition has written its counters, and no port has the batch."""
    return lambda _: is_open(disk) and counted(disk)


@pytest.mark.proves(
    "a pipeline that reads, stamps and routes in one stage, killed in each stage, gives each ticket once"
)
@pytest.mark.soak
def test_killed_in_each_stage_a_pipeline_gives_each_ticket_once(tmp_path: Path, figures: Callable[[str], None]) -> None:
    disk = Disk(tmp_path)
    truth = write_feed(tmp_path / "in", seed(), files=sized(32, 10))
    file = tmp_path / "pipeline.yaml"
    (tmp_path / "local").mkdir()
    file.write_text(FILE.replace("spark: {", f'spark: {{spark.local.dir: "{tmp_path}/local", '))
    killed: Counter[str] = Counter()
    for number, kind in enumerate([reading, ordering, stating] * (3 if full() else 1)):
        with running(file, tmp_path / f"run-{number}.jsonl") as run:
            run.kill_when(kind(disk))
            assert not run.alive()
        killed[kind.__name__] += 1
    with running(file, tmp_path / "last.jsonl") as run:
        assert run.wait() == 0, (tmp_path / "last.err").read_text()
    assert json.loads((tmp_path / "checkpoint" / "pipeline.json").read_text())["stamped"]["by_counts"]
    check(disk, truth)
    check_conservation(disk, truth)
    # The archive has all messages, each with its ticket; their ids are in order of arrival in each file, and files in order of their names.
    tickets = {row["message_id"]: row["ticket"] for row in delivered(disk.ports[1], "parquet")}
    in_order = sorted(tickets, key=lambda one: (one.rpartition(":")[0], int(one.rpartition(":")[2])))
    assert [tickets[one]["number"] for one in in_order] == list(range(1, len(tickets) + 1))
    figures(f"killed {', '.join(f'{count} x {name}' for name, count in killed.items())}")
