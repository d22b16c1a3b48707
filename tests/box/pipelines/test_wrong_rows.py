"""Rows that can't be messages come into the box beside the others: kept as unrouted, with the reason, each once."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.publishing import batch as publish
from seriatim.operations import invariants, messages
from tests.databases import box_with

pytestmark = pytest.mark.dear

PARTS = pa.list_(pa.struct([("name", pa.string()), ("body", pa.binary())]))
COLUMNS = {
    "message_id": pa.string(),
    "type": pa.string(),
    "body": pa.string(),
    "content_type": pa.string(),
    "context": pa.string(),
    "location": pa.string(),
    "customer": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "parts": PARTS,
}
#: In microseconds since 1970: a moment that no `datetime` can be.
LATE_US = 400_000_000_000_000_000

#: Of a row what is wrong with it, and how its reason begins.
WRONG = [
    ({"context": "{nope"}, "column 'context': not JSON: Expecting property name"),
    ({"context": "[1]"}, "column 'context': a list is not a JSON object"),
    ({"context": "7"}, "column 'context': 7 is not a JSON object"),
    ({"context": '{"n": %s}' % ("7" * 5_000)}, "column 'context': not JSON that can be read: a whole number of more than"),
    ({"context": '{"n": 1e99999999999999999999}'}, "column 'context': not JSON that can be read: a number of such an exponent"),
    ({"context": '{"n": %s}' % ("[" * 100_000)}, "column 'context': not JSON that can be read: nested too deeply"),
    ({"context": '{"to": "nowhere"}'}, "message m-7 is addressed to 'nowhere', which is no queue"),
    ({"context": '{"to": "nowhere\\u0000"}'}, "property to: 'nowhere\\x00' has a NUL"),
    ({"type": None}, "column 'type': there is none"),
    ({"type": ""}, "column 'type': there is none"),
    ({"type": "a\0b"}, "column 'type': 'a\\x00b' can't be the type of a message (text, not empty, without NUL)"),
    ({"message_id": "a\0b"}, "column 'message_id': 'a\\x00b' can't be the message_id of a message"),
    ({"message_id": "i" * 1_025}, "column 'message_id': 'iiiiii"),
    ({"content_type": ""}, "column 'content_type': the content type of message m-7 can't be ''"),
    ({"location": ""}, "property location: '' is not a location's name"),
    ({"at": LATE_US}, "column 'at': "),
    ({"parts": [None]}, "column 'parts': part 1 is null"),
    ({"parts": [{"name": None, "body": b"x"}]}, "column 'parts': part 1: None can't be the name of a part"),
    ({"parts": [{"name": "", "body": b"x"}]}, "column 'parts': part 1: '' can't be the name of a part"),
    ({"parts": [{"name": "a", "body": b"x"}] * 2}, "column 'parts': part 2: another one is named 'a', too"),
    ({"type": None, "context": "no"}, "column 'type': there is none"),
    ({"type": None, "context": "no"}, "column 'context': not JSON"),
]  # fmt: skip


def with_one_queue(box):
    box.define(sq.Queue("all", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="all"))


queue = box_with(with_one_queue)


def batch(*rows):
    """Rows as columns; what one doesn't say of itself is as it should be."""
    usual = {"message_id": "m-7", "type": "order", "body": "kept", "customer": "c"}
    whole = [usual | row for row in rows]
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(name) for row in whole], kind) for name, kind in COLUMNS.items()], names=list(COLUMNS)
    )


def good(*names):
    return [{"message_id": name} for name in names]


def kept(box):
    """What is unrouted: the ids, types, bodies and reasons, in the order of their coming."""
    with psycopg.connect(box.dsn) as connection:
        return connection.execute(
            f"SELECT message_id, type, body, problem FROM {box.schema}.unrouted "
            f"JOIN {box.schema}.spool USING (arrival_id, position) ORDER BY arrival_id, position"
        ).fetchall()


def queued(box):
    found = []
    with box.session() as tx:
        while (delivery := tx.receive("all", limit=100)) is not None:
            found += [one.message_id for one in delivery]
    return found


def written(staging, number, *parts):
    staged = [staging.stage("w", number, [part], place) for place, part in enumerate(parts)]
    return staging.merge("w", number, staged)


@pytest.mark.parametrize(("row", "reason"), WRONG, ids=map(str, range(len(WRONG))))
def test_a_row_that_is_no_message_is_kept_beside_the_others(queue, row, reason):
    with Staging(queue.dsn, queue.schema) as staging:
        assert written(staging, 0, batch(*good("first"), row, *good("last"))) == 3
        assert written(staging, 0, batch(*good("first"), row, *good("last"))) == 0
    ((message_id, kind, body, problem),) = kept(queue)
    assert reason in problem
    assert len(problem) < 1_100
    assert body == b"kept"
    assert (message_id == "m-7") == ("message_id" not in row)
    assert kind == ("untyped" if "type" in row else "order")
    assert queued(queue) == ["first", "last"]
    assert invariants.broken(queue) == []


def test_all_of_them_in_one_batch_are_kept_each_once(queue):
    rows = [{"message_id": f"m-{place}"} | row for place, (row, _) in enumerate(WRONG)]
    with Staging(queue.dsn, queue.schema) as staging:
        assert written(staging, 0, batch(*rows[:9], *good("first")), batch(*rows[9:], *good("last"))) == len(rows) + 2
    assert len(kept(queue)) == len(rows)
    assert queued(queue) == ["first", "last"]


def test_ids_that_are_made_up_are_the_same_again_and_no_two_are_alike(queue):
    wrong = {"message_id": "a\0b"}
    with Staging(queue.dsn, queue.schema) as staging:
        parts = batch(wrong, wrong), batch(wrong)
        assert written(staging, 0, *parts) == 3
        first = [message_id for message_id, *_ in kept(queue)]
        assert len(set(first)) == 3
        with psycopg.connect(queue.dsn) as connection:  # as if the writer had been forgotten
            connection.execute(f"DELETE FROM {queue.schema}.writers")
        assert written(staging, 0, *parts) == 0
        assert written(staging, 1, *parts) == 3


def test_what_is_wrong_stays_wrong_where_the_definitions_have_changed(queue):
    with Staging(queue.dsn, queue.schema) as staging:
        rows = ({"context": "{nope"}, {"message_id": "m-8", "context": '{"to": "later"}'}, *good("first"))
        staged = staging.stage("w", 0, [batch(*rows)])
        queue.define(sq.Queue("later", policy=sq.Unordered()))
        assert staging.merge("w", 0, [staged]) == 3
    assert [problem[:20] for *_, problem in kept(queue)] == ["column 'context': no", "message m-8 is addre"]
    assert queued(queue) == ["first"]


def test_what_was_addressed_to_no_queue_goes_there_when_it_is_defined(queue):
    with Staging(queue.dsn, queue.schema) as staging:
        written(staging, 0, batch({"context": '{"to": "later", "amount": 7}'}))
    queue.define(sq.Queue("later", policy=sq.Unordered()))
    assert messages.resubmit(queue).routed == 1
    with queue.session() as tx:
        (message,) = tx.receive("later")
        assert (message.body, message.context["amount"], message.context["customer"]) == (b"kept", 7, "c")


def test_straight_into_a_queue_it_is_the_same(queue):
    with Staging(queue.dsn, queue.schema, queue="all") as staging:
        assert (
            written(staging, 0, batch({"context": "{nope"}, {"message_id": "m-8", "type": None}, *good("first"))) == 3
        )
    assert len(kept(queue)) == 2
    assert queued(queue) == ["first"]


def test_text_that_is_not_utf8_is_wrong_too(queue):
    wrong = pa.array([b"\xff", b"fine"], pa.binary()).view(pa.string())
    for name in ("customer", "message_id", "type"):
        rows = batch({"message_id": f"{name} wrong"}, {"message_id": f"{name} fine"})
        rows = rows.set_column(rows.schema.get_field_index(name), name, wrong)
        with Staging(queue.dsn, queue.schema) as staging:
            staging.merge(name, 0, [staging.stage(name, 0, [rows])])
    found = kept(queue)
    assert [problem for *_, problem in found] == [
        f"column '{name}': not UTF-8 at byte 0" for name in ("customer", "message_id", "type")
    ]


def test_what_is_missing_is_the_option_of_the_writer(queue):
    with Staging(queue.dsn, queue.schema, incoming=Incoming("order")) as staging:
        assert written(staging, 0, batch({"type": None}, {"message_id": "m-8", "type": ""})) == 2
    assert queued(queue) == ["m-7", "m-8"]


@pytest.mark.parametrize("row", [{"context": "{nope"}, {"context": '{"to": "nowhere"}'}, {"at": LATE_US}])
@pytest.mark.parametrize("again", [False, True])
def test_it_is_received_where_it_says(queue, row, again):
    with Staging(queue.dsn, queue.schema) as staging:
        staged = staging.stage("w", 0, [batch({"location": "crm"} | row)])
        if again:
            queue.define(sq.Queue("other", policy=sq.Unordered()))
        assert staging.merge("w", 0, [staged]) == 1
    (message,) = messages.messages(queue, status="unrouted")
    assert message.location == "crm"


@pytest.mark.parametrize(
    ("row", "reason", "left"),
    [
        ({"body": "b" * 65}, "column 'body': 65 bytes, of which at most 64 can be kept: left out", b""),
        (
            {"context": "no", "body": "b" * 65},
            "column 'body': 65 bytes, of which at most 64 can be kept: left out",
            b"",
        ),
        (
            {"parts": [{"name": "a", "body": b"x" * 60}, {"name": "b", "body": b"y"}]},
            "column 'parts': 61 bytes, of which at most 60 can be kept beside the body: left out",
            b"kept",
        ),
    ],
)
def test_what_is_too_large_to_be_kept_is_left_out_and_stops_nothing(queue, monkeypatch, row, reason, left):
    monkeypatch.setattr(publish, "MOST_BODY_BYTES", 64)
    with Staging(queue.dsn, queue.schema) as staging:
        assert written(staging, 0, batch(*good("first"), row, *good("last"))) == 3
    ((message_id, _, body, problem),) = kept(queue)
    assert (message_id, body) == ("m-7", left)
    assert reason in problem
    assert queued(queue) == ["first", "last"]
    assert invariants.broken(queue) == []


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"customer": "c" * 300}, ""),
        ({"context": '{"x": "%s"}' % ("\u00e9" * 300)}, ""),
        ({"context": "{" + "n" * 300}, "column 'context': not JSON"),
        ({"context": '{"to": "nowhere", "x": "%s"}' % ("c" * 300)}, "message m-7 is addressed to 'nowhere'"),
        ({"context": '{"to": "nowhere", "customer": "mine"}', "customer": "\x01" * 60}, "message m-7 is addressed"),
    ],
)
@pytest.mark.parametrize("again", [False, True])
def test_properties_that_are_too_large_are_left_out_and_stop_nothing(queue, monkeypatch, row, reason, again):
    monkeypatch.setattr(publish, "MOST_CONTEXT_BYTES", 256)
    with Staging(queue.dsn, queue.schema) as staging:
        staged = staging.stage("w", 0, [batch(*good("first"), row | {"location": "crm"}, *good("last"))])
        if again:
            queue.define(sq.Queue("other", policy=sq.Unordered()))
        assert staging.merge("w", 0, [staged]) == 3
    ((_, _, body, problem),) = kept(queue)
    assert body == b"kept"
    assert problem.startswith(reason)
    assert "bytes of properties, of which at most 256 can be kept: left out '" in problem
    (message,) = messages.messages(queue, status="unrouted")
    assert message.location == "crm"
    assert queued(queue) == ["first", "last"]
    assert invariants.broken(queue) == []


def test_properties_that_a_body_brings_are_left_out_too(queue, monkeypatch):
    monkeypatch.setattr(publish, "MOST_CONTEXT_BYTES", 256)
    note = {"type": "string", "path": "$.note"}
    queue.define(sq.MessageType("order", properties={"note": note, "customer": "string"}))
    with Staging(queue.dsn, queue.schema) as staging:
        body = '{"note": "%s"}' % ("n" * 300)
        assert written(staging, 0, batch({"body": body}, {"message_id": "last", "body": "{}"})) == 2
    ((*_, kept_body, problem),) = kept(queue)
    assert kept_body == body.encode()
    assert problem.endswith("bytes of properties, of which at most 256 can be kept: left out 'note'")
    assert queued(queue) == ["last"]
