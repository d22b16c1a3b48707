"""Delivered files: right, in order and exactly once for any reader, wherever the process is killed."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from seriatim import BestEffort, Group, Queue, Standard, Unordered
from seriatim.errors import CheckpointMismatch, UsageError
from seriatim.pipeline.declared.pipeline import Deliver, Destination, Pipeline, Receive, Source
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.deliver import file_parts
from seriatim.spark.deliver.file_parts import Outlet
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.stage import Folders, Sink

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
LATEST = Queue("latest", Standard(), "customer", "version")


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
    made = Sink(session(), pipeline(folder, *destinations), identity, folders(folder), delivered.append)
    return made, delivered


def session():
    """The running one; only sinks of Spark's need it."""
    return SparkSession.getActiveSession()


def folders(folder):
    return Folders(folder / "aside", folder / "unrouted", folder / "checkpoint" / "waiting")


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


@pytest.mark.telling
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


@pytest.mark.parametrize("kind", ["json", "parquet", None])
def test_what_is_dropped_is_counted_and_lies_nowhere(spark, tmp_path, kind):
    noise = Destination(Queue("noise", Standard(), Group("customer", default="none"), "version"), Deliver("drop"))
    others = () if kind is None else (destination(tmp_path, kind),)
    deliver, delivered = sink(tmp_path, noise, *others)
    late = row(3, to="noise", disposition="late")
    deliver(frame(spark, [row(1, to="noise"), row(2, to="noise"), late, *([row(1)] if others else [])]), 0)
    counts = {("noise", "released"): 2, ("noise", "late"): 1}
    assert delivered[0].counts == counts | ({("orders", "released"): 1} if others else {})
    assert [(one["destination"], one["group"], one["sequence"]) for one in json_rows(tmp_path / "aside")] == [
        ("noise", "c", 3)
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aside", *(["orders"] if others else []), "unrouted"]
    if others:
        assert ds.dataset(tmp_path / "orders", format=kind).to_table().num_rows == 1


def test_a_destination_that_drops_does_not_forget_what_waits_for_its_former_port(spark, tmp_path):
    (tmp_path / "orders").write_text("")  # a file where the folder has to be
    deliver, _ = sink(tmp_path, destination(tmp_path))
    deliver(frame(spark, [row(1)]), 0)
    deliver.close()
    with pytest.raises(CheckpointMismatch, match="1 batch waits for orders, which has no port any more"):
        sink(tmp_path, Destination(STANDARD, Deliver("drop")))


def test_reports_are_counted_nowhere_and_handed_on(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    report = (*[None] * 13, '{"bucket": 0, "held": 3}')
    deliver(frame(spark, [row(1), report]), 0)
    assert delivered[0].reports == ('{"bucket": 0, "held": 3}',)
    assert delivered[0].counts == {("orders", "released"): 1}


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_a_default_group_is_the_delivered_group(spark, tmp_path, kind):
    queue = Queue("orders", Standard(), Group("customer", default="none"), "version")
    deliver, _ = sink(tmp_path, destination(tmp_path, kind, queue=queue))
    deliver(frame(spark, [row(1, None), row(2, ""), row(3, "x" * 1025), row(4, "a\0b"), row(5, "ä" * 512)]), 0)
    found = ds.dataset(tmp_path / "orders", format=kind).to_table(columns=["group"]).column("group").to_pylist()
    assert found == ["none"] * 4 + ["ä" * 512]


def test_the_group_of_an_output_is_the_message_s(spark, tmp_path):
    queue = Queue("orders", Standard(), Group("customer", default="none"), "version")
    deliver, _ = sink(tmp_path, destination(tmp_path, "parquet", queue=queue))
    schema = f"{SCHEMA}, _outputs array<struct<customer: string, body: binary>>"
    rows = [(*row(1), [("x", b"1"), ("y", b"2")]), (*row(2, ""), [("z", b"3")])]
    deliver(spark.createDataFrame(rows, schema).coalesce(1), 0)
    found = ds.dataset(tmp_path / "orders").to_table(columns=["group", "customer", "body"]).to_pylist()
    assert [tuple(one.values()) for one in found] == [("c", "x", b"1"), ("c", "y", b"2"), ("none", "z", b"3")]


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


@pytest.mark.telling
def test_a_replayed_batch_takes_its_own_place(spark, tmp_path):
    deliver, _ = sink(tmp_path, destination(tmp_path))
    deliver(frame(spark, [row(1)]), 0)
    deliver(frame(spark, [row(2), row(3)], partitions=2), 1)
    again, _ = sink(tmp_path, destination(tmp_path))
    again(frame(spark, [row(2), row(3)], partitions=1), 1)
    assert [one["ordinal"] for one in json_rows(tmp_path / "orders")] == [1, 2, 3]
    again(frame(spark, []), 1)
    assert [one["ordinal"] for one in json_rows(tmp_path / "orders")] == [1]


TICKET = "ticket struct<location: string, epoch: bigint, number: bigint>"


def stamped(spark, rows, *more):
    """Rows with a ticket, and whatever else the way adds before the sink."""
    schema = ", ".join([SCHEMA, TICKET, "parent_id string, part bigint, parts bigint", *more])
    return spark.createDataFrame(rows, schema).coalesce(1)


def test_tickets_and_parts_are_delivered_where_the_frame_has_them(spark, tmp_path):
    by_ticket = Queue("latest", Standard(), "customer", "ticket")
    deliver, _ = sink(
        tmp_path,
        destination(tmp_path),
        destination(tmp_path, "parquet", by_ticket),
        destination(tmp_path, "csv", Queue("loose", Unordered())),
    )
    parted = ("crm/a.json:1", 1, 2)
    rows = [(*row(1, to=to), ("crm", 0, 17), *parted) for to in ("orders", "latest", "loose")]
    rows += [(*row(2), (None, None, None), None, None, None)]
    deliver(stamped(spark, rows), 0)
    first, second = json_rows(tmp_path / "orders")
    ticket = {"location": "crm", "epoch": 0, "number": 17}
    assert list(first)[:9] == [
        "message_id", "type", "location", "ticket", "parent_id", "part", "parts", "group", "sequence",
    ]  # fmt: skip
    assert (first["ticket"], first["parent_id"], first["part"], first["parts"]) == (ticket, *parted)
    assert (second["ticket"], second["part"]) == (None, None)
    (latest,) = ds.dataset(tmp_path / "latest").to_table().to_pylist()
    assert (latest["ticket"], latest["sequence"]) == (ticket, ticket)
    (loose,) = ds.dataset(tmp_path / "loose", format="csv").to_table().to_pylist()
    assert (loose["ticket"], loose["parts"]) == ("crm/0/17", 2)


def test_what_no_destination_wanted_is_kept_in_a_port_of_its_own(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path))
    rows = [
        row(1),
        row(2, to=None, disposition="unrouted"),
        row(3, to=None, disposition="invalid", reason="a.json:3: no JSON", body=b"\xff"),
    ]
    deliver(frame(spark, rows), 0)
    (unrouted,) = json_rows(tmp_path / "unrouted")
    assert (unrouted["destination"], unrouted["disposition"], unrouted["customer"]) == (None, "unrouted", "c")
    assert (unrouted["group"], unrouted["sequence"], unrouted["body"]) == (None, None, '{"a": 1}')
    (invalid,) = json_rows(tmp_path / "aside")
    assert (invalid["destination"], invalid["disposition"], invalid["body_base64"]) == (None, "invalid", "/w==")
    assert len(json_rows(tmp_path / "orders")) == 1
    assert delivered[0].counts == {("orders", "released"): 1, ("", "unrouted"): 1, ("", "invalid"): 1}


def test_a_message_with_several_outputs_is_counted_once_and_a_consumed_one_writes_nothing(spark, tmp_path):
    deliver, delivered = sink(tmp_path, destination(tmp_path), destination(tmp_path, "parquet", LATEST))
    schema = f"{SCHEMA}, _outputs array<struct<customer: string, body: binary>>"
    several = [("x", b"one"), ("y", b"two")]
    rows = [
        (*row(1, to=to, disposition=disposition), outputs)
        for to in ("orders", "latest")
        for disposition, outputs in (("released", None), ("released", several), ("released", []), ("late", []))
    ]
    deliver(spark.createDataFrame(rows, schema).coalesce(1), 0)
    found = [(one["message_id"], one["customer"], one["group"], one["body"]) for one in json_rows(tmp_path / "orders")]
    mine = "crm/a.json:1"
    assert found == [(mine, "c", "c", '{"a": 1}'), (f"{mine}.1", "x", "c", "one"), (f"{mine}.2", "y", "c", "two")]
    latest = ds.dataset(tmp_path / "latest").to_table().to_pylist()
    assert [(one["customer"], one["group"], one["body"]) for one in latest] == [
        ("c", "c", b'{"a": 1}'), ("x", "c", b"one"), ("y", "c", b"two"),
    ]  # fmt: skip
    assert delivered[0].counts == {
        (to, disposition): count for to in ("orders", "latest") for disposition, count in (("released", 3), ("late", 1))
    }
    assert len(json_rows(tmp_path / "aside")) == 2


def test_a_body_that_is_no_text(spark, tmp_path):
    deliver, _ = sink(tmp_path, destination(tmp_path), destination(tmp_path, "csv", LATEST))
    deliver(frame(spark, [row(1, body=b"a\xff"), row(1, to="latest", body=b"a\xff"), row(2, to="latest")]), 0)
    (line,) = json_rows(tmp_path / "orders")
    assert (line["body"], line["body_base64"]) == (None, "Yf8=")
    first, second = ds.dataset(tmp_path / "latest", format="csv").to_table().to_pylist()
    assert (first["body"], second["body"]) == ("a\ufffd", '{"a": 1}')


def test_many_destinations_of_several_shapes(spark, tmp_path):
    queues = [
        Queue(f"d{n}", Standard(), Group("customer", default="none" if n % 2 else None), "version") for n in range(150)
    ]
    made = [destination(tmp_path, ("json", "parquet", "csv")[number % 3], queue) for number, queue in enumerate(queues)]
    deliver, delivered = sink(tmp_path, *made)
    deliver(frame(spark, [row(n, None, to=queue.name) for queue in queues for n in (1, 2)]), 0)
    assert delivered[0].tasks == (300,)
    for number, queue in enumerate(queues):
        (file,) = (tmp_path / queue.name).glob("batch=*/part-00000.*")
        kind = file.suffix[1:]
        found = json_rows(file.parents[1]) if kind == "json" else ds.dataset(file, format=kind).to_table().to_pylist()
        assert [one["sequence"] for one in found] == [1, 2]
        assert {one["group"] or None for one in found} == {"none" if number % 2 else None}


def test_a_part_that_is_opened_again_goes_on_in_a_next_file(monkeypatch, tmp_path):
    outlets = {n: Outlet(str(tmp_path / str(n)), "json") for n in range(5)}
    for n in outlets:
        (tmp_path / str(n)).mkdir()
    monkeypatch.setattr(file_parts, "_MOST_OPEN", 2)
    monkeypatch.setattr(file_parts, "_MOST_HELD_BYTES", 0)
    desk = file_parts._Desk(outlets, 0, 7)
    for number in range(4):
        lines = pa.table({"_line": [str(10 * number + n) for n in range(10)]})
        desk.take(lines, pa.chunked_array([pa.array([0, 1, 2, 3, 4, 0, 1, 2, 3, 4], pa.int32())]))
        assert sum(part.is_open for part in desk.parts.values()) <= 2
    desk.finish()
    for n, part in desk.parts.items():
        names = [name for _, name in part.files]
        assert names == sorted(names)
        assert names[:2] == ["part-00000.json", "part-00000_001.json"]
        texts = [(tmp_path / str(n) / staged).read_text().split() for staged, _ in part.files]
        assert [int(line) for text in texts for line in text] == list(range(n, 40, 5))


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
    with pytest.raises(CheckpointMismatch, match="orders: the folder has batches of another checkpoint: pipeline 'p'"):
        sink(tmp_path, destination(tmp_path), identity="id-2")
    with pytest.raises(CheckpointMismatch, match="another format"):
        sink(tmp_path, destination(tmp_path, "csv"))
    foreign = tmp_path / "foreign" / "orders" / "batch=0000000000"
    foreign.mkdir(parents=True)
    with pytest.raises(CheckpointMismatch, match="no manifest that names their pipeline"):
        sink(tmp_path / "foreign", destination(tmp_path / "foreign"))
    (tmp_path / "orders" / ".seriatim").write_text("{")
    with pytest.raises(CheckpointMismatch, match="the file is damaged"):
        sink(tmp_path, destination(tmp_path))


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("json", {"colour": "red"}, "unknown option 'colour' of json"),
        ("parquet", {"compression": "zip"}, "compression must be none or snappy"),
        ("csv", {"sep": "||"}, "sep must be one character"),
    ],
)
def test_what_a_port_may_say(tmp_path, kind, options, message):
    with pytest.raises(UsageError, match=message):
        sink(tmp_path, destination(tmp_path, kind, **options))
