"""The ordering of a frame: the parameters of `resequence` that a user, or a pipeline, gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, DataFrame

from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.stamp.operator import StampPlan
from seriatim.spark.state.state_layout import StateLayout


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows that are in packets already, as the operator takes them: (bucket, packet). `tickets`: how their tickets are given by counts;
    None: they have none.
    """

    packets: DataFrame
    tickets: StampPlan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """How the rows of a frame are put in order; for the parameters see `resequence`."""

    queues: Sequence[Queue]
    layout: StateLayout
    #: The column that names a row's queue; None: there is one queue.
    destination: str | None = None
    arrival: str | Sequence[str] | None = None
    clock: Literal["processing", "event"] = "processing"
    time: str | None = None
    watermark: float | str | None = None
    start_from: DataFrame | None = None
    output: Literal["released", "all"] = "released"
    finish: bool = False
    invalid: str | None = None
    void: str | None = None
    region: str | None = None
    message_id: str | Column | None = None
    horizon: float | str | None = None
    #: Whether two runs share the destinations by a journal, which counts what has left by its number.
    claims: bool = False
    #: For a streaming frame: leave the rows in packets, beside a report per bucket and batch, which is JSON about the content of the
    #: bucket; see `decided_packets.py`.
    packed: bool = False
    #: For a streaming frame: its rows in packets, which are taken in place of the frame's; the frame says their columns and types.
    front: Packed | None = None
    #: For a streaming frame: the folder of a pipeline's control log.
    control: Path | None = None
