"""Numbers as producers have them beside plain ones: spans, numbers that turn over, and epochs, in memory, on Spark and in a message box.

Each message has all of these numbers, so all kinds put the same messages in the same order, but for what comes of an epoch that is over. A kind differs from
another by its `Sequence` alone. Compared is processor time, in turn: a machine with other work is slower for all.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.box_spark import server_process
from benchmarks.feed import SCHEMA, Feed, Part, make_feed, shared
from benchmarks.measure import Claim, measure
from benchmarks.race import fresh_database
from benchmarks.used import used
from seriatim import Message, MessageBox, MessageType, Queue, Sequence, Sequencer, Standard
from seriatim.box.server.embedded import serving
from seriatim.spark import resequence

_LEAST = 0.8
#: So many as the sequence numbers of Sparkplug: each group turns over, or begins anew.
_MODULUS = _LIFE = 256
_KINDS: Mapping[str, Sequence] = {
    "plain": Sequence("version"),
    "spans": Sequence("first", through="last"),
    "modulus": Sequence("turned", modulus=_MODULUS),
    "epochs": Sequence("in_life", epoch="life"),
}
_FEED = Feed("numbers", (Part(4, 1_000_000, 10_000),))
_ROUNDS, _ROUNDS_ON_SPARK = 5, 3
_GROUPS, _EACH, _CALL, _RUN = shared(50), 500, 500, 50


def numbers(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """All three, about a quarter of an hour."""
    many = _GROUPS * _EACH
    yield from _claims("in memory", many, _in_turn(_ROUNDS, _in_memory))
    with ExitStack() as open_here:
        server = open_here.enter_context(serving(root / "postgres"))
        dsn = open_here.enter_context(fresh_database(server.dsn))
        box = open_here.enter_context(MessageBox.open(dsn))
        properties = dict.fromkeys(("version", "first", "last", "turned", "life", "in_life"), "long")
        queues = [Queue(kind, Standard(), "customer", says) for kind, says in _KINDS.items()]
        box.define(MessageType("order", {"customer": "string", **properties}), *queues)
        for waiting, how in ((_RUN, "50 waiting in order"), (_EACH, "500 waiting, one in ten too early")):
            seconds = _in_turn(_ROUNDS, partial(_in_box, box, server_process(dsn), waiting))
            yield from _claims(f"in a message box, {how}", many, seconds)
    batch = sorted(map(str, make_feed(_FEED, root).glob("*.parquet")))[: _FEED.files]
    frame = spark.read.schema(SCHEMA).parquet(*batch)
    many = frame.count()
    yield from _claims("a frame of 1,000,000 on Spark", many, _in_turn(_ROUNDS_ON_SPARK, partial(_of_frame, frame)))
    measure(spark, root, _FEED, partial(_ordered, "plain"), "warm-up")
    streams = {
        kind: measure(spark, root, _FEED, partial(_ordered, kind), f"a stream, {kind}").processor_s for kind in _KINDS
    }
    yield from _claims("a stream on Spark, 1,000,000 a batch", 100_000, streams)


def _claims(where: str, many: int, seconds: Mapping[str, float]) -> Iterator[Claim]:
    for kind in [*_KINDS][1:]:
        what, rate = f"{where}: {kind} ÷ plain numbers", many / seconds[kind]
        yield Claim(what, seconds["plain"] / seconds[kind], _LEAST, amount=rate, unit="messages/s of processor time")


def _in_turn(rounds: int, work: Callable[[str, int], float]) -> dict[str, float]:
    """The median of the seconds of each kind; the first round isn't counted."""
    found = [{kind: work(kind, turn) for kind in _KINDS} for turn in range(rounds + 1)][1:]
    return {kind: statistics.median(one[kind] for one in found) for kind in _KINDS}


def _versions(turn: int, *, orderly: bool) -> list[int]:
    """The numbers of a group in a round; if not orderly, one in ten comes before the one that it follows."""
    chance, versions = random.Random(turn), [*range(turn * _EACH + 1, (turn + 1) * _EACH + 1)]
    for at in range(1, 0 if orderly else _EACH):
        if versions[at] % _LIFE != 1 and chance.random() < 0.1:  # both of one epoch
            versions[at - 1 : at + 1] = versions[at], versions[at - 1]
    return versions


def _numbers_of(version: int) -> dict[str, int]:
    return {
        "version": version,
        "first": 3 * version - 2,
        "last": 3 * version,
        "turned": version % _MODULUS,
        "life": (version - 1) // _LIFE,
        "in_life": (version - 1) % _LIFE + 1,
    }


def _in_memory(kind: str, turn: int) -> float:
    """Order messages of which one in ten comes too early."""
    numbers_of = [*map(_numbers_of, _versions(0, orderly=False))]
    items = [(f"c{group}", None, one) for one in numbers_of for group in range(_GROUPS)]
    sequencer = Sequencer(Standard(), compare="version", sequence=_KINDS[kind])
    before, released = time.process_time(), 0
    for start in range(0, len(items), _CALL):
        released += len(sequencer.offer(items[start : start + _CALL], now=0.0).released)
    seconds = time.process_time() - before
    _check(released)
    return seconds


def _in_box(box: MessageBox, server: int, waiting: int, kind: str, turn: int) -> float:
    """The processor seconds of a queue: `waiting` messages of each group are published, received in runs and completed, again and again."""
    orderly = waiting == _RUN
    versions = _versions(turn + (0 if orderly else _ROUNDS + 1), orderly=orderly)  # behind what was measured before
    before, received = used(server), 0
    for at in range(0, _EACH, waiting):
        for group in range(_GROUPS):
            box.publish(
                Message(
                    type="order", body=b"x" * 100, context={"to": kind, "customer": f"c{group}", **_numbers_of(version)}
                )
                for version in versions[at : at + waiting]
            )
        with box.sessions() as sessions:
            delivery = sessions.session.receive(kind, limit=_RUN)
            while delivery is not None:  # the next call completes it
                received += len(delivery)
                delivery = sessions.next(limit=_RUN)
    _check(received)
    return (used(server) - before).steady


def _check(released: int) -> None:
    if released != _GROUPS * _EACH:
        raise RuntimeError(f"{released:,} messages have left, of {_GROUPS * _EACH:,}")


def _ordered(kind: str, source: DataFrame) -> DataFrame:
    """The messages of a feed with all their numbers, in order; they arrive up to two places from theirs."""
    frame = source.selectExpr(
        "*", "3 * version - 2 AS first", "3 * version AS last", f"version % {_MODULUS} AS turned",
        f"(version - 1) div {_LIFE} AS life", f"(version - 1) % {_LIFE} + 1 AS in_life",
        "version + pmod(xxhash64(customer, version), 3) AS came",
    )  # fmt: skip
    said: dict[str, Any] = {"group": "customer", "sequence": _KINDS[kind], "policy": Standard(), "arrival": "came"}
    return resequence(frame, **said)


def _of_frame(frame: DataFrame, kind: str, turn: int) -> float:
    before = used()
    _ordered(kind, frame).write.format("noop").mode("overwrite").save()
    return (used() - before).steady
