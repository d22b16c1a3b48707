"""A pipeline on a cluster of a master and two workers; SIGKILL to an executor, and to a worker with its executor.

The delivered files are counted with pyarrow, as any reader finds them; what ran where is told by Spark's event log.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import command
from tests.faults.cluster import SPARK_HOME, Cluster, catch_writing, cluster
from tests.faults.disk import Disk, check, check_conservation
from tests.faults.feed import LOCATION, write_feed
from tests.faults.process import Run, started, until
from tests.soak import full, seed, sized

SPARK_SUBMIT = str(SPARK_HOME / "bin/spark-submit")
GROUPS, PARTITIONS = 500, 4
#: Batches enough to kill in two of them, with some before and behind.
FILES, FILES_A_BATCH = sized(32, 24), 4

FILE = """
name: orders
checkpoint: checkpoint
buckets: {buckets}
trigger: 0s
spark: {{spark.sql.shuffle.partitions: {partitions}}}
receive:
  - location: {location}
    source: {{format: json, path: in, options: {{maxFilesPerTrigger: {files}}}}}
    promote: {{key: $.group, number: {{path: $.number, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: key, sequence: number}}
    deliver: {{format: json, path: out/ordered}}
  - to: archive
    resequence: {{policy: fifo, group: key}}
    deliver: {{format: parquet, path: out/archive}}
"""


def write_pipeline(folder: Path, *, files: int, buckets: int, partitions: int) -> Path:
    """A pipeline file that takes so many files a batch and spreads its groups over so many tasks."""
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(location=LOCATION, files=files, buckets=buckets, partitions=partitions))
    return file


def options(events: Path) -> list[str]:
    """Options for a small run on a cluster that keeps an event log."""
    events.mkdir()
    conf = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    return [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]


@dataclass(frozen=True)
class Account:
    """What Spark's event log tells of a run.

    Args:
        executors: all there were.
        lost: those that went away before the end.
        tasks: how many tasks ended well on each executor.
        failed: how many tasks ended otherwise on each executor.
    """

    executors: set[str]
    lost: set[str]
    tasks: Counter[str]
    failed: Counter[str]


def account(events: Path) -> Account:
    """Read the event log of the one run that is in a folder."""
    (file,) = events.iterdir()
    told: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in file.read_text().splitlines():
        event = json.loads(line)
        told[event["Event"]].append(event)
    ended = [(task["Task Info"]["Executor ID"], task["Task End Reason"]) for task in told["SparkListenerTaskEnd"]]
    return Account(
        executors={one["Executor ID"] for one in told["SparkListenerExecutorAdded"]},
        lost={one["Executor ID"] for one in told["SparkListenerExecutorRemoved"]},
        tasks=Counter(executor for executor, how in ended if how["Reason"] == "Success"),
        failed=Counter(executor for executor, how in ended if how["Reason"] != "Success"),
    )


def kill_executor(nodes: Cluster, disk: Disk, run: Run) -> None:
    """Kill an executor of the first worker while it writes. The worker starts another one, without which the end doesn't come."""
    worker = nodes.workers[0]
    worker.kill_executor(catch_writing(worker, disk.ports, run.process))


def kill_worker(nodes: Cluster, disk: Disk, run: Run) -> None:
    """Kill the second worker together with its executor while that writes."""
    worker = nodes.workers[1]
    catch_writing(worker, disk.ports, run.process)
    worker.kill()


def spread(disk: Disk) -> dict[int, set[str]]:
    """The groups that each task delivers, by the number of its partition."""
    found: dict[int, set[str]] = defaultdict(set)
    for file in sorted((disk.root / "out/ordered").glob("batch=*/part-*")):
        lines = file.read_text().splitlines()
        found[int(file.name.removeprefix("part-")[:5])] |= {json.loads(line)["group"] for line in lines}
    return dict(found)


MAIN = """
from seriatim.cli.main import main

main()
"""


def by_option(folder: Path, url: str, conf: list[str]) -> list[str]:
    """A pipeline says itself where it runs."""
    return command("run", "pipeline.yaml", "--once", "--json", "--conf", f"spark.master={url}", *conf)


def by_spark_submit(folder: Path, url: str, conf: list[str]) -> list[str]:
    """`spark-submit` says where a pipeline runs, and starts its driver."""
    (folder / "main.py").write_text(MAIN)
    words = ["env", f"PYSPARK_PYTHON={sys.executable}", SPARK_SUBMIT, "--master", url, *conf]
    return [*words, str(folder / "main.py"), "run", "pipeline.yaml", "--once", "--json"]


@pytest.mark.proves("a pipeline on a cluster outlives an executor and a machine")
@pytest.mark.telling
@pytest.mark.soak
def test_a_killed_executor_and_a_killed_worker_lose_repeat_and_reorder_nothing(
    tmp_path: Path, figures: Callable[[str], None]
) -> None:
    ways = [by_option, by_spark_submit]
    for way in ways if full() else [random.Random(seed()).choice(ways)]:
        (tmp_path / way.__name__).mkdir()
        killed_in_a_cluster(tmp_path / way.__name__, way)
        figures(f"killed an executor, and a worker with its executor, of a pipeline that was started {way.__name__}")


def killed_in_a_cluster(tmp_path: Path, way: Callable[[Path, str, list[str]], list[str]]) -> None:
    disk = Disk(tmp_path)
    truth = write_feed(tmp_path / "in", seed(), groups=GROUPS, files=FILES)
    write_pipeline(tmp_path, files=FILES_A_BATCH, buckets=16, partitions=PARTITIONS)
    events = tmp_path / "events"
    with (
        cluster(tmp_path / "cluster", workers=2) as nodes,
        started(way(tmp_path, nodes.url, options(events)), tmp_path, tmp_path / "run.jsonl") as run,
    ):
        until(lambda: disk.committed() >= 1, run.process)
        kill_executor(nodes, disk, run)
        at_executor = disk.begun()
        until(lambda: disk.committed() >= at_executor, run.process)
        kill_worker(nodes, disk, run)
        at_worker = disk.begun()
        assert run.wait() == 0, (tmp_path / "run.err").read_text()
        told = run.progress()
        batches, end = [one for one in told if one["event"] == "batch"], told[-1]
    assert (end["event"], end["ending"], end["holes"]) == ("end", "once", 0)
    assert 1 < at_executor < at_worker < disk.committed()
    check(disk, truth)
    check_conservation(disk, truth)

    ran = account(events)
    assert len(ran.executors) >= 3
    assert len(ran.lost) >= 2
    assert all(ran.failed[executor] for executor in ran.lost), "each was lost with a task in hand"
    assert len(ran.tasks) >= 3

    assert {one["spread"]["tasks"] for one in batches} == {PARTITIONS}
    groups = spread(disk)
    assert sorted(groups) == list(range(PARTITIONS))
    assert sum(map(len, groups.values())) == len(set().union(*groups.values())) == GROUPS
    assert max(map(len, groups.values())) < 2 * min(map(len, groups.values()))
