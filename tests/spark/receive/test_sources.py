"""Text, XML, split messages and Spark's other sources, through Spark: what only a real frame can show."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from seriatim import Queue, Unordered
from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.registry import ENVELOPES
from seriatim.pipeline.declared.pipeline import Deliver, Destination, Pipeline, Receive, Source, Split
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.receive.stage import arrival, receive

CODE = """
def read(body):
    segments = dict(line.split("|", 1) for line in body.decode().splitlines())
    return {"patient": segments["PID"].split("|")[2], "control": segments["MSH"].split("|")[8]}
"""


def pipeline(folder, *received):
    route = (Destination(Queue("all", Unordered()), Deliver("json", folder / "out")),)
    source_file = folder / "pipeline.yaml"
    return Pipeline(name="p", checkpoint=folder / "checkpoint", receive=received, route=route, source_file=source_file)


def rows(spark, folder, *received):
    declared = pipeline(folder, *received)
    frame = receive(spark, declared, static=True)
    return [row.asDict() for row in frame.orderBy(*arrival(declared)).collect()]


def streamed(spark, folder, *received, batches=None):
    """What a stream gives, batch after batch in order of arrival: all of it, or so many batches."""
    declared = pipeline(folder, *received)
    found = []

    def take(frame, _):
        if not frame.isEmpty():
            found.append([row.asDict() for row in frame.orderBy(*arrival(declared)).collect()])

    writer = receive(spark, declared).writeStream.foreachBatch(take)
    writer = writer.trigger(availableNow=True) if batches is None else writer.trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(folder / "c")).start()
    deadline = time.monotonic() + 240
    try:
        while query.isActive and (batches is None or len(found) < batches) and time.monotonic() < deadline:
            query.awaitTermination(1)
    finally:
        query.stop()
    return found


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "inbox"
    folder.mkdir()
    return folder


def test_text_is_read_by_a_function_of_the_users(spark, inbox, tmp_path):
    (tmp_path / "receive_sources_hl7.py").write_text(CODE)
    message = b"MSH|^~\\&|LAB|X|Y|Z|20240501||ORU^R01|17|P|2.5\rPID|1|x|p-9|caf\xc3\xa9\r"
    (inbox / "a.hl7").write_bytes(message)
    (inbox / "b.hl7").write_bytes(b"MSH|broken\r")
    (inbox / "c.hl7").write_bytes(b"")
    promote = (Promotion("patient", "patient"), Promotion("control", "control"))
    source = Source("text", inbox, {"wholetext": "true"})
    entry = Receive("lab", source, promote, function="receive_sources_hl7:read")
    good, bad = rows(spark, tmp_path, entry)
    assert (good["message_id"], good["patient"], good["control"]) == ("lab/a.hl7:1", "p-9", "17")
    assert bytes(good["body"]) == message
    assert bad["_invalid"] == "b.hl7:1: receive_sources_hl7:read: KeyError: 'PID'"


def test_text_may_be_lines_that_nobody_looks_into(spark, inbox, tmp_path):
    (inbox / "a.txt").write_bytes(b"one\r\n\ntw\xff\n")
    found = rows(spark, tmp_path, Receive("log", Source("text", inbox)))
    assert [(row["message_id"], bytes(row["body"]), row["_invalid"]) for row in found] == [
        ("log/a.txt:1", b"one", None),
        ("log/a.txt:3", b"tw\xff", None),
    ]


def test_xml_files_are_documents_and_one_that_is_broken_stops_nothing(spark, inbox, tmp_path):
    document = '<?xml version="1.0" encoding="ISO-8859-1"?>\n<order id="{}">\n<name>caf\u00e9</name></order>\n'
    (inbox / "a.xml").write_bytes(document.format(1).encode("latin-1"))
    (inbox / "b.xml").write_bytes(document.format(2).encode("latin-1")[:70])
    (inbox / "c.xml.gz").write_bytes(gzip.compress(document.format(3).encode("latin-1")))
    (inbox / "d.xml").write_bytes(b"")
    (inbox / "e.xml").write_bytes(b'<order id="5"><name>' + b"x" * 50_000_000 + b"</name></order>")
    promote = (Promotion("id", "/order/@id", "long"), Promotion("name", "/order/name"))
    frame = receive(spark, pipeline(tmp_path, Receive("crm", Source("xml", inbox), promote)), static=True)
    found = frame.selectExpr("message_id", "id", "length(name)", "_invalid").orderBy("message_id").collect()
    assert [tuple(row)[:3] for row in found] == [
        ("crm/a.xml:1", 1, 4),
        ("crm/b.xml:1", None, None),
        ("crm/c.xml.gz:1", 3, 4),
        ("crm/e.xml:1", 5, 50_000_000),
    ]
    reasons = [row["_invalid"] for row in found]
    assert reasons[0] is reasons[2] is reasons[3] is None
    assert reasons[1].startswith("b.xml:1: not XML: ")


def test_an_xml_document_a_line(spark, inbox, tmp_path):
    (inbox / "a.xml").write_text('<o:a xmlns:o="urn:o">1</o:a>\n<a>2\n<o:a xmlns:o="urn:o">3</o:a>\n')
    source = Source("xml", inbox, {"multiline": "false"})
    entry = Receive("crm", source, (Promotion("n", "/x:a", "long"),), namespaces={"x": "urn:o"})
    found = rows(spark, tmp_path, entry)
    assert [row["n"] for row in found] == [1, None, 3]
    assert found[1]["_invalid"].startswith("a.xml:2: not XML: ")


def test_parts_come_in_order_and_whole_messages_beside_them(spark, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (one / "a.json").write_text(json.dumps({"id": "A", "lines": [{"n": n} for n in range(12)]}) + '\n{"id": "B"}\n')
    (two / "b.json").write_text('{"n": 5}\n')
    promote = (Promotion("n", "$.n", "long"), Promotion("order", "$.id", envelope=True))
    split = Receive("desk", Source("json", one), promote, split=Split("$.lines"))
    found = rows(spark, tmp_path, split, Receive("shop", Source("json", two), promote[:1]))
    assert len({row["message_id"] for row in found}) == 14
    parts = [row for row in found if row["part"] is not None]
    assert [(row["part"], row["n"]) for row in parts] == [(n + 1, n) for n in range(12)]
    assert {(row["parent_id"], row["parts"], row["order"]) for row in parts} == {("desk/a.json:1", 12, "A")}
    whole = {row["message_id"]: row for row in found if row["part"] is None}
    assert whole["desk/a.json:2"]["_invalid"] == "a.json:2: split: there is no list at $.lines"
    assert (whole["shop/b.json:1"]["n"], whole["shop/b.json:1"]["parts"]) == (5, None)


def test_a_stream_of_parts_is_what_a_static_frame_is(spark, inbox, tmp_path):
    (inbox / "a.json").write_text('{"lines": [{"n": 1}, {"n": "x"}]}\nnope\n')
    entry = Receive("desk", Source("json", inbox), (Promotion("n", "$.n", "long"),), split=Split("$.lines"))
    (found,) = streamed(spark, tmp_path, entry)
    assert [row["message_id"] for row in found] == ["desk/a.json:1.1", "desk/a.json:1.2", "desk/a.json:2"]
    assert found == rows(spark, tmp_path, entry)


def test_parquet_rows_are_taken_apart(spark, inbox, tmp_path):
    table = pa.table({"id": ["A", "B"], "lines": [[{"n": 1}, {"n": 2}], None]})
    pq.write_table(table, inbox / "a.parquet")
    promote = (Promotion("id", "id"), Promotion("n", "$.n", "long"))
    entry = Receive("desk", Source("parquet", inbox), promote, split=Split("$.lines"))
    one, two, none = rows(spark, tmp_path, entry)
    assert [(row["message_id"], row["id"], row["n"]) for row in (one, two)] == [
        ("desk/a.parquet:1.1", "A", 1),
        ("desk/a.parquet:1.2", "A", 2),
    ]
    assert none["_invalid"] == "a.parquet:2: split: there is no list at $.lines"


EVENTS = pa.table(
    {
        "topic": ["t", "t", "t", "a:b", None, "t"],
        "offset": pa.array([10, 9, 11, 1, 5, 12], pa.int64()),
        "key": ["k1", "k1", "k2", "k3", "k4", "k5"],
        "value": ['{"n": 2}', '{"n": 1}', "nope", '{"n": 3}', '{"n": 4}', None],
    }
)


def events(inbox, **changes):
    source = {"id": ("topic", "offset"), "body": "value", **changes}
    return Receive("bus", Source("orc", inbox, **source), (Promotion("key", "key"), Promotion("n", "$.n", "long")))


def test_any_source_of_sparks_with_columns_that_name_a_row(spark, inbox, tmp_path):
    orc.write_table(EVENTS, inbox / "a.orc")
    found = rows(spark, tmp_path, events(inbox))
    assert [(row["message_id"], row["key"], row["n"], row["_invalid"]) for row in found] == [
        ("bus/null:5", "k4", 4, "null:5: topic, which names the row, is null"),
        ("bus/a%3Ab:1", "k3", 3, None),
        ("bus/t:9", "k1", 1, None),
        ("bus/t:10", "k1", 2, None),
        ("bus/t:11", "k2", None, "t:11: not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("bus/t:12", "k5", None, None),
    ]
    assert bytes(found[2]["body"]) == b'{"n": 1}'
    assert found[5]["body"] is None
    assert {row["received_at"] for row in found} == {None}


def test_a_property_may_be_in_the_body_or_in_a_column_or_in_the_json_of_one(spark, inbox, tmp_path):
    at = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
    table = pa.table(
        {
            "offset": pa.array([0, 1, 2, 3, 4, None], pa.int64()),
            "key": pa.array([b'{"id": 7}', b'{"id": 7}', b'{"id": 7}', b"7", None, b'{"id": 9}'], pa.binary()),
            "at": pa.array([at] * 6, pa.timestamp("us", "UTC")),
            "value": ['{"id": 1, "at": "2024-05-02"}', '{"id": null}', None, "nope", "{}", '{"id": 5, "n": "x"}'],
        }
    )
    orc.write_table(table, inbox / "a.orc")
    promote = (
        Promotion("id", ("$.id", "key:$.id", "offset"), "long"),
        Promotion("at", ("$.at", "at"), "timestamp"),
        Promotion("n", "$.n", "long"),
        Promotion("offset", "offset", "long"),
    )
    found = rows(spark, tmp_path, Receive("bus", Source("orc", inbox, id=("offset",), body="value"), promote))
    assert [(row["id"], row["at"].day, row["n"], row["offset"]) for row in found] == [
        (5, 1, None, None),
        (1, 2, None, 0),
        (7, 1, None, 1),
        (7, 1, None, 2),
        (3, 1, None, 3),
        (4, 1, None, 4),
    ]
    assert [row["_invalid"] for row in found] == [
        "null: offset, which names the row, is null; n: 'x' is not a long",
        *(None, None, None, "3: not JSON: Expecting value: line 1 column 1 (char 0)", None),
    ]
    wrong = Receive("bus", Source("orc", inbox, id=("offset",)), (Promotion("id", ("$.id", "kye")),))
    with pytest.raises(UsageError, match="there is no column 'kye'"):
        rows(spark, tmp_path, wrong)


def test_text_that_is_not_utf8_makes_its_row_invalid_and_stops_nothing(spark, inbox, tmp_path):
    good, bad = b'{"customer":"a"}', b'{"customer":"caf\xe9"}'
    texts = {
        "id": [b"1", b"2", b"3", b"caf\xe9"],
        "payload": [good, bad, good, good],
        "amount": [b"7", b"8", b"\xe9", b"9"],
    }
    table = {name: pa.array(column, pa.binary()).view(pa.string()) for name, column in texts.items()}
    orc.write_table(pa.table({**table, "value": ['{"n": 1}'] * 4}), inbox / "a.orc")
    promote = (
        Promotion("customer", "payload:$.customer"),
        Promotion("n", "$.n", "long"),
        Promotion("amount", "amount", "long"),
        Promotion("text", "amount"),
    )
    found = rows(spark, tmp_path, Receive("bus", Source("orc", inbox, id=("id",), body="value"), promote))
    assert {row["message_id"]: (row["customer"], row["n"], row["amount"], row["text"]) for row in found} == {
        "bus/1": ("a", 1, 7, "7"),
        "bus/2": (None, 1, 8, "8"),
        "bus/3": ("a", 1, None, None),
        "bus/636166E9": ("a", 1, 9, "9"),
    }
    assert {row["message_id"]: row["_invalid"] for row in found} == {
        "bus/1": None,
        "bus/2": "2: customer: the column payload is not UTF-8 at byte 16",
        "bus/3": "3: amount: \ufffd is not a long; text: \ufffd is not a string",
        "bus/636166E9": "636166E9: id, which names the row, is not UTF-8",
    }


def test_an_envelope_in_columns_of_parquet(spark, inbox, tmp_path):
    source = {"lsn": 7, "table": "orders", "snapshot": "false"}
    columns = {"op": ["d", "c"], "before": [{"id": 1}, None], "after": [None, {"id": 2}], "source": [source, source]}
    pq.write_table(pa.table(columns), inbox / "a.parquet")
    told = ENVELOPES["debezium"].promotions("debezium")
    promote = (*told, Promotion("row", ("$.after.id", "$.before.id"), "long"))
    found = rows(spark, tmp_path, Receive("log", Source("parquet", inbox), promote, envelope="debezium"))
    assert [(row["op"], row["row"], row["table"], row["position"], row["_invalid"]) for row in found] == [
        ("delete", 1, "orders", 7, None),
        ("insert", 2, "orders", 7, None),
    ]


def test_a_row_without_a_body_column_is_a_body_as_json(spark, inbox, tmp_path):
    orc.write_table(EVENTS.slice(0, 2), inbox / "a.orc")
    entry = Receive("bus", Source("orc", inbox, id=("key", "topic", "offset")), (Promotion("at", "$.offset", "long"),))
    found = rows(spark, tmp_path, entry)
    assert [(row["message_id"], row["at"]) for row in found] == [("bus/k1:t:9", 9), ("bus/k1:t:10", 10)]
    assert json.loads(bytes(found[0]["body"])) == {"topic": "t", "offset": 9, "key": "k1", "value": '{"n": 1}'}


@pytest.mark.telling
def test_other_sources_as_streams(spark, inbox, tmp_path):
    orc.write_table(EVENTS.slice(0, 3), inbox / "a.orc")
    (found,) = streamed(spark, tmp_path, events(inbox))
    assert found == rows(spark, tmp_path, events(inbox))
    options = {"rowsPerBatch": "4", "numPartitions": "2", "startTimestamp": "0"}
    ticks = Receive(
        "clock",
        Source("rate-micro-batch", None, options, id=("value",)),
        (Promotion("at", "timestamp", "timestamp"), Promotion("value", "value", "long")),
    )
    one, two = streamed(spark, tmp_path / "ticks", ticks, batches=2)[:2]
    assert [row["value"] for row in (*one, *two)] == list(range(8))
    assert one[3]["message_id"] == "clock/3"
    assert all(row["at"] is not None for row in one)


@pytest.mark.parametrize("kind", ["string", "long", "binary", "boolean", "date", "timestamp"])
def test_ids_of_every_type_sort_as_their_values_do(spark, inbox, tmp_path, kind):
    texts = ["", "\0", "\0a", "a", "a\0", "a/", "a:", "a;", "aa", "b", "\u00e9"]
    values = {
        "string": (pa.string(), texts),
        "binary": (pa.binary(), [b"\0", b"\0\0", b"\x01", b"\xff"]),
        "long": (pa.int64(), [-(2**63), -10, -9, 0, 9, 10, 2**63 - 1]),
        "boolean": (pa.bool_(), [False, True]),
        "date": (pa.date32(), [-100_000, -1, 0, 1]),
        "timestamp": (pa.timestamp("us", "UTC"), [-(10**6), 0, 1, 10**15]),
    }
    arrow, ordered = values[kind]
    column = pa.array([value for value in ordered for _ in range(2)], arrow)
    numbers = pa.array([n % 2 for n in range(len(column))], pa.int32())
    order = pa.array(range(len(column)))
    table = pa.table({"id": column, "n": numbers, "order": order}).take(pa.array(reversed(range(len(column)))))
    orc.write_table(table, inbox / "a.orc")
    for ids in (("id", "n"), ("n", "id")):
        entry = Receive("bus", Source("orc", inbox, id=ids), (Promotion("order", "order", "long"),))
        found = [row["order"] for row in rows(spark, tmp_path, entry)]
        assert found == sorted(range(len(column)), key=lambda n: n if ids[0] == "id" else (n % 2, n))


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (Source("kafkax", id=("a",)), "Spark can't open the format 'kafkax': .*DATA_SOURCE_NOT_FOUND"),
        (Source("rate", id=("nix",)), "there is no column 'nix' .*one of timestamp, value"),
        (Source("rate", id=("value",), body="value"), "value is a bigint, and a body is text or binary"),
        (Source("rate", id=("value",), options={"rowsPerSecond": "x"}), "Spark can't open the format 'rate'"),
        (Source("orc", Path("no/such/folder"), id=("a",)), "the input folder .* does not exist"),
    ],
)
def test_a_source_that_cannot_be_opened(spark, tmp_path, source, told):
    with pytest.raises(UsageError, match=told) as caught:
        receive(spark, pipeline(tmp_path, Receive("bus", source)))
    assert "\n" not in str(caught.value)


def test_a_body_has_json_paths_or_xpath(spark, inbox, tmp_path):
    orc.write_table(EVENTS, inbox / "a.orc")
    entry = Receive(
        "bus", Source("orc", inbox, id=("offset",), body="value"), (Promotion("a", "$.a"), Promotion("b", "/b"))
    )
    with pytest.raises(UsageError, match="JSON paths and XPath can't be combined"):
        rows(spark, tmp_path, entry)
