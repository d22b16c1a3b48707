"""One bucket of the operator, outside of Spark: its calls as Spark makes them, and the state that they leave."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.tws_tester import TwsTester

from seriatim import Queue, Standard
from seriatim.spark.control.commands import Command
from seriatim.spark.control.log import COMMAND
from seriatim.spark.resequence.bucket import KEY, PROBLEM, SEQUENCE, SIZE, Plan
from seriatim.spark.resequence.operator import CONTENT, KIND, NOW, Resequencer
from seriatim.spark.state.packets import to_bytes

__all__ = ["OneBucket", "packet"]

_SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int64()), ("arrival", pa.int64())])
_BUCKET = 0


def packet(rows: Sequence[tuple[str, int, int]], size: int | None = None) -> bytes:
    """Messages (group, number, arrival) as the operator gets them; `size`: of their sets."""
    keys, numbers, arrivals = ([row[place] for row in rows] for place in range(3))
    columns = {
        "key": pa.array(keys, pa.string()),
        "number": pa.array(numbers, pa.int64()),
        KEY: pa.array([key.encode() for key in keys], pa.binary()),
        SEQUENCE: pa.array(numbers, pa.int64()),
        PROBLEM: pa.array([0] * len(rows), pa.int32()),
        SIZE: pa.array([size] * len(rows), pa.int64()),
        "arrival": pa.array(arrivals, pa.int64()),
    }
    return to_bytes(pa.table(columns)).to_pybytes()


class OneBucket:
    """The bucket, of one queue named q; it keeps its state from one call to the next.

    Args:
        queue: the queue, by `key` and `number`.
        reports: whether it tells of its state.
        claims: whether another run shares its destination by a journal.
    """

    def __init__(self, queue: Queue | None = None, *, reports: bool = True, claims: bool = False) -> None:
        plan = Plan(
            queues=(queue or Queue("q", Standard(), group="key", sequence="number"),),
            destination=None,
            invalid=None,
            user=("key", "number", "arrival"),
            clock="processing",
            arrivals=(("arrival",),),
            output="all",
            reports=reports,
            fingerprint="of this test",
            buckets=1,
            claims=claims,
        )
        self._tester = TwsTester(Resequencer(plan, _SCHEMA.serialize().to_pybytes()), timeMode="None")

    def called(
        self, now: int, packets: Sequence[bytes], commands: Sequence[Command] = (), *, backwards: bool = False
    ) -> Any:
        """The rows of a call at that time, microseconds; `backwards`: as a shuffle may bring its rows."""
        rows: list[dict[str, object]] = [{"packet": one, KIND: None, CONTENT: None} for one in packets]
        for order, one in enumerate(commands):
            rows.append({"packet": None, KIND: COMMAND, CONTENT: json.dumps({**one.entry(), "order": order})})
        frame = pd.DataFrame(rows[::-1] if backwards else rows).assign(bucket=_BUCKET, **{NOW: now})
        return self._tester.testInPandas(_BUCKET, frame)

    def index(self) -> bytes | None:
        """The value of the index."""
        value = self._tester.peekValueState("index", _BUCKET)
        return None if value is None else bytes(value[0])

    def bodies(self) -> dict[int, bytes]:
        """The packets in the map of bodies, by their numbers."""
        found = self._tester.peekMapState("bodies", _BUCKET)
        return {number[0]: bytes(packet[0]) for number, packet in found.items()}
