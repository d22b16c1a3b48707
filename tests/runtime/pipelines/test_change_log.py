"""Change logs through a pipeline: deletes, tombstones and rows of snapshots, each where it belongs, none lost."""

from __future__ import annotations

import json
from collections import defaultdict

import pyarrow as pa
import pytest
from pyarrow import orc

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside

pytestmark = pytest.mark.usefixtures("spark")

# The same database in four logs, and events beside them: all in one stream.
FILE = """
name: changes
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: kafka
    source: {{format: orc, path: {folder}/kafka, id: [topic, offset], body: value}}
    promote: {{envelope: debezium, row: {{path: [$.after.id, $.before.id, "key:$.id"], type: long}}, offset: {{path: offset, type: long}}}}
  - location: files
    source: {{format: json, path: {folder}/files}}
    promote: {{envelope: debezium, row: {{path: [$.value.after.id, $.value.before.id, $.key.id], type: long}}, total: {{path: [$.value.after.total], type: 'decimal(9,2)'}}}}
  - location: canal
    source: {{format: json, path: {folder}/canal}}
    split: {{path: $.data, otherwise: whole}}
    promote: {{envelope: canal, row: {{path: $.row_id, type: long}}}}
  - location: maxwell
    source: {{format: json, path: {folder}/maxwell}}
    promote: {{envelope: maxwell, row: {{path: $.data.id, type: long}}}}
  - location: events
    source: {{format: json, path: {folder}/events}}
    promote: {{envelope: cloudevents, row: {{path: $.data.id, type: long}}}}
route:
  - to: rows
    where: "location = 'kafka' AND op <> 'tombstone'"
    resequence: {{policy: best_effort, group: row, sequence: position}}
    deliver: {{format: json, path: {folder}/out/rows}}
  - to: tombstones
    where: "op = 'tombstone'"
    resequence: {{policy: fifo, group: row}}
    deliver: drop
  - to: deleted
    where: "op = 'delete'"
    resequence: {{policy: fifo, group: row}}
    deliver: {{format: parquet, path: {folder}/out/deleted}}
  - to: upserted
    where: "op IN ('insert', 'update', 'read', 'event') AND location <> 'kafka'"
    resequence: {{policy: fifo, group: row}}
    deliver: {{format: json, path: {folder}/out/upserted}}
  - to: noise
    where: "op IN ('schema', 'marker')"
    deliver: drop
"""


def debezium(op, row, lsn, snapshot="false", **after):
    image = {"id": row, **after}
    return {
        "op": op,
        "before": image if op == "d" else None,
        "after": None if op == "d" else image,
        "source": {"db": "shop", "schema": "public", "table": "orders", "lsn": lsn, "ts_ms": lsn, "snapshot": snapshot},
    }


def topic(folder, *records):
    """Records of (key, value) as a table of Kafka's; a value of None is none."""
    keys, values = zip(*records, strict=True)
    columns = {
        "topic": pa.array(["orders"] * len(records)),
        "offset": pa.array(range(len(records)), pa.int64()),
        "key": pa.array([json.dumps(key) for key in keys]),
        "value": pa.array(
            [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
        ),
    }
    orc.write_table(pa.table(columns), folder / "0.orc")


def lines(folder, *documents):
    (folder / "0.json").write_text("".join(f"{json.dumps(one)}\n" for one in documents))


@pytest.fixture(scope="module")
def outcome(spark, tmp_path_factory):
    """One run over all logs: its summary, what lies where, and the folder."""
    folder = tmp_path_factory.mktemp("changes")
    for name in ("kafka", "files", "canal", "maxwell", "events"):
        (folder / name).mkdir()
    topic(
        folder / "kafka",
        ({"id": 1}, debezium("d", 1, 40)),
        ({"id": 1}, None),
        ({"id": 1}, debezium("r", 1, 10, "first", total=1)),
        ({"id": 2}, debezium("r", 2, 10, "last")),
        ({"id": 2}, {"schema": {}, "payload": debezium("u", 2, 30)}),
        ({"id": 1}, debezium("u", 1, 20)),
        ({"id": 2}, ""),
        ({"id": 3}, {"op": "z", "after": {"id": 3}, "source": {"lsn": 5}}),
        ({"id": 4}, "no JSON"),
    )
    lines(
        folder / "files",
        {"key": {"id": 5}, "value": debezium("c", 5, 1, total=7)},
        {"key": {"id": 5}, "value": debezium("d", 5, 2)},
        {"key": {"id": 5}, "value": None},
        {"key": {"id": 6}, "value": debezium("c", 6, 3, total="much")},
        {"ts_ms": 5},
        None,
    )
    lines(
        folder / "canal",
        {"type": "INSERT", "database": "d", "table": "t", "es": 1, "id": 1, "data": [{"row_id": "7"}, {"row_id": "8"}]},
        {"type": "DELETE", "database": "d", "table": "t", "es": 2, "id": 2, "data": [{"row_id": "7"}]},
        {"type": "ALTER", "database": "d", "table": "t", "es": 3, "id": 3, "isDdl": True, "data": None},
    )
    lines(
        folder / "maxwell",
        {"type": "bootstrap-start", "database": "d", "table": "t", "ts": 1, "data": {}},
        {"type": "bootstrap-insert", "database": "d", "table": "t", "ts": 1, "data": {"id": 9}},
        {"type": "delete", "database": "d", "table": "t", "ts": 2, "position": "m.000001:7", "data": {"id": 9}},
        {"type": "table-alter", "database": "d", "table": "t", "ts": 3, "def": {}},
    )
    lines(folder / "events", {"specversion": "1.0", "id": "e1", "source": "/s", "type": "paid", "data": {"id": 10}})
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(folder=folder))
    return run(load(file), once=True), folder


def rows_of(folder, name):
    """Per group the rows that were delivered."""
    found = defaultdict(list)
    for part in sorted((folder / "out" / name).glob("batch=*/part-*")):
        for row in map(json.loads, part.read_text().splitlines()):
            found[row["group"]].append(row)
    return found


def test_changes_leave_by_position_whatever_the_order_of_arrival(outcome):
    rows = rows_of(outcome[1], "rows")
    assert {group: [(row["op"], row["snapshot"], row["position"]) for row in some] for group, some in rows.items()} == {
        "1": [("read", True, 10), ("update", False, 20), ("delete", False, 40)],
        "2": [("read", True, 10), ("update", False, 30)],
    }
    assert {(row["database"], row["schema"], row["table"]) for some in rows.values() for row in some} == {
        ("shop", "public", "orders")
    }
    assert rows["1"][2]["happened_at"] == "1970-01-01T00:00:00.040000Z"


def test_deletes_are_in_the_group_of_their_row(outcome):
    table = pa.concat_tables(
        pa.parquet.read_table(part, partitioning=None)
        for part in (outcome[1] / "out" / "deleted").glob("batch=*/part-*")
    )
    found = sorted((row["location"], row["group"], row["table"]) for row in table.to_pylist())
    assert found == [*(("canal", "7", "t"), ("files", "5", "orders"), ("kafka", "1", "orders"), ("maxwell", "9", "t"))]
    assert {
        (group, row["op"], row["snapshot"]) for group, rows in rows_of(outcome[1], "upserted").items() for row in rows
    } == {
        *(("5", "insert", False), ("7", "insert", False), ("8", "insert", False), ("9", "read", True)),
        ("10", "event", False),
    }


def test_what_is_known_and_not_wanted_is_dropped_and_counted_as_released(outcome):
    summary, folder = outcome
    accounts = {one.destination: one for one in summary.accounts}
    # Three with the keys of their rows; the line that is null has none, so that one can't be put in order.
    assert (accounts["tombstones"].arrived, accounts["tombstones"].released, accounts["tombstones"].invalid) == (
        4,
        3,
        1,
    )
    assert (accounts["noise"].arrived, accounts["noise"].released) == (4, 4)
    assert not any(one.missing for one in summary.accounts)
    assert summary.waiting == ()
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["deleted", "rows", "upserted"]
    tally = json.loads((folder / "checkpoint" / "tally.json").read_text())
    assert tally["standing"]["counts"]["noise"] == {"released": 4}


def test_what_is_wrong_is_set_aside_with_all_else_that_is_known_of_it(outcome):
    summary, folder = outcome
    aside = {one.message_id: one for one in read_set_aside(folder / "checkpoint" / "set-aside")}
    told = {name: (one.destination, one.group, one.reason.partition(": ")[2]) for name, one in aside.items()}
    assert told == {
        "kafka/orders:7": (None, None, "op: 'z' is no operation of Debezium's"),
        "kafka/orders:8": (None, None, "not JSON: Expecting value: line 1 column 1 (char 0)"),
        "files/0.json:4": ("upserted", "6", "total: 'much' is not a number"),
        "files/0.json:6": ("tombstones", None, ""),
    }
    assert aside["files/0.json:6"].reason == "the group key is missing"
    assert (aside["kafka/orders:7"].fields["row"], aside["kafka/orders:7"].fields["position"]) == (3, 5)
    assert (aside["kafka/orders:8"].fields["row"], aside["kafka/orders:8"].fields["offset"]) == (4, 8)
    assert (aside["files/0.json:4"].fields["op"], aside["files/0.json:4"].fields["total"]) == ("insert", None)
    assert summary.invalid == 4


MOVED = """
name: moved
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: maxwell
    source: {{format: json, path: {folder}/maxwell}}
    promote: {{envelope: maxwell, row: $.data.id, shop: $.data.shop}}
  - location: canal
    source: {{format: json, path: {folder}/canal}}
    split: {{path: $.data, otherwise: whole}}
    promote: {{envelope: canal, row: $.id, shop: $.shop}}
  - location: list
    source: {{format: json, path: {folder}/list}}
    split: $
    promote: {{envelope: maxwell, row: $.data.id, shop: $.data.shop}}
  - location: wal2json
    source: {{format: json, path: {folder}/wal2json}}
    promote: {{envelope: wal2json, row: ["$.columns[0].value", "$.identity[0].value"], shop: ["$.columns[1].value"]}}
  - location: kafka
    source: {{format: orc, path: {folder}/kafka, id: [topic, offset], body: value}}
    stamp: {{order_by: [offset]}}
    promote: {{envelope: debezium, row: [$.after.id, $.before.id], shop: [$.after.shop, $.before.shop], offset: {{path: offset, type: long}}}}
route:
  - to: rows
    where: "op <> 'marker'"
    resequence: {{policy: fifo, group: row}}
    deliver: {{format: json, path: {folder}/out/rows}}
  - to: shops
    where: "op <> 'marker' AND location = 'maxwell'"
    resequence: {{policy: fifo, group: shop}}
    deliver: {{format: json, path: {folder}/out/shops}}
  - to: not-wanted
    where: "op = 'marker'"
    deliver: drop
"""


def wal2json(action, *, columns=None, identity=None):
    known = {"columns": columns, "identity": identity}
    told = {name: [{"name": "id", "type": "integer", "value": value}] for name, value in known.items() if value}
    return {"action": action, "schema": "public", "table": "t", **told}


def test_an_update_that_changes_the_key_is_a_delete_of_the_old_row_and_an_insert_of_the_new_one(spark, tmp_path):
    for name in ("maxwell", "canal", "list", "wal2json", "kafka"):
        (tmp_path / name).mkdir()
    maxwell = {"database": "d", "table": "t", "ts": 1}
    changes = [
        {**maxwell, "type": "insert", "data": {"id": "m1", "shop": "a", "price": 1.50}},
        {**maxwell, "type": "update", "data": {"id": "m1", "shop": "a", "price": 2}, "old": {"price": 1.50}},
        {**maxwell, "type": "update", "data": {"id": "m2", "shop": "a", "price": 2}, "old": {"id": "m1"}},
        {**maxwell, "type": "update", "data": {"id": "m2", "shop": "b", "price": 2}, "old": {"shop": "a"}},
        {**maxwell, "type": "insert", "data": {"id": "m1", "shop": "a", "price": 3}},
    ]
    lines(tmp_path / "maxwell", *changes)
    (tmp_path / "list" / "0.json").write_text(json.dumps([{**one, "data": one["data"] | {"id": one["data"]["id"] + "l"},
        **({"old": one["old"] | {"id": one["old"]["id"] + "l"}} if "id" in one.get("old", {}) else {})} for one in changes[:3]]))  # fmt: skip
    canal = {"database": "d", "table": "t", "es": 1, "pkNames": ["id"]}
    lines(
        tmp_path / "canal",
        {**canal, "type": "INSERT", "data": [{"id": "c1"}, {"id": "c2"}, {"id": "c3"}], "old": None},
        {
            **canal,
            "type": "UPDATE",
            "data": [{"id": "c9"}, {"id": "c2", "n": 1}, {"id": "c1"}],
            "old": [{"id": "c1"}, {"n": 0}, {"id": "c3"}],
        },
    )
    lines(
        tmp_path / "wal2json",
        {"action": "B"},
        wal2json("I", columns="w1"),
        wal2json("U", columns="w1", identity="w1"),
        wal2json("U", columns="w2", identity="w1"),
        {"action": "C"},
    )
    moved = debezium("u", "k2", 20) | {"before": {"id": "k1"}}
    topic(tmp_path / "kafka", ({"id": 1}, debezium("c", "k1", 10)), ({"id": 1}, {"schema": {}, "payload": moved}))
    file = tmp_path / "pipeline.yaml"
    file.write_text(MOVED.format(folder=tmp_path).replace("$.after.id, $.before.id", "$.after.id, $.before.id, $.payload.after.id, $.payload.before.id"))  # fmt: skip
    summary = run(load(file), once=True)
    assert summary.invalid == 0
    rows = {group: [row["op"] for row in some] for group, some in rows_of(tmp_path, "rows").items()}
    assert rows == {
        "m1": ["insert", "update", "delete", "insert"],
        "m2": ["insert", "delete", "insert"],
        "m1l": ["insert", "update", "delete"],
        "m2l": ["insert"],
        "c1": ["insert", "delete", "insert"],
        "c2": ["insert", "update"],
        "c3": ["insert", "delete"],
        "c9": ["insert"],
        "w1": ["insert", "update", "delete"],
        "w2": ["insert"],
        "k1": ["insert", "delete"],
        "k2": ["insert"],
    }
    shops = {group: [(row["op"], row["row"]) for row in some] for group, some in rows_of(tmp_path, "shops").items()}
    assert shops == {
        "a": [
            ("insert", "m1"),
            ("update", "m1"),
            ("delete", "m1"),
            ("insert", "m2"),
            ("delete", "m2"),
            ("insert", "m1"),
        ],
        "b": [("insert", "m2")],
    }
    left, came = (rows_of(tmp_path, "rows")[group][place] for group, place in (("m1", 2), ("m2", 0)))
    assert json.loads(left["body"]) == {**maxwell, "type": "delete", "data": {"id": "m1", "shop": "a", "price": 2}}
    assert json.loads(came["body"]) == {**maxwell, "type": "insert", "data": {"id": "m2", "shop": "a", "price": 2}}
    assert [(one["message_id"], one["parent_id"], one["part"], one["parts"]) for one in (left, came)] == [
        (f"maxwell/0.json:3.{part}", "maxwell/0.json:3", part, 2) for part in (1, 2)
    ]
