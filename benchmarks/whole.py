"""A whole pipeline: JSON in, promoted, stamped, routed to 3 of 10 destinations, put in order, delivered as Parquet."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.feed import SHARE, shared
from benchmarks.measure import Claim, Timing, timed
from seriatim import Queue, Standard, Subscription
from seriatim.pipeline.declared.pipeline import Deliver, Destination, Pipeline, Receive, Source
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark import route
from seriatim.spark.deliver.stage import Folders, Sink, start
from seriatim.spark.query import decided
from seriatim.spark.receive.stage import receive
from seriatim.spark.stamp.stage import stamp_locations
from seriatim.spark.state.state_layout import StateLayout

__all__ = ["whole"]

BATCHES, MESSAGES, GROUPS, LANES = 6, shared(200_000), shared(10_000), 10
_FILES, _DISPLACED = 2, 0.02


def made_feed(root: Path) -> Path:
    """Lines of 400 bytes, a customer's in one lane; displaced by up to 2% of the feed. Made if it isn't there."""
    folder = root / ("whole" if SHARE == 1 else f"whole-{SHARE:g}")
    if (folder / "complete").exists():
        return folder / "inbox"
    (folder / "inbox").mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    total = BATCHES * MESSAGES
    customer = random.integers(0, GROUPS, total)
    by_customer = np.argsort(customer, kind="stable")
    starts = np.searchsorted(customer[by_customer], np.arange(GROUPS))
    version = np.empty(total, np.int64)
    version[by_customer] = np.arange(total) - starts[customer[by_customer]] + 1
    order = np.argsort(np.arange(total) + random.uniform(0, _DISPLACED * total, total), kind="stable")
    each = MESSAGES // _FILES
    for number in range(BATCHES * _FILES):
        rows = order[number * each : (number + 1) * each]
        notes = random.bytes(150 * each).hex()
        lines = [
            json.dumps(
                {
                    "customer": {"id": f"c{c:06d}"},
                    "version": v,
                    "lane": c % LANES,
                    "note": notes[300 * n : 300 * n + 300],
                }
            )
            for n, (c, v) in enumerate(zip(customer[rows].tolist(), version[rows].tolist(), strict=True))
        ]
        file = folder / "inbox" / f"{number:03d}.json"
        file.write_text("\n".join(lines) + "\n")
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    (folder / "complete").touch()
    return folder / "inbox"


def declared(inbox: Path, work: Path) -> Pipeline:
    """The pipeline: a message of lane 4 goes to destinations 4, 3 and 2."""
    source = Source("json", inbox, {"maxFilesPerTrigger": str(_FILES)})
    promote = (
        Promotion("customer", "$.customer.id"),
        Promotion("version", "$.version", "long"),
        Promotion("lane", "$.lane", "long"),
    )
    destinations = tuple(
        Destination(
            Queue(f"destination-{n}", Standard(hole_timeout="1h"), group="customer", sequence="version"),
            Deliver("parquet", work / "out" / str(n)),
            where=f"lane IN ({n}, {(n + 1) % LANES}, {(n + 2) % LANES})",
        )
        for n in range(LANES)
    )
    return Pipeline("whole", work / "checkpoint", (Receive("crm", source, promote),), destinations)


def unordered(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The same without tickets and order: what remains when nobody stamps and resequences."""
    subscriptions = [Subscription(one.queue.name, one.where, one.queue.name) for one in pipeline.route]
    received = stamp_locations(receive(spark, pipeline), [])  # tickets of nulls, by no operator
    received = received.drop("received_at", "_file", "_position")  # they only tell the order of arrival
    return route(received, subscriptions).withColumns(
        {
            "ordinal": F.lit(None).cast("long"),
            "late": F.lit(False),
            "disposition": F.lit("released"),
            "reason": F.lit(None).cast("string"),
        }
    )


def _delivered(spark: SparkSession, root: Path, name: str, *, ordered: bool, one_stage: bool = False) -> Timing:
    inbox, work = made_feed(root), Path(tempfile.mkdtemp(dir=root))
    pipeline = declared(inbox, work)
    folders = Folders(work / "set-aside", work / "unrouted", work / "waiting")
    sink = Sink(spark, pipeline, "benchmark", folders, lambda _: None)
    if ordered:
        layout = StateLayout(by_key=True, by_counts=one_stage)
        frame = decided(spark, pipeline, layout=layout, control=work / "control")
    else:
        frame = unordered(spark, pipeline)
    query = start(frame, sink, name="whole", checkpoint=work / "query", trigger_s=0.0)
    try:
        return timed(query, BATCHES, name)
    finally:
        query.stop()
        sink.close()
        shutil.rmtree(work, ignore_errors=True)


def whole(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """200,000 messages a batch, each to three destinations."""
    ceiling = _delivered(spark, root, "receive, route, deliver; 200,000 a batch", ordered=False)
    apart = _delivered(spark, root, "the same with stamp and resequence, in stages of their own", ordered=True)
    ours = _delivered(spark, root, "the same in one stage from text to packets", ordered=True, one_stage=True)
    what = "a whole pipeline ÷ the same without stamp and resequence"
    yield Claim(what, ours.rate / ceiling.rate, 0.35, costs=(ours.cost, ceiling.cost), amount=ours.rate)
    what = "its processor time in stages of their own ÷ in one stage"
    yield Claim(what, apart.processor_s / ours.processor_s, 1.4, costs=(apart.cost, ours.cost))
