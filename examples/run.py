"""Runs one of the small examples and compares what came out with what has to.

    python -m examples.run orders [--folder FOLDER]

The example is copied into the folder (default ``build/examples/NAME``, made afresh), its pipeline is run there until
nothing waits any more, and every message is looked up where it ended.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from seriatim.pipeline.declared.pipeline import Deliver
from seriatim.pipeline.files.pipeline_file import load

HERE = Path(__file__).parent
NAMES = sorted(folder.parent.name for folder in HERE.glob("*/expected.json"))


def laid_out(name: str, folder: Path) -> None:
    """Copy an example, its files written one after another: a stream takes them in that order."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for second, file in enumerate(sorted(folder.glob("inbox/**/*.*"))):
        os.utime(file, (1_772_000_000 + second, 1_772_000_000 + second))


def outcome(folder: Path) -> dict[str, Any]:
    """Where every message ended: per destination and group the ids in order; who was set aside, and why."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        pipeline = load("pipeline.yaml")
        checkpoint = pipeline.checkpoint
        released = {one.queue.name: _groups(_rows(one.deliver)) for one in pipeline.route}
        aside = list(_rows(Deliver("json", pipeline.set_aside or checkpoint / "set-aside")))
        unrouted = list(_rows(Deliver("json", pipeline.unrouted or checkpoint / "unrouted")))
    finally:
        os.chdir(before)
    reasons = [[row["message_id"], row["destination"], row["disposition"]] for row in aside]
    return {
        "released": released,
        "set aside": sorted(reasons, key=json.dumps),
        "unrouted": sorted(row["message_id"] for row in unrouted),
    }


def _groups(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        groups[row["group"] or ""].append(row["message_id"])
    # What has no group is in no order.
    return {group: groups[group] if group else sorted(groups[group]) for group in sorted(groups)}


def _rows(port: Deliver) -> Iterable[Mapping[str, Any]]:
    for file in sorted(Path(str(port.path)).glob("batch=*/part-*")):
        if port.format == "parquet":
            yield from pq.read_table(file, partitioning=None).to_pylist()
        elif port.format == "csv":
            with file.open(newline="", encoding="utf-8") as text:
                yield from csv.DictReader(text)
        else:
            yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", choices=NAMES)
    options.add_argument("--folder", type=Path)
    given = options.parse_args()
    folder = (given.folder or HERE.parent / "build" / "examples" / given.name).absolute()
    laid_out(given.name, folder)
    subprocess.run([sys.executable, "-m", "seriatim", "run", "pipeline.yaml", "--finish"], cwd=folder, check=True)
    found, wanted = outcome(folder), json.loads((folder / "expected.json").read_text())
    for destination, groups in found["released"].items():
        for group, messages in groups.items():
            print(f"  {destination} {group}: {' '.join(messages)}")
    print(f"The output is in {folder}")
    if found != wanted:
        print(f"It is not what expected.json says, but:\n{json.dumps(found, indent=1)}")
        sys.exit(1)
    print("It is what expected.json says.")


if __name__ == "__main__":
    main()
