"""Large and small batches beside an earlier state of seriatim, and order in two kinds of sessions beside the same query without order.

``SERIATIM_BASE`` names a checkout of the earlier state, as in `benchmarks.pipelines`; without it there are no ratios of before and now.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.feed import SHARE, Feed, Part, make_feed
from benchmarks.measure import Claim
from benchmarks.pipelines import both, commit_of, said
from benchmarks.whole import LANES, made_feed

__all__ = ["memory", "sessions", "volume"]

_BATCHES, _SMALL = 24, 1_000
THOUSANDS = Feed("thousands", (Part(_BATCHES, _SMALL, 1_000, displaced=0.05),), files=1)
STEADY = Feed("steady-200k", (Part(3, 200_000, 10_000),), files=2)
MILLIONS = Feed("millions", (Part(1, 1_000_000, 100_000),), files=2)
#: Queries of one process; what a session does once is paid for by the first of each kind.
_IN_TURN = ["identity", "resequence"] * 2
_QUERIES = 2


def volume(root: Path, peers: bool) -> Iterator[Claim]:
    """A whole pipeline, and batches of 1,000 messages."""
    with both() as (trees, folder):
        yield from _whole(trees, folder, made_feed(root))
        yield from _small(trees, folder, make_feed(THOUSANDS, root))


def sessions(root: Path, peers: bool) -> Iterator[Claim]:
    """`resequence` in a session of seriatim, and in one of the user's own."""
    with both() as (trees, folder):
        for own in (False, True):
            yield from _beside_identity(trees, folder, make_feed(STEADY, root), own=own)


def memory(root: Path, peers: bool) -> Iterator[Claim]:
    """The most memory with a batch of 1,000,000 messages."""
    with both() as (trees, folder):
        feed = make_feed(MILLIONS, root)
        ours, *former = [
            said(tree, folder, "plain_query", feed, "resequence", "--files", MILLIONS.files) for tree in trees
        ]
    for kind, name in (("jvm_mb", "Spark's process"), ("worker_mb", "the largest Python worker")):
        for tree, before in zip(trees[1:], former, strict=True):
            what = f"a batch of 1,000,000, the most memory of {name}, now ÷ at {commit_of(tree)}"
            most = ours[0][kind]
            yield Claim(what, most / before[0][kind], 1.1, False, amount=most, unit="MB")


def _whole(trees: list[Path], folder: str, feed: Path) -> Iterator[Claim]:
    found = [said(tree, folder, "pipeline_query", feed, _QUERIES, LANES, "--whole")[1:] for tree in trees]
    ours, *former = [statistics.median(seconds for seconds, _ in runs) for runs in found]
    for tree, before in zip(trees[1:], former, strict=True):
        what = f"a whole pipeline of a new checkpoint, processor time at {commit_of(tree)} ÷ now"
        yield Claim(what, before / ours, 1.4)


def _small(trees: list[Path], folder: str, feed: Path) -> Iterator[Claim]:
    found = [said(tree, folder, "plain_query", feed, *["resequence"] * _QUERIES)[1:] for tree in trees]
    ours, *former = [statistics.median(run["python"] for run in runs) for runs in found]
    for tree, before in zip(trees[1:], former, strict=True):
        what = f"a batch of 1,000, Python's processor time now ÷ at {commit_of(tree)}"
        amount = ours / _BATCHES * 1000
        yield Claim(what, ours / before, 0.6, False, amount=amount, unit="ms a batch")


def _beside_identity(trees: list[Path], folder: str, feed: Path, *, own: bool) -> Iterator[Claim]:
    options = ["--own"] if own else []
    found = [said(tree, folder, "plain_query", feed, *_IN_TURN, "--files", STEADY.files, *options) for tree in trees]
    identity, ours = found[0][-2:]
    rate = STEADY.batches * STEADY.parts[0].size * SHARE / ours["wall"]
    what = f"`resequence` ÷ identity mapInArrow, {'a session of the user' if own else 'a session of seriatim'}"
    yield Claim(what, identity["wall"] / ours["wall"], amount=rate)
    now, *before = [identity["total"] / ours["total"] for *_, identity, ours in found]
    yield Claim("the same, by processor time", now)
    for tree, former in zip(trees[1:], before, strict=True):
        yield Claim(f"that ratio now ÷ at {commit_of(tree)}", now / former, 0.95)
