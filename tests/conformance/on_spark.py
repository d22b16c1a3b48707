"""The conformance cases on Spark: all of them in one operator, a queue each, as a static frame and as a query.

Every case has its own times; here they are moved so that all cases end at the same moment, at which time stands in
the end. The query takes one step of every case a micro-batch, and its watermark stays far behind until the last one.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as List
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from seriatim import BestEffort, Fifo, Group, Policy, Queue, Sequence, Standard, UnitOfWork, Unordered
from seriatim.spark import resequence
from tests.conformance.case import Arrive, Case, Fate, Message, Result

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_BEHIND_S = 1_000_000
_STEP, _END = "a step", "the end"

#: The properties by which the cases say what numbers mean: a filter that is the name of one.
FILTERS = ("base", "base_only", "restarts", "unnumbered", "leaves_nothing", "fill")

_POSITIONS = ("index", "position", "lsn")

SCHEMA = pa.schema(
    [
        ("destination", pa.string()),
        ("key", pa.string()),
        ("number", pa.int64()),
        ("moment", pa.timestamp("us", "UTC")),
        ("at", pa.timestamp("us", "UTC")),
        ("message", pa.int64()),
        ("size", pa.int64()),
        ("is_last", pa.bool_()),
        ("opens", pa.bool_()),
        ("closes", pa.bool_()),
        ("void", pa.bool_()),
        ("content", pa.string()),
        ("region", pa.string()),
        ("id", pa.string()),
        *((name, pa.int64()) for name in ("through", "previous", "epoch", "index")),
        *((name, pa.string()) for name in ("position", "lsn")),
        *((name, pa.bool_()) for name in FILTERS),
    ]
)


def cannot_run(case: Case) -> str | None:
    """Why a case doesn't apply to a frame; None: it does."""
    whys = (
        (case.has_actions, "an operator acts on it, which a frame can't see"),
        (not case.plain, "its keys, sequences or sizes have no column type in common"),
        (case.unwatched, "a batch looks at what it takes in"),
    )
    return next((why for applies, why in whys if applies), None)


def queue_of(case: Case) -> Queue:
    """A case as a queue."""
    by_time = isinstance(case.policy, BestEffort) and case.policy.by == "time"
    return Queue(
        case.name,
        case.policy,
        group=Group(
            "key",
            opens="opens" if case.opens else None,
            closes="closes" if case.closes else None,
            unopened_timeout=case.unopened_timeout,
        ),
        sequence=_sequence_of(case, "moment" if by_time else "number"),
        compare="content" if _compares(case.policy) and not case.regions else None,
    )


def _compares(policy: Policy) -> bool:
    return isinstance(policy, Standard) or (isinstance(policy, UnitOfWork) and not policy.once)


def _sequence_of(case: Case, by: str) -> str | Sequence:
    """What the numbers of a case mean, where the number of a message is in a column."""
    says = case.numbers
    if says is None:
        return by
    return says if says.previous is not None or says.by is not None else replace(says, by=by)


def conflicts_in(case: Case, rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """The first conflict of each group among the rows of a call."""
    found: dict[Any, int] = {}
    for row in sorted(rows, key=lambda row: row["message"]):
        if (row["reason"] or "").startswith("conflicts"):
            found.setdefault(case.messages[row["message"]].group, case.messages[row["message"]].sequence)
    return list(found.items())


def run_static(spark: SparkSession, cases: List[Case], **regions: Any) -> dict[str, Result]:
    """All cases in one frame that ends; `regions`: what says the regions of messages, if two send them."""
    end = max(case.last_time for case in cases)
    rows = [row for case in cases for number in range(len(case.messages)) for row in [_row(case, number, end)]]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))
    decided = resequence(
        frame,
        queues=[queue_of(case) for case in cases],
        arrival="message",
        clock="event",
        time="at",
        start_from=_first_numbers(spark, cases),
        output="all",
        void="void",
        buckets=4,
        **regions,
    ).toArrow()
    fates = _fates(decided.to_pylist())
    return {case.name: Result(tuple(_in_order(case, fates.get(case.name, [])))) for case in cases}


def run_streaming(spark: SparkSession, cases: List[Case], folder: Path, **regions: Any) -> dict[str, Result]:
    """All cases in one query, a step of each a micro-batch; what is in no batch is held. `regions`: as for `run_static`."""
    end = max(case.last_time for case in cases)
    _write_steps(cases, end, folder / "in")
    source = spark.readStream.schema(_spark_schema(spark)).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    decided = resequence(
        source,
        queues=[*map(queue_of, cases), Queue(_STEP, Fifo(), group="key"), Queue(_END, Fifo(), group="key")],
        arrival="message",
        clock="event",
        time="at",
        watermark=_FAR_BEHIND_S,
        start_from=_first_numbers(spark, cases),
        output="all",
        void="void",
        buckets=4,
        **regions,
    )
    batches = _Batches()
    query = (
        decided.writeStream.foreachBatch(batches.take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        wait_for_watermark(query, _EPOCH + timedelta(seconds=end))
    finally:
        query.stop()
    return {case.name: batches.result(case) for case in cases}


def wait_for_watermark(query: Any, moment: datetime, deadline_s: float = 240.0) -> None:
    """Until a batch has run with time at that moment."""
    wanted = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        if query.exception() is not None:
            raise query.exception()
        if any(
            p["eventTime"].get("watermark", "") >= wanted and "addBatch" in p["durationMs"]
            for p in query.recentProgress
        ):
            return
        query.awaitTermination(0.1)
    raise AssertionError(f"no batch had the watermark {wanted}: {query.lastProgress}")


class _Batches:
    """What the query decided, a list a batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, list[dict[str, Any]]] = {}

    def take(self, frame: DataFrame, batch: int) -> None:
        with self._lock:
            self._rows[batch] = frame.toArrow().to_pylist()

    def result(self, case: Case) -> Result:
        fates: list[Fate] = []
        left: dict[int, tuple[Fate, ...]] = {}
        conflicts: list[tuple[str, int]] = []
        for batch in sorted(self._rows):
            rows = self._rows[batch]
            mine = _in_order(case, _fates(rows).get(case.name, []))
            fates += mine
            conflicts += conflicts_in(case, [row for row in rows if row["destination"] == case.name])
            for row in rows:
                if row["destination"] == _STEP:
                    left[row["number"]] = tuple(fate for fate in mine if fate.disposition == "released")
        held = set(range(len(case.messages))) - {fate.message for fate in fates}
        steps = sum(isinstance(step, Arrive) for step in case.steps)
        # Where timers fire is known in the end only: the watermark stays behind.
        by_step = None if _has_timers(case) else tuple(left[n] for n in range(steps))
        return Result(
            (*fates, *(Fate(n, "held") for n in sorted(held))),
            by_step,
            conflicts=None if by_step is None else tuple(conflicts),
        )


def _has_timers(case: Case) -> bool:
    periods = [getattr(case.policy, name, None) for name in ("hole_timeout", "window", "timeout", "settle")]
    return any(one is not None for one in (*periods, case.unopened_timeout))


def fate_of(row: Mapping[str, Any]) -> Fate:
    """What became of a message, from a decided row."""
    lacks = tuple(row["missing"] or ()) if "missing" in row else None
    assert row.get("partial") is None or row["partial"] or not lacks, row
    return Fate(row["message"], row["disposition"], row["ordinal"], row["late"], row.get("overlaps"), lacks)


def _fates(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Fate]]:
    fates: dict[str, list[Fate]] = {}
    for row in rows:
        fate = fate_of(row)
        fates.setdefault(row["destination"], []).append(fate)
    return fates


def _in_order(case: Case, fates: list[Fate]) -> list[Fate]:
    """The fates of one call as they left; without order, messages that left at once are told in order of arrival."""
    return sorted(fates, key=lambda fate: fate.message) if isinstance(case.policy, Unordered) else fates


def _row(case: Case, number: int, end: float) -> dict[str, Any]:
    message: Message = case.messages[number]
    by_time = isinstance(case.policy, BestEffort) and case.policy.by == "time"
    return {
        "destination": case.name,
        "key": message.group,
        "number": None if by_time else message.sequence,
        "moment": _moment(message.sequence) if by_time and message.sequence is not None else None,
        "at": _moment(message.at + end - case.last_time),
        "message": number,
        "size": message.properties.get("size"),
        "is_last": message.properties.get("is_last"),
        "opens": message.properties.get("opens"),
        "closes": message.properties.get("closes"),
        "void": message.is_void or None,
        "content": message.label,
        "region": message.properties.get("region"),
        "id": message.properties.get("id"),
        **{name: message.properties.get(name) for name in ("through", "previous", "epoch", *_POSITIONS, *FILTERS)},
    }


def _moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _write_steps(cases: List[Case], end: float, folder: Path) -> None:
    """A file a step, and one more whose time moves the watermark to the end."""
    steps = [list(_rows_by_step(case, end)) for case in cases]
    folder.mkdir(parents=True)
    blank = dict.fromkeys(SCHEMA.names)
    for number in range(max(map(len, steps))):
        rows = [row for of_case in steps for row in (of_case[number] if number < len(of_case) else [])]
        mark = {"destination": _STEP, "key": "step", "region": "a", "id": str(number)}
        rows.append(blank | mark | {"at": _moment(0), "message": 0, "number": number})
        _write(folder, number, rows)
    last = blank | {
        "destination": _END,
        "key": "end",
        "region": "a",
        "id": "end",
        "at": _moment(end + _FAR_BEHIND_S),
        "message": 0,
    }
    _write(folder, max(map(len, steps)), [last])


def _write(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    path = folder / f"step-{number:03d}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    # Files are taken in order of their modification times.
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _rows_by_step(case: Case, end: float) -> Iterator[list[dict[str, Any]]]:
    start = 0
    for step in case.steps:
        assert isinstance(step, Arrive)
        yield [_row(case, start + n, end) for n in range(len(step.messages))]
        start += len(step.messages)


def _first_numbers(spark: SparkSession, cases: List[Case]) -> DataFrame | None:
    rows = [(case.name, group, number) for case in cases for group, number in case.start_from.items()]
    return spark.createDataFrame(rows, "destination string, group string, next long") if rows else None


def _spark_schema(spark: SparkSession) -> Any:
    return spark.createDataFrame(SCHEMA.empty_table()).schema
