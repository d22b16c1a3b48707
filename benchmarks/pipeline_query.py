"""One process that measures runs of a pipeline, in processor time: ``python -m benchmarks.pipeline_query FEED QUERIES DESTINATIONS``.

All destinations take every message, by the same groups, and deliver Parquet. With ``--finish`` time runs out at the end, and the holes that are
left are skipped. With ``--whole`` FEED has the lines of JSON of `benchmarks.whole`, and a message goes to three of the destinations. Like `plain_query`, it uses only what an earlier state of seriatim has, too.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import click

from benchmarks.used import used
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.spark.session.builder import open_session

_FILE = """
name: measured
checkpoint: {folder}/checkpoint
{buckets}
trigger: 0s
receive:
  - location: feed
    source: {{format: {kind}, path: {feed}, options: {{maxFilesPerTrigger: {files}, pathGlobFilter: "{names}"}}}}
    promote: {{customer: {customer}, version: {{path: {version}, type: long}}{more}}}
route:
"""
_TO = """
  - to: d{n}
    resequence: {{policy: standard, group: customer, sequence: version{timed}}}
    deliver: {{format: parquet, path: {folder}/out/d{n}}}
"""
_PARQUET = {
    "kind": "parquet",
    "files": 1,
    "names": "*.parquet",
    "buckets": "buckets: 4",
    "customer": "customer",
    "version": "version",
    "more": "",
}
#: Two batches of the feed are enough.
_JSON = {
    "kind": "json",
    "files": 1,
    "names": "00[01].json",
    "buckets": "",
    "customer": "$.customer.id",
    "version": "$.version",
    "more": ", lane: {path: $.lane, type: long}",
}


def once(feed: Path, destinations: int, *, finish: bool, whole: bool) -> tuple[float, int]:
    """Seconds of processor time of one run, and the size of the checkpoint's state behind it."""
    folder = Path(tempfile.mkdtemp(dir=feed.parent))
    file = folder / "pipeline.yaml"
    timed = ", hole_timeout: 1h, on_hole: skip" if finish else ""
    routes = [_TO.format(n=n, folder=folder, timed=timed) for n in range(destinations)]
    if whole:
        for n in range(destinations):
            routes[n] += f"    where: lane IN ({n}, {(n + 1) % destinations}, {(n + 2) % destinations})\n"
    text = _FILE.format(folder=folder, feed=feed, **(_JSON if whole else _PARQUET))
    file.write_text(text + "".join(routes), encoding="utf-8")
    before = used()
    run(load(file), once=True, finish=finish)
    seconds = (used() - before).steady
    size = sum(one.stat().st_size for one in (folder / "checkpoint" / "query" / "state").rglob("*") if one.is_file())
    shutil.rmtree(folder, ignore_errors=True)
    return seconds, size


@click.command
@click.argument("feed", type=click.Path(path_type=Path))
@click.argument("queries", type=int)
@click.argument("destinations", type=int)
@click.option("--finish", is_flag=True)
@click.option("--whole", is_flag=True)
def main(feed: Path, queries: int, destinations: int, *, finish: bool, whole: bool) -> None:
    """Measure so many QUERIES over the files of FEED, and print their seconds and sizes as JSON."""
    spark = open_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"})
    try:
        json.dump([once(feed, destinations, finish=finish, whole=whole) for _ in range(queries)], sys.stdout)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
