"""Envelopes: what Debezium, Canal, Maxwell, wal2json and CloudEvents write, and what is promoted from it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.moves import moves_of
from seriatim.pipeline.bodies.envelopes.registry import ENVELOPES, OPERATIONS, lookup_of
from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.declared.pipeline import Receive, Source, Split
from seriatim.pipeline.declared.promotion import Promotion
from tests.nested import can_be_read, nested_lists

MOMENT = datetime(2024, 5, 1, 12, tzinfo=UTC)
MILLIS = int(MOMENT.timestamp() * 1000)


def told(envelope, document):
    """What an envelope tells of a document, without what is null; and what is wrong."""
    promote = ENVELOPES[envelope].promotions(envelope)
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    values, problem = JsonPaths(promote, blank=True).reader()(body)
    found = {item.name: value for item, value in zip(promote, values, strict=True) if value is not None}
    assert found.get("op", "insert") in OPERATIONS
    return found if problem is None else (found, problem)


def postgresql(op, **changes):
    source = {
        "version": "2.7.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": MILLIS,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["24023119","24023128"]',
        "schema": "public",
        "table": "orders",
        "txId": 571,
        "lsn": 24_023_128,
        "xmin": None,
        **changes,
    }
    before, after = ({"id": 1} if op in "ud" else None), ({"id": 1} if op in "cru" else None)
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": MILLIS + 5, "transaction": None}


ORDERS = {"database": "shop", "schema": "public", "table": "orders", "happened_at": MOMENT}
PLACE = {"position": 24_023_128, "position_text": "24023128", "transaction": "571"}


@pytest.mark.parametrize(
    ("op", "word"),
    [("c", "insert"), ("u", "update"), ("d", "delete"), ("r", "read"), ("t", "truncate"), ("m", "message")],
)
def test_changes_of_debezium(op, word):
    wanted = {"op": word, "snapshot": op == "r", **ORDERS, **PLACE}
    change = postgresql(op)
    assert told("debezium", change) == wanted
    assert told("debezium", {"schema": {"type": "struct"}, "payload": change}) == wanted
    assert told("debezium", {"key": {"id": 1}, "value": change}) == wanted
    assert told("debezium", {"key": {"id": 1}, "value": {"schema": {}, "payload": change}}) == wanted


TOMBSTONE = {"op": "tombstone", "snapshot": False}


@pytest.mark.parametrize("envelope", sorted(ENVELOPES))
@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"  \n", b"null", b'{"key": {"id": 1}, "value": null}', b'{"schema": null, "payload": null}'),
        b'{"key": {"schema": {}, "payload": {"id": 1}}, "value": {"schema": null, "payload": null}}',
    ],
)
def test_nothing_is_a_tombstone(envelope, body):
    assert told(envelope, body) == TOMBSTONE


@pytest.mark.parametrize(
    ("said", "is_one"),
    [
        *((said, True) for said in ("true", "first", "first_in_data_collection", "last", "incremental", True)),
        *((said, False) for said in ("false", False, None)),
    ],
)
def test_rows_of_snapshots_of_debezium(said, is_one):
    assert told("debezium", postgresql("c", snapshot=said))["snapshot"] is is_one
    assert told("debezium", postgresql("r", snapshot=said))["snapshot"] is True


@pytest.mark.parametrize(
    ("source", "position", "text"),
    [
        ({"connector": "mysql", "file": "mysql-bin.000003", "pos": 154, "row": 2}, (3 << 32) + 154, "mysql-bin.000003:154"),
        ({"connector": "mysql", "file": "binlog.000003", "pos": 2**32}, None, "binlog.000003:4294967296"),
        ({"connector": "oracle", "scn": "2122185", "commit_scn": "2122186"}, 2_122_185, "2122185"),
        ({"connector": "sqlserver", "change_lsn": "00000027:00000758:0005", "commit_lsn": "00000027:00000758:0006"}, None, "00000027:00000758:0005"),
        ({"connector": "mongodb", "ts_ms": 1_558_965_508_000, "ord": 31}, (1_558_965_508 << 32) + 31, "1558965508000:31"),
        ({"connector": "postgresql", "lsn": 2**63}, None, str(2**63)),
        ({"connector": "vitess"}, None, None),
    ],
)  # fmt: skip
def test_positions_of_debezium(source, position, text):
    found = told("debezium", {"op": "u", "source": source, "after": {}})
    assert (found.get("position"), found.get("position_text")) == (position, text)
    assert (position is None) == ("position" not in found)


def test_what_debezium_tells_besides_changes():
    ddl = {
        "source": {"db": "shop"},
        "ts_ms": MILLIS,
        "databaseName": "shop",
        "ddl": "ALTER TABLE orders",
        "tableChanges": [],
    }
    assert told("debezium", ddl) == {"op": "schema", "snapshot": False, "database": "shop", "happened_at": MOMENT}
    assert told("debezium", {"ts_ms": MILLIS}) == {"op": "marker", "snapshot": False, "happened_at": MOMENT}
    end = {"status": "END", "id": "571:53195829", "ts_ms": MILLIS, "event_count": 2, "data_collections": []}
    assert told("debezium", end) == {
        "op": "marker",
        "snapshot": False,
        "transaction": "571:53195829",
        "happened_at": MOMENT,
    }
    changed = {**postgresql("u"), "transaction": {"id": "571:53195832", "total_order": 1, "data_collection_order": 1}}
    assert told("debezium", changed)["transaction"] == "571:53195832"
    assert told("debezium", postgresql("u", ts_us=MILLIS * 1000 + 7))["happened_at"] == MOMENT.replace(microsecond=7)


def canal(kind, **changes):
    change = {
        "data": [{"id": "111", "weight": "5.18"}],
        "database": "inventory",
        "es": MILLIS,
        "id": 9,
        "isDdl": False,
        "old": None,
        "pkNames": ["id"],
        "sql": "",
        "table": "products",
        "ts": MILLIS + 798,
        "type": kind,
    }
    return change | changes


PRODUCTS = {"database": "inventory", "table": "products", "happened_at": MOMENT}


@pytest.mark.parametrize(
    ("kind", "word"),
    [("INSERT", "insert"), ("UPDATE", "update"), ("DELETE", "delete"), ("TRUNCATE", "truncate"), ("INIT", "read")],
)
def test_changes_of_canal(kind, word):
    wanted = {"op": word, "snapshot": word == "read", "position_text": "9", **PRODUCTS}
    assert told("canal", canal(kind)) == wanted


def test_canal_s_own_number_is_no_position_and_that_of_a_commit_is():
    assert "position" not in told("canal", canal("UPDATE"))
    found = told("canal", canal("UPDATE", _tidb={"commitTs": 163_963_309_467_037_594}))
    assert found["position"] == 163_963_309_467_037_594
    assert told("canal", canal("UPDATE", gtid="3e11fa47:23"))["position_text"] == "3e11fa47:23"


def test_canal_s_ddl():
    ddl = {"data": None, "database": "d", "es": MILLIS // 1000, "id": 0, "isDdl": True, "table": "", "type": "QUERY"}
    assert told("canal", ddl) == {
        "op": "schema",
        "snapshot": False,
        "database": "d",
        "position_text": "0",
        "happened_at": MOMENT,
    }
    assert told("canal", canal("TRUNCATE", isDdl=True))["op"] == "truncate"


def maxwell(kind, **changes):
    change = {
        "database": "test",
        "table": "e",
        "type": kind,
        "ts": MILLIS // 1000,
        "xid": 23_396,
        "commit": True,
        "position": "master.000006:800911",
        "data": {"id": 1, "m": 4.2341},
    }
    return change | changes


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        *(("insert", "insert"), ("update", "update"), ("delete", "delete"), ("bootstrap-insert", "read")),
        *(("bootstrap-start", "marker"), ("bootstrap-complete", "marker")),
        *(("table-create", "schema"), ("table-alter", "schema"), ("database-drop", "schema")),
    ],
)
def test_changes_of_maxwell(kind, word):
    assert told("maxwell", maxwell(kind)) == {
        "op": word,
        "snapshot": word == "read",
        "database": "test",
        "table": "e",
        "transaction": "23396",
        "position": (6 << 32) + 800_911,
        "position_text": "master.000006:800911",
        "happened_at": MOMENT,
    }


def test_maxwell_writes_seconds_for_rows_and_milliseconds_for_ddl():
    assert told("maxwell", maxwell("table-alter", ts=MILLIS))["happened_at"] == MOMENT
    assert "position" not in told("maxwell", maxwell("insert", position=None))


def event(**changes):
    return {
        "specversion": "1.0",
        "id": "A234",
        "source": "/shop/1",
        "type": "order.paid",
        "subject": "c1",
        "time": "2024-05-01T12:00:00Z",
        "datacontenttype": "application/json",
        "data": {"id": 1},
        **changes,
    }


def test_cloudevents():
    found = {
        "op": "event",
        "snapshot": False,
        "type": "order.paid",
        "event_id": "A234",
        "source": "/shop/1",
        "subject": "c1",
        "happened_at": MOMENT,
    }
    assert told("cloudevents", event()) == found
    numbered = event(sequence="0000000017", sequencetype="Integer", partitionkey="c1")
    assert told("cloudevents", numbered) == {
        **found,
        "position": 17,
        "position_text": "0000000017",
        "partition_key": "c1",
    }
    text = told("cloudevents", event(sequence="01ARZ3NDEKTSV4RRFFQ69G5FAV"))
    assert (text.get("position"), text["position_text"]) == (None, "01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_changes_of_debezium_as_cloudevents():
    change = event(iodebeziumop="d", iodebeziumsnapshot="false", iodebeziumlsn="29274832")
    found = told("cloudevents", change)
    assert (found["op"], found["snapshot"], found["position"]) == ("delete", False, 29_274_832)
    found = told("cloudevents", event(iodebeziumop="r", iodebeziumsnapshot="true"))
    assert (found["op"], found["snapshot"]) == ("read", True)


@pytest.mark.parametrize(
    ("envelope", "document", "problem"),
    [
        ("debezium", {"op": "x", "source": {}}, "op: 'x' is no operation of Debezium's"),
        ("debezium", {"op": 7, "source": {}}, "op: 7 is no operation of Debezium's"),
        ("debezium", {"op": ["u"], "source": {}}, "op: a list is no operation of Debezium's"),
        ("debezium", {"op": {"u": 1}, "source": {}}, "op: an object is no operation of Debezium's"),
        ("debezium", {"id": 1}, "op: there is none, so this is no change of Debezium's"),
        ("debezium", {}, "op: there is none, so this is no change of Debezium's"),
        ("debezium", [1], "op: the body is a list, and Debezium writes objects"),
        ("debezium", {"payload": "x"}, "op: the body is text, and Debezium writes objects"),
        ("debezium", 7, "op: the body is a number, and Debezium writes objects"),
        ("canal", {"data": []}, "op: there is no type, so this is no change of Canal's"),
        ("canal", {"type": "GRANT"}, "op: 'GRANT' is no operation of Canal's"),
        ("canal", {"type": [["INSERT"]]}, "op: a list is no operation of Canal's"),
        ("maxwell", {"database": "d"}, "op: there is no type, so this is no change of Maxwell's"),
        ("maxwell", {"type": "x"}, "op: 'x' is no operation of Maxwell's"),
        ("cloudevents", {"id": "1"}, "op: there is no specversion, so this is no CloudEvent"),
    ],
)
def test_what_is_none_of_an_envelope_s_is_told_once(envelope, document, problem):
    assert told(envelope, document)[1] == problem


def test_a_moment_that_is_none_is_a_problem_and_leaves_the_rest():
    found, problem = told("debezium", postgresql("d", ts_ms=10**30))
    assert problem == f"happened_at: {10**30} is no moment"
    assert (found["op"], found["position"]) == ("delete", 24_023_128)
    large = b'{"op": "d", "source": {"ts_us": 1e999999, "ts_ms": 1}}'
    assert told("debezium", large)[1] == "happened_at: 1E+999999 is no moment"
    assert told("maxwell", maxwell("insert", ts="soon"))[1] == "happened_at: 'soon' is not a timestamp (ISO 8601)"


@pytest.mark.parametrize(
    ("envelope", "body"),
    [
        ("debezium", b'{"op": "u", "source": {"ts_ms": %b}}'),
        ("debezium", b'{"op": "u", "source": {"ts_us": %b}}'),
        ("maxwell", b'{"type": "insert", "ts": %b}'),
        ("canal", b'{"type": "INSERT", "es": %b}'),
    ],
)
@pytest.mark.parametrize("number", [b"1e999999", b"-1e9999999", b"1e999999999"])
def test_a_moment_beyond_all_exponents_is_a_problem(envelope, body, number):
    found, problem = told(envelope, body % number)
    assert problem == f"happened_at: {Decimal(number.decode())} is no moment"
    assert found["op"] in {"insert", "update"}


@pytest.mark.parametrize(
    ("envelope", "body"),
    [
        ("canal", b'{"type": %b}'),
        ("cloudevents", b'{"specversion": "1.0", "iodebeziumop": %b}'),
        ("debezium", b'{"op": %b}'),
        ("maxwell", b'{"type": %b}'),
    ],
)
def test_a_list_where_a_word_belongs_stops_nothing_however_deep_it_is(envelope, body):
    problems = {told_wrong(envelope, body % nested) for nested in nested_lists()}
    assert "not JSON that can be read: nested too deeply" in problems
    assert len(problems) > 1


def told_wrong(envelope, body):
    try:
        found = told(envelope, body)
    except Unreadable as error:
        return str(error)
    return found[1] if isinstance(found, tuple) else ""


def test_an_envelope_that_is_not_there_is_refused():
    for envelope, what in (("debezum", "op"), ("debezium", "pos")):
        with pytest.raises(UsageError, match="tells"):
            lookup_of(envelope, what)
    with pytest.raises(UsageError):
        JsonPaths((Promotion("a", "op", told_by="oggadapter"),)).reader()


WAL = {
    "action": "U",
    "xid": 571,
    "timestamp": "2024-05-01 12:00:00.000000+00",
    "lsn": "0/16E8F58",
    "schema": "public",
    "table": "orders",
}
COLUMNS = [{"name": "id", "type": "integer", "value": 2}, {"name": "total", "type": "numeric", "value": 7.50}]
IDENTITY = [{"name": "id", "type": "integer", "value": 1}]


@pytest.mark.parametrize(
    ("action", "word"),
    [
        *(("I", "insert"), ("U", "update"), ("D", "delete"), ("T", "truncate"), ("M", "message")),
        *(("B", "marker"), ("C", "marker")),
    ],
)
def test_changes_of_wal2json(action, word):
    orders = {"schema": "public", "table": "orders", "happened_at": MOMENT, "transaction": "571"}
    place = {"position": 24_022_872, "position_text": "0/16E8F58"}
    assert told("wal2json", WAL | {"action": action}) == {"op": word, "snapshot": False, **orders, **place}


def test_of_wal2json_a_position_may_lack_and_the_former_format_is_refused():
    found = told("wal2json", {"action": "I", "schema": "public", "table": "orders"})
    assert found == {"op": "insert", "snapshot": False, "schema": "public", "table": "orders"}
    assert "position" not in told("wal2json", WAL | {"lsn": "FFFFFFFF/0"})
    _, problem = told("wal2json", {"kind": "insert", "schema": "public", "table": "orders", "columnvalues": [1]})
    assert problem == "op: there is no action, so this is no change of wal2json's format-version 2"


def taken_apart(envelope, document, *paths, split=None):
    """The messages that an update becomes, where messages are grouped by the first value of `paths`."""
    entry = Receive("log", Source("json"), (Promotion("row", paths),), split=split, envelope=envelope)
    moves = moves_of(entry, {"row"})
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    parts = moves.reader()(body)
    return None if parts == [body] else [json.loads(part) for part in parts]


MAXWELL = {"type": "update", "database": "d", "table": "t", "data": {"id": 2, "total": 7.50}, "old": {"id": 1}}


def test_an_update_that_changes_the_group_is_taken_apart_and_others_stay_as_they_are():
    bare = {"database": "d", "table": "t"}
    delete, insert = (
        bare | {"type": kind, "data": {"id": key, "total": 7.5}} for kind, key in (("delete", 1), ("insert", 2))
    )
    assert taken_apart("maxwell", MAXWELL, "$.data.id") == [delete, insert]
    assert taken_apart("maxwell", {"payload": MAXWELL}, "$.payload.data.id") == [
        {"payload": delete},
        {"payload": insert},
    ]
    assert taken_apart("maxwell", {"key": {"id": 2}, "value": MAXWELL}, "$.value.data.id", "$.key.id") == [
        {"key": {"id": 2}, "value": one} for one in (delete, insert)
    ]
    for same in (
        MAXWELL | {"old": {"total": 1}},
        MAXWELL | {"old": None},
        MAXWELL | {"old": {"id": 2}},
        MAXWELL | {"type": "insert"},
        MAXWELL | {"data": []},
        b'{"type": "update", "old": {"id": 1}, "data": ',
        b'["old"]',
        b'"old"',
    ):
        assert taken_apart("maxwell", same, "$.data.id") is None
    assert taken_apart("maxwell", MAXWELL, "$.data.total") is None
    change = postgresql("u") | {"before": {"id": 1}, "after": {"id": 2}}
    assert taken_apart("debezium", change, "$.after.id", "$.before.id") == [
        change | {"op": "d", "after": None},
        change | {"op": "c", "before": None},
    ]
    assert taken_apart("debezium", postgresql("u"), "$.after.id", "$.before.id") is None
    assert taken_apart("debezium", change | {"before": None}, "$.after.id", "$.before.id") is None
    wal = WAL | {"columns": COLUMNS, "identity": IDENTITY}
    assert taken_apart("wal2json", wal, "$.columns[0].value", "$.identity[0].value") == [
        WAL | {"action": "D", "identity": IDENTITY},
        WAL | {"action": "I", "columns": COLUMNS},
    ]


def test_an_update_that_tells_only_its_key_of_the_former_row_moves_no_row_by_other_columns():
    row = [{"name": "id", "value": 7}, {"name": "customer", "value": 5}, {"name": "total", "value": 9}]
    wal = WAL | {"columns": row, "identity": row[:1]}
    by_id, by_customer = (
        (f"$.columns[{place}].value", f"$.identity[{place}].value") for place in (0, 1)
    )  # the second place of `identity` isn't there
    assert taken_apart("wal2json", wal, *by_customer) is None
    assert taken_apart("wal2json", wal, *by_id) is None
    change = postgresql("u") | {"before": {"id": 7, "customer": None}, "after": {"id": 7, "customer": 5}}
    assert taken_apart("debezium", change, "$.after.customer", "$.before.customer") is None

    promote = (Promotion("id", by_id), Promotion("customer", by_customer))
    moves = moves_of(Receive("log", Source("json"), promote, envelope="wal2json"), {"id", "customer"}).reader()
    body = json.dumps(wal).encode()
    assert moves(body) == [body]
    moved = wal | {"identity": [{"name": "id", "value": 6}]}
    assert [json.loads(part)["action"] for part in moves(json.dumps(moved).encode())] == ["D", "I"]


@pytest.mark.parametrize("name", ["canal", "maxwell"])
def test_a_row_moves_from_no_group_where_the_whole_former_row_is_told(name):
    row = {"id": 7, "customer": 5}
    change = {
        "canal": {"type": "UPDATE", "database": "d", "isDdl": False, "data": [row], "old": [{"customer": None}]},
        "maxwell": {"type": "update", "database": "d", "table": "t", "data": row, "old": {"customer": None}},
    }[name]
    path = {"canal": "$.data[0].customer", "maxwell": "$.data.customer"}[name]
    assert len(taken_apart(name, change, path)) == 2


def test_rows_of_one_message_are_taken_apart_in_their_order():
    same, moved = ({"id": 1}, {"n": 1}), ({"id": 3}, {"id": 2})
    change = {"type": "UPDATE", "database": "d", "data": [same[0], moved[0]], "old": [same[1], moved[1]]}
    base = {"database": "d", "old": None}
    split = Split("$.data")
    assert taken_apart("canal", change, "$.id", split=split) == [
        change | {"data": [same[0]], "old": [same[1]]},
        base | {"type": "DELETE", "data": [{"id": 2}]},
        base | {"type": "INSERT", "data": [{"id": 3}]},
    ]
    assert taken_apart("canal", change, "$.data[0].id") is not None
    assert taken_apart("canal", change | {"old": [same[1], {"n": 5}]}, "$.id", split=split) is None
    assert taken_apart("canal", change | {"old": [same[1]]}, "$.id", split=split) is None
    assert taken_apart("canal", change | {"old": [None, None]}, "$.id", split=split) is None


def test_the_values_of_a_message_that_is_taken_apart_stay_as_they_are():
    rest = rb'"a": 1.50, "b": 1E+400, "c": "\ud800\u00fc"'
    body = b'{"type": "update", "database": "d", "data": {"id": 12345678901234567890, ' + rest + b'}, "old": {"id": 1}}'
    entry = Receive("log", Source("json"), (Promotion("row", "$.data.id"),), envelope="maxwell")
    delete, insert = moves_of(entry, {"row"}).reader()(body)
    assert delete == b'{"type": "delete", "database": "d", "data": {"id": 1, ' + rest + b"}}"
    assert insert == b'{"type": "insert", "database": "d", "data": {"id": 12345678901234567890, ' + rest + b"}}"


def test_an_update_that_is_nested_too_deeply_to_be_taken_apart_is_told():
    # As deep as the reader of JSON goes, which on newer Pythons is deeper than Python itself.
    deep = next(depth for depth in (9_000, 900, 450) if can_be_read(b"[" * depth + b"]" * depth))
    body = b'{"type": "update", "database": "d", "data": {"id": 2, "deep": %b}, "old": {"id": 1}}'
    entry = Receive("log", Source("json"), (Promotion("row", "$.data.id"),), envelope="maxwell")
    with pytest.raises(Unreadable, match="nested too deeply to be taken apart"):
        moves_of(entry, {"row"}).reader()(body % (b"[" * deep + b"]" * deep))


def test_updates_are_taken_apart_by_properties_that_are_read_from_the_body():
    entry = Receive("log", Source("json"), (Promotion("row", "$.data.id"),), envelope="maxwell")
    assert moves_of(entry, {"row"}) is not None
    assert moves_of(entry, {"customer"}) is None
    assert moves_of(replace(entry, envelope="cloudevents"), {"row"}) is None
    assert moves_of(replace(entry, envelope=None), {"row"}) is None
    assert moves_of(replace(entry, promote=(Promotion("row", "key:$.id"),)), {"row"}) is None
    assert moves_of(replace(entry, split=Split(function="m:f")), {"row"}) is None
