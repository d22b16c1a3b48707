"""A call of the operator that runs again comes to the same state, whatever order a shuffle brings its packets in."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.tws_tester import TwsTester

from seriatim import Queue, Standard
from seriatim.spark.resequence.bucket import KEY, PROBLEM, SEQUENCE, Plan
from seriatim.spark.resequence.operator import KIND, NOW, Resequencer
from seriatim.spark.state.packets import to_bytes

PLAN = Plan(
    queues=(Queue("q", Standard(), group="key", sequence="number"),),
    destination=None,
    invalid=None,
    user=("key", "number", "arrival"),
    clock="processing",
    arrivals=(("arrival",),),
    output="all",
    reports=False,
    fingerprint="of this test",
    buckets=1,
)
SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int64()), ("arrival", pa.int64())])
BUCKET = 0


def packet(rows: list[tuple[str, int, int]]) -> bytes:
    """Messages (group, number, arrival) as the operator gets them."""
    keys, numbers, arrivals = (list(column) for column in zip(*rows, strict=True))
    columns = {
        "key": pa.array(keys, pa.string()),
        "number": pa.array(numbers, pa.int64()),
        KEY: pa.array([key.encode() for key in keys], pa.binary()),
        SEQUENCE: pa.array(numbers, pa.int64()),
        PROBLEM: pa.array([0] * len(rows), pa.int32()),
        "arrival": pa.array(arrivals, pa.int64()),
    }
    return to_bytes(pa.table(columns)).to_pybytes()


def state_after(packets: tuple[bytes, ...]) -> tuple[Any, Any]:
    tester = TwsTester(Resequencer(PLAN, SCHEMA.serialize().to_pybytes()), timeMode="None")
    rows = {"bucket": BUCKET, "packet": list(packets), KIND: None, NOW: 1_700_000_000_000_000}
    tester.testInPandas(BUCKET, pd.DataFrame(rows))
    return tester.peekValueState("index", BUCKET), tester.peekMapState("bodies", BUCKET)


def test_the_order_of_packets_leaves_no_trace() -> None:
    packets = (
        packet([("b", 2, 10), ("a", 3, 11)]),
        packet([("c", 7, 12), ("b", 5, 13)]),
        packet([("a", 2, 14)]),
    )
    found = [state_after(order) for order in permutations(packets)]
    index, bodies = found[0]
    assert index is not None
    assert bodies, "all of it waits behind a hole"
    assert all(other == found[0] for other in found)
