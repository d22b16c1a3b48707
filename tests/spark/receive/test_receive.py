"""Every format and every bad input: rows become messages, or invalid with file, line and reason."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seriatim import Queue, Unordered
from seriatim.errors import UsageError
from seriatim.pipeline.declared.pipeline import Deliver, Destination, Pipeline, Receive, Source
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.receive.stage import ARRIVAL, receive

ORDER = (
    Promotion("customer_id", "$.customer.id"),
    Promotion("version", "$.version", "long"),
    Promotion("total", "$.total", "decimal(12,2)"),
)
FLAT = (Promotion("customer_id", "customer"), Promotion("version", "version", "long"))


def pipeline(folder, *received):
    route = (Destination(Queue("all", Unordered()), Deliver("json", folder / "out")),)
    return Pipeline(name="p", checkpoint=folder / "checkpoint", receive=received, route=route)


def rows(spark, folder, *received):
    frame = receive(spark, pipeline(folder, *received), static=True)
    return [row.asDict() for row in frame.orderBy(*ARRIVAL).collect()]


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "in box+"
    folder.mkdir()
    return folder


def location(inbox, kind="json", promote=ORDER, name="crm", schema=None, **options):
    return Receive(name, Source(kind, inbox, options, schema), promote)


def test_json_lines(spark, inbox, tmp_path):
    line = '{"customer": {"id": "c1"}, "version": 3, "total": 12.5}'
    (inbox / "a b+ü.json").write_text(f"{line}\n\n{{}}\r\n")
    first, second = rows(spark, tmp_path, location(inbox))
    assert first["message_id"] == "crm/a b+ü.json:1"
    assert first["location"] == "crm"
    assert first["type"] is None
    assert bytes(first["body"]) == line.encode()
    assert (first["customer_id"], first["version"], first["total"]) == ("c1", 3, Decimal("12.50"))
    assert first["_invalid"] is None
    assert second["message_id"] == "crm/a b+ü.json:3"
    assert bytes(second["body"]) == b"{}"
    assert (second["customer_id"], second["version"], second["_invalid"]) == (None, None, None)


BAD_JSON = [
    (b"nope", "not JSON: Expecting value: line 1 column 1 (char 0)"),
    (b'{"version": 1', "not JSON: Expecting ',' delimiter: line 1 column 14 (char 13)"),
    (b'{"customer": {"id": "\xff"}}', "not UTF-8 at byte 21"),
    (b'{"version": 3.7}', "version: 3.7 is not a long"),
    (b'{"version": "x"}', "version: 'x' is not a long"),
    (b'{"version": true}', "version: true is not a long"),
    (b'{"version": {}}', "version: an object is not a long"),
    (b'{"version": 9223372036854775808}', "version: 9223372036854775808 is beyond the range of a long"),
    (b'{"customer": {"id": ["c"]}}', "customer_id: a list is not a string"),
    (b'{"customer": {"id": "\\ud800"}}', "customer_id: half a surrogate pair is no text"),
    (b'{"total": 1.999}', "total: 1.999 doesn't fit decimal(12,2)"),
    (b"[" * 100_000, "not JSON that can be read: nested too deeply"),
]
LONGS = [('"7"', 7), ("7.0", 7), ("-1", -1), ("7e2", 700), ("null", None)]


@pytest.fixture(scope="module")
def json_files(spark, tmp_path_factory):
    """The rows of many files, by file, of one frame: `bad-N.json`, `long-N.json`."""
    folder = tmp_path_factory.mktemp("json")
    for number, (line, _) in enumerate(BAD_JSON):
        in_the_middle(folder / f"in/bad-{number}.json", b'{"version": 1}\n', line, b'{"version": 3}\n')
    for number, (value, _) in enumerate(LONGS):
        in_the_middle(folder / f"in/long-{number}.json", b"", f'{{"version": {value}}}'.encode(), b"")
    return by_file(rows(spark, folder, location(folder / "in")))


def in_the_middle(file, before, line, after):
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(before + line + b"\n" + after)


def by_file(found):
    files = {}
    for row in found:
        files.setdefault(row["message_id"].removeprefix("crm/").rpartition(":")[0], []).append(row)
    return files


@pytest.mark.parametrize("number", range(len(BAD_JSON)))
def test_a_bad_json_row_is_invalid_and_stops_nothing(json_files, number):
    line, reason = BAD_JSON[number]
    before, bad, after = json_files[f"bad-{number}.json"]
    assert bad["_invalid"] == f"bad-{number}.json:2: {reason}"
    assert bytes(bad["body"]) == line
    assert bad["version"] is None
    assert [before["version"], after["version"]] == [1, 3]


@pytest.mark.parametrize("number", range(len(LONGS)))
def test_a_long_may_be_written_in_several_ways(json_files, number):
    (row,) = json_files[f"long-{number}.json"]
    assert (row["version"], row["_invalid"]) == (LONGS[number][1], None)


def test_the_types_of_properties(spark, inbox, tmp_path):
    promote = (
        Promotion("type", "$.kind"),
        Promotion("at", "$.at", "timestamp"),
        Promotion("share", "$.share", "double"),
        Promotion("paid", "$.paid", "boolean"),
        Promotion("second", "$['the lines'][1].n", "long"),
    )
    document = {
        "kind": "order",
        "at": "2024-05-01T12:00:00+02:00",
        "share": 0.5,
        "paid": True,
        "the lines": [0, {"n": 5}],
    }
    (inbox / "a.json").write_text(json.dumps(document))
    (row,) = rows(spark, tmp_path, location(inbox, promote=promote))
    assert row["type"] == "order"
    assert row["at"].astimezone(dt.UTC) == dt.datetime(2024, 5, 1, 10, tzinfo=dt.UTC)
    assert (row["share"], row["paid"], row["second"]) == (0.5, True, 5)


def test_a_body_of_50_mb(spark, inbox, tmp_path):
    (inbox / "a.json").write_text('{"version": 1, "pad": "' + "x" * 50_000_000 + '"}\n{"version": 2}\n')
    frame = receive(spark, pipeline(tmp_path, location(inbox)), static=True)
    found = frame.selectExpr("version", "length(body) AS size", "_invalid").orderBy("version").collect()
    assert [tuple(row) for row in found] == [(1, 50_000_025, None), (2, 14, None)]


def test_a_whole_file_as_one_message(spark, inbox, tmp_path):
    (inbox / "a.json").write_text('{\n  "version": 4\n}\n')
    (row,) = rows(spark, tmp_path, location(inbox, multiLine="true"))
    assert (row["version"], bytes(row["body"])) == (4, b'{\n  "version": 4\n}\n')


def test_compressed_files(spark, inbox, tmp_path):
    (inbox / "a.json.gz").write_bytes(gzip.compress(b'{"version": 1}\n'))
    (row,) = rows(spark, tmp_path, location(inbox))
    assert row["version"] == 1


def test_files_come_in_order_of_writing_then_of_name(spark, inbox, tmp_path):
    for name, written in [("z", 1), ("b", 2), ("a", 2)]:
        file = inbox / f"{name}.json"
        file.write_text('{"version": 1}\n{"version": 2}\n')
        os.utime(file, (written, written))
    found = rows(spark, tmp_path, location(inbox))
    ids = [row["message_id"].removeprefix("crm/") for row in found]
    assert ids == [f"{name}.json:{line}" for name in ("z", "a", "b") for line in (1, 2)]


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_files_that_are_cut_into_blocks(spark, inbox, tmp_path, kind):
    many = 4_000
    if kind == "json":
        lines = [json.dumps({"customer": "c", "version": n, "pad": "x" * (n % 90)}) for n in range(many)]
    else:
        lines = ["customer,version,pad", *[f"c,{n},{'x' * (n % 90)}" for n in range(many)]]
    (inbox / "a").write_text("\n".join(lines) + "\n")
    promote = FLAT if kind == "csv" else (Promotion("version", "$.version", "long"),)
    small = spark.newSession()
    for name in ("maxPartitionBytes", "openCostInBytes"):
        small.conf.set(f"spark.sql.files.{name}", "20000")
    found = rows(small, tmp_path, location(inbox, kind, promote))
    assert [row["version"] for row in found] == list(range(many))
    assert {row["_invalid"] for row in found} == {None}
    assert len({row["message_id"] for row in found}) == many
    assert len({row["message_id"].split(":")[0] for row in found}) > 5
    assert len({row["_position"] for row in found}) == many


def test_blocks_of_nothing_but_short_rows_have_increasing_positions(spark, inbox, tmp_path):
    (inbox / "a").write_text("\n" * 1000 + "1\n" * 1000)
    small = spark.newSession()
    for name in ("maxPartitionBytes", "openCostInBytes"):
        small.conf.set(f"spark.sql.files.{name}", "100")
    found = rows(small, tmp_path, location(inbox, promote=(Promotion("n", "$", "long"),)))
    assert [row["n"] for row in found] == [1] * 1000
    assert len({row["_position"] for row in found}) == 1000


def test_csv(spark, inbox, tmp_path):
    (inbox / "a.csv").write_bytes(b'\xef\xbb\xbfcustomer,version,note\n"c, ""1""",7,x\n,,\n')
    (inbox / "b.csv").write_text("note,version,customer\nx,8,c2\n")
    found = rows(spark, tmp_path, location(inbox, "csv", FLAT))
    assert [(row["message_id"], row["customer_id"], row["version"], bytes(row["body"])) for row in found] == [
        ("crm/a.csv:2", 'c, "1"', 7, b'"c, ""1""",7,x'),
        ("crm/a.csv:3", None, None, b",,"),
        ("crm/b.csv:2", "c2", 8, b"x,8,c2"),
    ]


BAD_CSV = [
    (b"c,1", "2 fields where the header has 3"),
    (b"c,1,2,3", "4 fields where the header has 3"),
    (b'"c,1,2', "not CSV: unexpected end of data"),
    (b'"c"d,1,2', "not CSV: ',' expected after '\"'"),
    (b"c,x,", "version: 'x' is not a long"),
    (b"\xff,1,", "not UTF-8 at byte 0"),
]


@pytest.fixture(scope="module")
def csv_files(spark, tmp_path_factory):
    """The rows of many files, by file, of one frame."""
    folder = tmp_path_factory.mktemp("csv")
    for number, (line, _) in enumerate(BAD_CSV):
        in_the_middle(folder / f"in/{number}.csv", b"customer,version,note\na,1,\n", line, b"b,2,\n")
    return by_file(rows(spark, folder, location(folder / "in", "csv", FLAT)))


@pytest.mark.parametrize("number", range(len(BAD_CSV)))
def test_a_bad_csv_row_is_invalid_and_stops_nothing(csv_files, number):
    line, reason = BAD_CSV[number]
    before, bad, after = csv_files[f"{number}.csv"]
    assert bad["_invalid"] == f"{number}.csv:3: {reason}"
    assert bytes(bad["body"]) == line
    assert [before["version"], after["version"]] == [1, 2]


def test_a_csv_file_with_another_header_is_invalid_alone(spark, inbox, tmp_path):
    (inbox / "a.csv").write_text("customer,version\na,1\n")
    (inbox / "b.csv").write_text("customer,number\na,1\n")
    (inbox / "c.csv").write_bytes(b"customer,\xff\na,1\n")
    found = rows(spark, tmp_path, location(inbox, "csv", FLAT))
    assert [row["_invalid"] for row in found] == [
        None,
        "b.csv:2: the header has no column version",
        "c.csv:2: the header can't be read: not UTF-8 at byte 9",
    ]


def test_csv_without_a_header_and_with_its_own_signs(spark, inbox, tmp_path):
    (inbox / "a.csv").write_text("'a;b';1\nc;2\n")
    one = location(inbox, "csv", FLAT, schema="customer string, version int", header="false", sep=";", quote="'")
    assert [(row["customer_id"], row["version"]) for row in rows(spark, tmp_path, one)] == [("a;b", 1), ("c", 2)]


def test_parquet(spark, inbox, tmp_path):
    table = pa.table({"customer": ["a", None], "version": pa.array([1.0, 2.5]), "extra": [b"\xff", None]})
    pq.write_table(table, inbox / "a+ b.parquet")
    first, second = rows(spark, tmp_path, location(inbox, "parquet", FLAT))
    assert (first["message_id"], first["customer_id"], first["version"]) == ("crm/a+ b.parquet:1", "a", 1)
    assert json.loads(bytes(first["body"])) == {"customer": "a", "version": 1.0, "extra": "/w=="}
    assert second["_invalid"] == "a+ b.parquet:2: version: 2.5 is not a long"
    assert second["version"] is None
    assert json.loads(bytes(second["body"]))["customer"] is None


def test_a_type_that_no_message_can_have_is_invalid(spark, inbox, tmp_path):
    pq.write_table(pa.table({"kind": ["a", "", "a\0b", None]}), inbox / "a.parquet")
    found = rows(spark, tmp_path, location(inbox, "parquet", (Promotion("type", "kind"),)))
    assert [(row["type"], row["_invalid"]) for row in found] == [
        ("a", None),
        (None, "a.parquet:2: type: '' can't be the type of a message"),
        (None, "a.parquet:3: type: 'a\\0b' can't be the type of a message"),
        (None, None),
    ]


def test_parquet_needs_a_file_or_a_schema(spark, inbox, tmp_path):
    with pytest.raises(UsageError, match=r"no Parquet file in .* tells the columns"):
        rows(spark, tmp_path, location(inbox, "parquet", FLAT))
    assert rows(spark, tmp_path, location(inbox, "parquet", FLAT, schema="customer string, version bigint")) == []


def test_several_locations_are_one_frame(spark, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
    (one / "a.json").write_text('{"version": 1}')
    (two / "a.csv").write_text("customer,at\nx,2020-01-01T00:00:00Z\n")
    promote = (Promotion("customer_id", "customer"), Promotion("at", "at", "timestamp"))
    found = rows(spark, tmp_path, location(one), location(two, "csv", promote, name="web"))
    by_location = {row["location"]: row for row in found}
    assert by_location["crm"]["at"] is None
    assert by_location["web"]["total"] is None
    assert by_location["web"]["message_id"] == "web/a.csv:2"


def test_a_stream_names_rows_as_a_static_frame_does(spark, inbox, tmp_path):
    (inbox / "a.json").write_text('{"version": 1}\nnope\n')
    stream = receive(spark, pipeline(tmp_path, location(inbox)))
    found = []
    query = (
        stream.writeStream.foreachBatch(lambda frame, _: found.extend(frame.orderBy(*ARRIVAL).collect()))
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "c"))
        .start()
    )
    query.awaitTermination()
    assert [row.asDict() for row in found] == rows(spark, tmp_path, location(inbox))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "orc"}, "location crm: the format 'orc' can't be received without the columns that name a row"),
        ({"kind": "text"}, "location crm: plain text has no paths"),
        ({"kind": "xml"}, r"'\$.customer.id' is not XPath"),
        ({"kind": "xml", "promote": (), "multiLine": "maybe"}, "multiline must be true or false"),
        ({"badOption": "1"}, "unknown option 'badOption' of json"),
        ({"kind": "csv", "sep": ";;"}, "sep must be one character"),
        ({"kind": "csv", "header": "maybe"}, "header must be true or false"),
        ({"kind": "csv", "header": "false"}, "CSV without a header needs a schema"),
        ({"kind": "parquet", "schema": "nonsense ("}, "the schema is not Spark DDL"),
        ({"kind": "parquet", "schema": "a string"}, "there is no column '\\$.customer.id'"),
        ({"promote": (Promotion("a", "$.*"),)}, "is not a path to one value"),
        ({"promote": (Promotion("a", "$.a", "money"),)}, "'money' is not a type of properties"),
    ],
)
def test_what_a_source_may_say(spark, inbox, tmp_path, change, message):
    with pytest.raises(UsageError, match=message):
        rows(spark, tmp_path, location(inbox, **change))


def test_a_folder_that_is_not_there(spark, tmp_path):
    missing = Receive("crm", Source("json", Path("no/such/folder")), ORDER)
    with pytest.raises(UsageError, match=r"location crm: the input folder .*no/such/folder does not exist"):
        rows(spark, tmp_path, missing)
