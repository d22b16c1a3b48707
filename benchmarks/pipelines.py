"""Pipelines beside an earlier state of seriatim, in processor time.

The environment variable ``SERIATIM_BASE`` names a checkout of that state, such as
``git worktree add ../base COMMIT``. Without it the seconds are told, and no ratio. Both run with the packages of this
environment; they take turns, because a machine is not equally fast at all times.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.feed import Feed, Part, make_feed
from benchmarks.measure import Claim
from seriatim.errors import UsageError
from seriatim.pipeline.text.counted import counted

__all__ = ["pipelines"]

PLAIN = Feed("plain-200k", (Part(6, 200_000, 10_000),), files=1, body=100)
#: Messages of pipelines: a fifth of each batch waits for the next one.
ROUTED = Feed("routed-100k", (Part(4, 100_000, 10_000, displaced=0.2),), files=1, body=400)
_ROUNDS, _QUERIES = 3, 3
#: How many destinations take every message.
_DESTINATIONS = (1, 3)
_HERE = Path(__file__).parent


def pipelines(root: Path, peers: bool) -> Iterator[Claim]:
    """`resequence` with no option that an earlier state lacks: its first query in a session, and later ones."""
    feed, base = make_feed(PLAIN, root), os.environ.get("SERIATIM_BASE")
    if base and not Path(base, "src", "seriatim").is_dir():
        raise UsageError("SERIATIM_BASE names no checkout of seriatim", where=base)
    trees = [_HERE.parent, *([Path(base).absolute()] if base else [])]
    with tempfile.TemporaryDirectory() as folder:
        # The script runs with another seriatim, and without the other benchmarks, which may need what that lacks.
        package = Path(folder, "benchmarks")
        package.mkdir()
        for name in ("__init__.py", "feed.py", "plain_query.py", "pipeline_query.py"):
            shutil.copy(_HERE / name, package)
        found = [[_measured(tree, folder, feed) for tree in trees] for _ in range(_ROUNDS)]
        for destinations in _DESTINATIONS:
            yield from _routed(trees, folder, make_feed(ROUTED, root), destinations)
    typical = [
        [statistics.median(one[place][query] for one in found) for query in range(_QUERIES)]
        for place in range(len(trees))
    ]
    for tree, seconds in zip(trees, typical, strict=True):
        told = ", ".join(f"{second:.2f}" for second in seconds)
        click.echo(f"plain resequence, {tree}: {told} s of processor time for 6 batches of 200,000", err=True)
    if base:
        ours, former = typical
        yield Claim("plain resequence, processor time before ÷ now, first query", former[0] / ours[0], 0.97)
        yield Claim("plain resequence, processor time before ÷ now", sum(former[1:]) / sum(ours[1:]), 0.97)


def _routed(trees: list[Path], folder: str, feed: Path, destinations: int) -> Iterator[Claim]:
    """Runs of a pipeline whose destinations all take every message."""
    found = [[_runs(tree, folder, feed, destinations) for tree in trees] for _ in range(_ROUNDS)]
    typical = [
        [statistics.median(run[what] for one in found for run in one[place][1:]) for what in range(2)]
        for place in range(len(trees))
    ]
    what = counted(destinations, "destination")
    for tree, (seconds, size) in zip(trees, typical, strict=True):
        click.echo(
            f"a pipeline of {what}, {tree}: {seconds:.2f} s of processor time, {size:,.0f} bytes of state", err=True
        )
    if len(trees) > 1:
        (ours, our_size), (former, former_size) = typical
        yield Claim(f"a pipeline of {what}, processor time before ÷ now", former / ours, 0.97)
        yield Claim(f"a pipeline of {what}, size of its state before ÷ now", former_size / our_size, 0.97)


def _runs(tree: Path, folder: str, feed: Path, destinations: int) -> list[list[float]]:
    found: list[list[float]] = json.loads(_said(tree, folder, "pipeline_query", feed, destinations))
    return found


def _measured(tree: Path, folder: str, feed: Path) -> list[float]:
    seconds: list[float] = json.loads(_said(tree, folder, "plain_query", feed))
    return seconds


def _said(tree: Path, folder: str, script: str, feed: Path, *more: int) -> bytes:
    path = os.pathsep.join([str(tree / "src"), folder])
    command = [sys.executable, "-m", f"benchmarks.{script}", str(feed), str(_QUERIES), *map(str, more)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    return done.stdout
