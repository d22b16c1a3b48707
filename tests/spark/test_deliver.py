"""Delivered files: right, in order and exactly once for any reader, wherever the process is killed."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from seriatim import BestEffort, Queue, Standard, Unordered
from seriatim.errors import CheckpointMismatch, EnvironmentProblem, UsageError
from seriatim.pipeline.declaration import Deliver, Destination, Pipeline, Promotion, Receive, Source
from seriatim.spark.deliver import Sink
from seriatim.spark.port import Port

PROMOTE = (
    Promotion("customer", "$.customer"),
    Promotion("version", "$.version", "long"),
    Promotion("total", "$.total", "decimal(12,2)"),
    Promotion("at", "$.at", "timestamp"),
    Promotion("paid", "$.paid", "boolean"),
)
SCHEMA = (
    "message_id string, type string, location string, customer string, version bigint, total decimal(12,2), "
    "at timestamp, paid boolean, body binary, destination string, ordinal bigint, late boolean, disposition string, reason string"
)
AT = dt.datetime(2024, 5, 1, 10, 0, 0, 123456, tzinfo=dt.UTC)
STANDARD = Queue("orders", Standard(), "customer", "version")


def pipeline(folder, *destinations):
    receive = Receive("crm", Source("json", folder / "in"), PROMOTE)
    return Pipeline(name="p", checkpoint=folder / "checkpoint", receive=(receive,), route=destinations)


def destination(folder, kind="json", queue=STANDARD, **options):
    return Destination(queue, Deliver(kind, folder / queue.name, options))


def row(number, customer="c", *, to="orders", disposition="released", reason=None, body=b'{"a": 1}', version=None):
    released = disposition == "released"
    seen = (f"crm/a.json:{number}", "order", "crm", customer, version or number, Decimal("1.50"), AT, True, body)
    return (*seen, to, number if released else None, False if released else None, disposition, reason)


def sink(folder, *destinations, identity="id-1"):
    delivered = []
    made = Sink(pipeline(folder, *destinations), identity, folder / "aside", delivered.append)
    return made, delivered


def frame(spark, rows, partitions=1):
    return spark.createDataFrame(rows, SCHEMA).coalesce(partitions)


def json_rows(folder):
    files = sorted(folder.glob("batch=*/*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_json_files(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    deliver(frame(spark, [row(1), row(2, body='{"b": "ü\\n"}'.encode())]), 0)
    first, second = json_rows(tmp_path / "orders")
    assert first == {
        "message_id": "crm/a.json:1",
        "type": "order",
        "location": "crm",
        "group": "c",
        "sequence": 1,
        "ordinal": 1,
        "late": False,
        "customer": "c",
        "version": 1,
        "total": 1.5,
        "at": "2024-05-01T10:00:00.123456Z",
        "paid": True,
        "body": '{"a": 1}',
    }
    assert second["body"] == '{"b": "ü\\n"}'
    assert delivered[0].counts == {("orders", "released"): 2}
    assert [path.name for path in sorted((tmp_path / "orders").iterdir())] == [".seriatim", "batch=0000000000"]


def test_parquet_files(spark, tmp_path):
    deliver, _ = sink(tmp_path, destination(tmp_path, "parquet", compression="snappy"))
    deliver(frame(spark, [row(1), row(2)]), 3)
    table = ds.dataset(tmp_path / "orders", format="parquet").to_table()
    names = ["message_id", "type", "location", "group", "sequence", "ordinal", "late"]
    assert table.column_names == [*names, "customer", "version", "total", "at", "paid", "body"]
    found = table.to_pylist()
    assert [one["ordinal"] for one in found] == [1, 2]
    assert (found[0]["total"], found[0]["at"], found[0]["body"]) == (Decimal("1.50"), AT, b'{"a": 1}')
    (file,) = (tmp_path / "orders" / "batch=0000000003").iterdir()
    assert file.name == "part-00000.parquet"
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "SNAPPY"


def test_csv_files(spark, tmp_path):
    deliver, _ = sink(tmp_path, destination(tmp_path, "csv", sep=";", compression="gzip"))
    deliver(frame(spark, [row(1, 'c;"x"'), row(2)]), 0)
    text = gzip.decompress((tmp_path / "orders" / "batch=0000000000" / "part-00000.csv.gz").read_bytes()).decode()
    lines = text.splitlines()
    assert lines[0].replace('"', "") == (
        "message_id;type;location;group;sequence;ordinal;late;customer;version;total;at;paid;body"
    )
    assert lines[1] == (
        '"crm/a.json:1";"order";"crm";"c;""x""";1;1;false;"c;""x""";1;"1.50";2024-05-01 10:00:00.123456Z;true;"{""a"": 1}"'
    )


def test_what_is_not_released_is_set_aside_with_its_reason(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    rows = [
        row(1),
        row(2, disposition="invalid", reason="a.json:2: not UTF-8 at byte 0", body=b"\xff"),
        row(3, disposition="late"),
    ]
    deliver(frame(spark, rows), 0)
    invalid, late = json_rows(tmp_path / "aside")
    assert (invalid["destination"], invalid["disposition"], invalid["reason"]) == (
        "orders",
        "invalid",
        "a.json:2: not UTF-8 at byte 0",
    )
    assert (invalid["body"], invalid["body_base64"]) == (None, "/w==")
    assert (late["disposition"], late["body"], late["group"], late["sequence"]) == ("late", '{"a": 1}', "c", 3)
    assert len(json_rows(tmp_path / "orders")) == 1
    assert delivered[0].counts == {("orders", "released"): 1, ("orders", "invalid"): 1, ("orders", "late"): 1}


def test_destinations_of_several_formats_in_one_batch(spark, tmp_path):
    by_time = Queue("latest", BestEffort(by="time"), "customer", "at")
    loose = Queue("loose", Unordered())
    deliver, delivered = sink(
        tmp_path, destination(tmp_path), destination(tmp_path, "parquet", by_time), destination(tmp_path, "csv", loose)
    )
    deliver(frame(spark, [row(1), row(1, to="latest"), row(2, to="latest"), row(1, to="loose")]), 0)
    assert [one["sequence"] for one in json_rows(tmp_path / "orders")] == [1]
    latest = ds.dataset(tmp_path / "latest").to_table().to_pylist()
    assert [one["sequence"] for one in latest] == [AT, AT]
    loose_row = ds.dataset(tmp_path / "loose", format="csv").to_table().to_pylist()
    assert [(one["group"], one["sequence"]) for one in loose_row] == [(None, None)]
    assert delivered[0].counts == {("orders", "released"): 1, ("latest", "released"): 2, ("loose", "released"): 1}


def test_reports_are_counted_nowhere_and_handed_on(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    report = (*[None] * 13, '{"bucket": 0, "held": 3}')
    deliver(frame(spark, [row(1), report]), 0)
    assert delivered[0].reports == ('{"bucket": 0, "held": 3}',)
    assert delivered[0].counts == {("orders", "released"): 1}


def test_a_default_group_is_the_delivered_group(spark, tmp_path):
    queue = Queue("orders", Standard(), "customer", "version", default_group="none")
    deliver, _ = sink(tmp_path, destination(tmp_path, queue=queue))
    deliver(frame(spark, [row(1, None), row(2, ""), row(3, "x" * 1025), row(4, "a\0b"), row(5, "ä" * 512)]), 0)
    assert [one["group"] for one in json_rows(tmp_path / "orders")] == ["none"] * 4 + ["ä" * 512]


def test_the_order_of_a_task_is_the_order_of_its_file(spark, tmp_path):
    deliver, _ = sink(tmp_path, destination(tmp_path, "parquet"))
    for batch in range(3):
        rows = [row(batch * 500 + n, f"c{n % 3}") for n in range(500)]
        deliver(frame(spark, rows), batch)
    found = ds.dataset(tmp_path / "orders").to_table(columns=["group", "ordinal"]).to_pylist()
    assert len(found) == 1500
    for group in ("c0", "c1", "c2"):
        ordinals = [one["ordinal"] for one in found if one["group"] == group]
        assert ordinals == sorted(ordinals)


def test_a_batch_that_brings_nothing_writes_nothing(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    deliver(frame(spark, []), 7)
    assert [path.name for path in (tmp_path / "orders").iterdir()] == [".seriatim"]
    assert delivered[0].counts == {}


def test_a_replayed_batch_takes_its_own_place(spark, tmp_path):
    deliver, _ = sink(tmp_path, destination(tmp_path))
    deliver(frame(spark, [row(1)]), 0)
    deliver(frame(spark, [row(2), row(3)], partitions=2), 1)
    again, _ = sink(tmp_path, destination(tmp_path))
    again(frame(spark, [row(2), row(3)], partitions=1), 1)
    assert [one["ordinal"] for one in json_rows(tmp_path / "orders")] == [1, 2, 3]
    again(frame(spark, []), 1)
    assert [one["ordinal"] for one in json_rows(tmp_path / "orders")] == [1]


class Killed(BaseException):
    """Stands for SIGKILL: no `except Exception` sees it, and nothing after it is run."""


def steps_of_publishing(monkeypatch, after):
    """Let publishing run until `after` steps that change the file system have been done."""
    left = after

    def step(real):
        def counted(*args, **named):
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return real(*args, **named)

        return counted

    monkeypatch.setattr(Path, "rename", step(Path.rename))
    monkeypatch.setattr(Path, "mkdir", step(Path.mkdir))
    monkeypatch.setattr(shutil, "rmtree", step(shutil.rmtree))
    return lambda: left


def staged(port, parts):
    port.staging.mkdir()
    for name, text in parts.items():
        (port.staging / f"{name}.9").write_text(text)
    (port.staging / "part-00000.json.8").write_text("of a task that failed\n")
    return [(f"{name}.9", name) for name in parts]


def numbers(folder):
    return [int(line) for file in sorted(folder.glob("batch=*/*")) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("replayed", [False, True])
def test_killed_at_any_step_a_batch_is_there_once_or_not_at_all_and_the_replay_completes_it(
    tmp_path, monkeypatch, replayed
):
    survived = False
    for after in range(20):
        port = Port("orders", tmp_path / str(after), "json")
        port.claim("p", "id")
        port.publish(0, staged(port, {"part-00000.json": "1\n"}))
        if replayed:
            port.publish(1, staged(port, {"part-00000.json": "2\n3\n", "part-00001.json": "4\n"}))
        parts = staged(port, {"part-00000.json": "2\n3\n", "part-00002.json": "4\n"})
        with monkeypatch.context() as patched:
            steps_left = steps_of_publishing(patched, after)
            try:
                port.publish(1, parts)
            except Killed:
                pass
            else:
                survived = steps_left() >= 0
        assert numbers(port.root) in ([1], [1, 2, 3, 4])
        port.begin()
        port.publish(1, staged(port, {"part-00000.json": "2\n", "part-00001.json": "3\n4\n"}))
        assert numbers(port.root) == [1, 2, 3, 4]
        assert sorted(path.name for path in port.root.iterdir()) == [
            ".seriatim",
            "batch=0000000000",
            "batch=0000000001",
        ]
        if survived:
            break
    assert survived
    assert after >= 5


def test_a_task_that_fails_delivers_nothing(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    bad = frame(spark, [row(1)]).selectExpr("*").withColumn("version", _raise())
    with pytest.raises(Exception, match="out of order"):
        deliver(bad, 0)
    assert json_rows(tmp_path / "orders") == []
    assert delivered == []
    deliver(frame(spark, [row(1)]), 0)
    assert len(json_rows(tmp_path / "orders")) == 1


def _raise():
    from pyspark.sql import functions as F

    return F.raise_error(F.lit("out of order")).cast("bigint")


def test_a_folder_belongs_to_one_checkpoint(spark, tmp_path):
    sink(tmp_path, destination(tmp_path))
    with pytest.raises(
        CheckpointMismatch, match="orders: the folder holds batches of another checkpoint: pipeline 'p'"
    ):
        sink(tmp_path, destination(tmp_path), identity="id-2")
    with pytest.raises(CheckpointMismatch, match="another format"):
        sink(tmp_path, destination(tmp_path, "csv"))
    foreign = tmp_path / "foreign" / "orders" / "batch=0000000000"
    foreign.mkdir(parents=True)
    with pytest.raises(CheckpointMismatch, match="doesn't say of what"):
        sink(tmp_path / "foreign", destination(tmp_path / "foreign"))
    (tmp_path / "orders" / ".seriatim").write_text("{")
    with pytest.raises(CheckpointMismatch, match="the file is damaged"):
        sink(tmp_path, destination(tmp_path))


def test_a_port_that_is_a_file(tmp_path):
    (tmp_path / "orders").write_text("")
    with pytest.raises(EnvironmentProblem, match="orders: can't deliver: File exists"):
        sink(tmp_path, destination(tmp_path))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("orc", {}, "the format 'orc' can't be delivered"),
        ("json", {"colour": "red"}, "unknown option 'colour' of json"),
        ("parquet", {"compression": "zip"}, "compression is none or snappy"),
        ("csv", {"sep": "||"}, "sep is one character"),
    ],
)
def test_what_a_port_may_say(tmp_path, kind, options, message):
    with pytest.raises(UsageError, match=message):
        sink(tmp_path, destination(tmp_path, kind, **options))
