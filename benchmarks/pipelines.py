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

__all__ = ["pipelines"]

PLAIN = Feed("plain-200k", (Part(6, 200_000, 10_000),), files=1, body=100)
_ROUNDS, _QUERIES = 3, 3
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
        for name in ("__init__.py", "feed.py", "plain_query.py"):
            shutil.copy(_HERE / name, package)
        found = [[_measured(tree, folder, feed) for tree in trees] for _ in range(_ROUNDS)]
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


def _measured(tree: Path, folder: str, feed: Path) -> list[float]:
    path = os.pathsep.join([str(tree / "src"), folder])
    command = [sys.executable, "-m", "benchmarks.plain_query", str(feed), str(_QUERIES)]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    seconds: list[float] = json.loads(done.stdout)
    return seconds
