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
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from benchmarks.feed import SHARE, Feed, Part, make_feed
from benchmarks.measure import Claim
from seriatim.errors import UsageError
from seriatim.pipeline.text.counted import counted

__all__ = ["both", "commit_of", "pipelines", "said"]

PLAIN = Feed("plain-200k", (Part(6, 200_000, 10_000),), files=1, body=100)
#: Messages of pipelines: a fifth of each batch waits for the next one.
ROUTED = Feed("routed-100k", (Part(4, 100_000, 10_000, displaced=0.2),), files=1, body=400)
#: The same with a hundredth that never comes: each of these numbers is a hole that is overdue, and then skipped.
LOST = Feed("lost-100k", (Part(4, 100_000, 10_000, displaced=0.2, lost=0.01),), files=1, body=400)
_ROUNDS, _QUERIES = (3, 3) if SHARE == 1 else (1, 2)
#: What one process measures of `resequence`, a query each.
_PLAIN_QUERIES = ["resequence"] * _QUERIES
#: How many destinations take every message.
_DESTINATIONS = (1, 3)
_HERE = Path(__file__).parent
#: What a copy of seriatim that keeps no events has at the end of `bucket_events.py`.
_NO_EVENTS = """

def told_events(*_: object) -> list[dict[str, Any]]:
    return []
"""


def pipelines(root: Path, peers: bool) -> Iterator[Claim]:
    """`resequence` with no option that an earlier state lacks, pipelines of one and of three destinations, and the cost of events."""
    with both() as (trees, folder):
        yield from _plain(trees, folder, make_feed(PLAIN, root))
        for destinations in _DESTINATIONS:
            yield from _routed(trees, folder, make_feed(ROUTED, root), destinations)
        yield from _events(folder, make_feed(LOST, root))


@contextmanager
def both() -> Iterator[tuple[list[Path], str]]:
    """This checkout, and that of ``SERIATIM_BASE`` if it is set; and a folder with the scripts that `said` runs. A script runs with another
    seriatim, and without the other benchmarks, which may need what that lacks.
    """
    base = os.environ.get("SERIATIM_BASE")
    if base and not Path(base, "src", "seriatim").is_dir():
        raise UsageError("SERIATIM_BASE names no checkout of seriatim", where=base)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "benchmarks")
        package.mkdir()
        for name in ("__init__", "feed", "measure", "plain_query", "pipeline_query", "used"):
            shutil.copy(_HERE / f"{name}.py", package)
        yield [_HERE.parent, *([Path(base).absolute()] if base else [])], folder


def commit_of(tree: Path) -> str:
    """The commit of a checkout; the folder's name if it is none."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=tree, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or tree.name


def said(tree: Path, folder: str, script: str, *arguments: object) -> Any:
    """What a script prints that runs with the seriatim of a tree."""
    path = os.pathsep.join([str(tree / "src"), folder])
    command = [sys.executable, "-m", f"benchmarks.{script}", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    click.echo(f"{script} {' '.join(map(str, arguments))}, {tree}: {done.stdout.decode()}", err=True)
    return json.loads(done.stdout)


def _plain(trees: list[Path], folder: str, feed: Path) -> Iterator[Claim]:
    """A query of `resequence` alone: the first in a session, and later ones."""
    found: list[list[list[float]]] = [
        [[one["total"] for one in said(tree, folder, "plain_query", feed, *_PLAIN_QUERIES)] for tree in trees]
        for _ in range(_ROUNDS)
    ]
    typical = [
        [statistics.median(one[place][query] for one in found) for query in range(_QUERIES)]
        for place in range(len(trees))
    ]
    for tree, seconds in zip(trees, typical, strict=True):
        told = ", ".join(f"{second:.2f}" for second in seconds)
        click.echo(f"plain resequence, {tree}: {told} s of processor time", err=True)
    if len(trees) > 1:
        ours, former = typical
        yield Claim("plain resequence, processor time before ÷ now, first query", former[0] / ours[0], 0.97)
        yield Claim("plain resequence, processor time before ÷ now", sum(former[1:]) / sum(ours[1:]), 0.97)


def _routed(trees: list[Path], folder: str, feed: Path, destinations: int) -> Iterator[Claim]:
    """Runs of a pipeline whose destinations all take every message."""
    what = f"a pipeline of {counted(destinations, 'destination')}"
    typical = _typical(trees, folder, what, feed, destinations)
    if len(trees) > 1:
        (ours, our_size), (former, former_size) = typical
        yield Claim(f"{what}, processor time before ÷ now", former / ours, 0.97)
        yield Claim(f"{what}, size of its state before ÷ now", former_size / our_size, 0.97)


def _events(folder: str, feed: Path) -> Iterator[Claim]:
    """Events of groups, beside a copy of seriatim that keeps none."""
    copy = Path(folder, "without-events")
    shutil.copytree(_HERE.parent / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__"))
    with (copy / "src" / "seriatim" / "spark" / "resequence" / "bucket_events.py").open("a") as events:
        events.write(_NO_EVENTS)
    (ours, _), (without, _) = _typical([_HERE.parent, copy], folder, "numbers that are lost", feed, 1, "--finish")
    yield Claim(
        "a fifth displaced and a hundredth lost, processor time with events ÷ without", ours / without, 1.08, False
    )


def _typical(trees: list[Path], folder: str, what: str, feed: Path, *more: int | str) -> list[list[float]]:
    """By tree the median of seconds, and of the size of the state, over all queries but the first of each process."""
    found: list[list[list[list[float]]]] = [
        [said(tree, folder, "pipeline_query", feed, _QUERIES, *more) for tree in trees] for _ in range(_ROUNDS)
    ]
    typical = [
        [statistics.median(run[value] for one in found for run in one[place][1:]) for value in range(2)]
        for place in range(len(trees))
    ]
    for tree, (seconds, size) in zip(trees, typical, strict=True):
        click.echo(f"{what}, {tree}: {seconds:.2f} s of processor time, {size:,.0f} bytes of state", err=True)
    return typical
