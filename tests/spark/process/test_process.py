"""The user's code in Spark: what it returns, drops, multiplies and breaks, with the order behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim import Fifo, Queue, Standard
from seriatim.errors import SeriatimError, UsageError
from seriatim.pipeline.declared.pipeline import Deliver, Destination, Pipeline, Process
from seriatim.runtime.pipelines.failure_cause import cause_of
from seriatim.spark import resequence
from seriatim.spark.calls.register import Calling, calls_in, forget_calls
from seriatim.spark.process.stage import process, properties, spread
from tests.spark.resequence.test_resequence import put, run_until, stream_of

SCHEMA = "customer string, version long, ready boolean"
TICKET = "named_struct('location', 'crm', 'epoch', 0L, 'number', version)"


def pipeline_of(
    folder: Path, code: str, step: Process | None, to: Mapping[str, Process | None] | None = None
) -> Pipeline:
    """A pipeline whose functions are `code`, in a module of its own for each test."""
    module = f"steps_{folder.name}"
    (folder / f"{module}.py").write_text(f"import pyarrow as pa, pyarrow.compute as pc\n{code}")

    def named(declared: Process | None) -> Process | None:
        return declared and Process(f"{module}:{declared.function}", declared.returns, declared.on_error)

    route = [
        Destination(Queue(name, Fifo(), "customer"), Deliver("json"), process=named(one))
        for name, one in (to or {"all": None}).items()
    ]
    return Pipeline("p", folder, (), tuple(route), process=named(step), source_file=folder / "pipeline.yaml")


def messages(frame: DataFrame) -> DataFrame:
    """What `receive` and `stamp` leave, as far as it matters here."""
    return frame.select(
        F.concat_ws("/", "customer", "version").alias("message_id"),
        F.lit(None).cast("string").alias("type"),
        F.expr(TICKET).alias("ticket", metadata={"seriatim.last_number": 9}),
        "customer",
        "version",
        "ready",
        F.to_json(F.struct("customer", "version")).cast("binary").alias("body"),
        F.when(F.col("customer").isNull(), "no customer").alias("_invalid"),
    )


def of(rows: Sequence[Any], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def told(act: Any) -> SeriatimError:
    with pytest.raises(PySparkException) as caught:
        act()
    return cause_of(caught.value)


ENRICH = """
def apply(messages):
    assert 'ticket' in messages.column_names and not {'_invalid', 'margin'} & {*messages.column_names}
    margin = pc.multiply(pc.cast(messages['version'], pa.float64()), 1.5)
    return messages.select(['message_id']).append_column('margin', margin).append_column('version', pc.cast(messages['version'], pa.string()))
"""


def test_columns_are_added_and_replaced_and_all_else_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    before = messages(spark.createDataFrame([("a", 2, True), (None, 3, True), ("b", 4, False)], SCHEMA))
    pipeline = pipeline_of(tmp_path, ENRICH, Process("apply", {"margin": "double", "version": "string"}))
    after = process(before, pipeline)
    assert after.columns == [*before.columns, "margin", "_outputs"]
    assert after.schema["ticket"].metadata == {"seriatim.last_number": 9}
    assert dict(after.dtypes)["version"] == "string"
    assert properties(pipeline) == {"margin": "double", "version": "string"}
    rows = after.orderBy("ticket.number").collect()
    assert of(rows, "customer", "version", "margin", "_outputs", "_invalid") == [
        ("a", "2", 3.0, None, None),
        (None, "3", None, None, "no customer"),
        ("b", "4", 6.0, None, None),
    ]
    assert of(rows, "message_id", "ticket", "body") == of(
        before.orderBy("version").collect(), "message_id", "ticket", "body"
    )


def test_without_code_nothing_is_added(spark: SparkSession, tmp_path: Path) -> None:
    before = messages(spark.createDataFrame([("a", 2, True)], SCHEMA))
    assert process(before, pipeline_of(tmp_path, "", None)) is before
    assert spread(before).collect()[0]["_output"] == 1


EACH = """
def left(messages):
    return pa.table({'message_id': messages['message_id'], 'label': ['left'] * len(messages)})
def right(messages):
    assert set(messages['destination'].to_pylist()) == {'right'}
    return messages.select(['message_id', 'body']).slice(1)
"""


def test_each_destination_has_its_own(spark: SparkSession, tmp_path: Path) -> None:
    to = {"left": Process("left", {"label": "string"}), "right": Process("right", {"body": "binary"}), "plain": None}
    pipeline = pipeline_of(tmp_path, EACH, None, to)
    received = process(messages(spark.createDataFrame([("a", 1, True), ("a", 2, True)], SCHEMA)).coalesce(1), pipeline)
    routed = received.withColumn("destination", F.explode(F.array(*map(F.lit, to))))
    rows = process(routed, pipeline, routed=True).orderBy("destination", "version").collect()
    assert of(rows, "destination", "version", "label", "_outputs") == [
        ("left", 1, "left", None),
        ("left", 2, "left", None),
        ("plain", 1, None, None),
        ("plain", 2, None, None),
        ("right", 1, None, []),
        ("right", 2, None, None),
    ]


def test_a_destination_cant_change_a_type(spark: SparkSession, tmp_path: Path) -> None:
    before = messages(spark.createDataFrame([("a", 2, True)], SCHEMA))
    pipeline = pipeline_of(tmp_path, ENRICH, None, {"one": Process("apply", {"version": "string"})})
    with pytest.raises(UsageError, match="version can't become string under a destination"):
        process(before, pipeline)


WRONG = """
def lacks(messages): return messages.select(['message_id'])
def raises(messages): raise KeyError('total')
def exits(messages):
    import sys; sys.exit('no more')
"""


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        (Process("lacks", {"margin": "double"}), "returned the column margin not, but message_id"),
        (Process("raises", {}, "fail"), "the function failed at message a/2: KeyError: 'total'"),
        (Process("exits", {}, "fail"), "the function failed at message a/2: SystemExit: no more"),
        (Process("absent", {}), "has no 'absent'"),
    ],
)
def test_what_fails_a_batch_is_told_in_a_line(spark: SparkSession, tmp_path: Path, step: Process, wanted: str) -> None:
    before = messages(spark.createDataFrame([("a", 2, True)], SCHEMA))
    error = told(process(before, pipeline_of(tmp_path, WRONG, step)).collect)
    assert isinstance(error, UsageError)
    assert wanted in str(error)
    assert "\n" not in str(error)


SORTED_OUT = """
import pyarrow as pa
def apply(messages):
    rows = []
    for row in messages.select(['message_id', 'version', 'ready']).to_pylist():
        if not row['ready']:
            raise ValueError('not ready')
        count = 0 if row['version'] % 4 == 0 else 3 if row['version'] % 5 == 0 else 1
        rows += [{'message_id': row['message_id'], 'nth': nth, 'body': b'%d/%d' % (row['version'], nth)} for nth in range(count)]
    return pa.Table.from_pylist(rows[::-1], pa.schema([('message_id', pa.string()), ('nth', pa.int64()), ('body', pa.binary())]))
"""


@pytest.mark.telling
def test_order_behind_it_holes_are_closed_and_outputs_stay_together(spark: SparkSession, tmp_path: Path) -> None:
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    rows = [(customer, version, version != 7) for customer in "ab" for version in range(12, 0, -1)]
    put(tmp_path / "in", 1, [dict(zip(("customer", "version", "ready"), row, strict=True)) for row in rows])
    put(tmp_path / "in", 2, [{"customer": customer, "version": 7, "ready": True} for customer in "ab"])
    pipeline = pipeline_of(tmp_path, SORTED_OUT, Process("apply", {"nth": "long", "body": "binary"}))
    ordered = resequence(
        process(messages(stream), pipeline),
        group="customer", sequence="version", policy=Standard(), invalid="_invalid", output="all", buckets=2,
    )  # fmt: skip
    decided = run_until(spread(ordered), tmp_path / "checkpoint", 2 * (12 + 2 * 2 + 1))
    failed = [row for row in decided if row.disposition == "invalid"]
    assert sorted(row.message_id for row in failed) == ["a/7", "b/7"]
    assert {row.reason.partition("\n")[0].partition(": ")[2] for row in failed} == {"ValueError: not ready"}
    assert {row._output for row in failed} == {1}
    for customer in "ab":
        mine = [row for row in decided if row.customer == customer and row.disposition == "released"]
        wanted = []
        for version in range(1, 13):
            name = f"{customer}/{version}"
            if version % 4 == 0:
                wanted.append((name, version, 0))
            elif version % 5 == 0:
                wanted += [(f"{name}.{nth}", version, nth) for nth in (1, 2, 3)]
            else:
                wanted.append((name, version, 1))
        assert [(row.message_id, row.ordinal, row._output) for row in mine] == wanted
        assert [(row.nth, bytes(row.body)) for row in mine if row.ordinal == 5] == [
            (2, b"5/2"),
            (1, b"5/1"),
            (0, b"5/0"),
        ]
        assert sum(row._output <= 1 for row in mine) == 12


SEEN = """
from pathlib import Path
from seriatim.spark.calls.register import calls_in
def apply(messages):
    (call,) = calls_in(Path(__file__).with_name('calls'))
    note = f'{call.function} {call.messages} {call.first}'
    return pa.table({'message_id': messages['message_id'], 'note': [note] * len(messages)})
"""


def test_a_call_can_be_seen_while_it_lasts(spark: SparkSession, tmp_path: Path) -> None:
    before = messages(spark.createDataFrame([("a", 1, True), ("a", 2, True)], SCHEMA)).coalesce(1)
    pipeline = pipeline_of(tmp_path, SEEN, Process("apply", {"note": "string"}))
    forget_calls(tmp_path / "calls")
    rows = process(before, pipeline, calling=Calling(str(tmp_path / "calls"))).collect()
    assert {row.note for row in rows} == {f"steps_{tmp_path.name}:apply 2 a/1"}
    assert calls_in(tmp_path / "calls") == []


def test_code_that_returns_nothing_may_still_drop_and_multiply(spark: SparkSession, tmp_path: Path) -> None:
    code = "def apply(messages):\n    first = messages.slice(0, 1).select(['message_id'])\n    return pa.concat_tables([first, first])"
    before = messages(spark.createDataFrame([("a", 1, True), ("a", 2, True)], SCHEMA)).coalesce(1)
    after = process(before, pipeline_of(tmp_path, code, Process("apply")))
    rows = spread(after.withColumn("disposition", F.lit("released"))).orderBy("version", "_output").collect()
    assert [(row.message_id, row._output, bytes(row.body)) for row in rows] == [
        ("a/1.1", 1, b'{"customer":"a","version":1}'),
        ("a/1.2", 2, b'{"customer":"a","version":1}'),
        ("a/2", 0, b'{"customer":"a","version":2}'),
    ]
