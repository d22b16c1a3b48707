"""Parts of a message: kept once beside the body, handed out with it, gone with it."""

from __future__ import annotations

import json
import pickle

import psycopg
import pyarrow as pa
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.staging import Staging
from seriatim.box.publishing import batch as sending
from seriatim.cli.main import main
from seriatim.operations import messages as message_operations
from seriatim.operations import retention
from seriatim.operations.grants import grant
from seriatim.operations.messages import resubmit
from tests.databases import box_with

PARTS = (
    sq.Part("scan.tif", "image/tiff", b"\0\xff" * 1000),
    sq.Part("é", None, b""),
    sq.Part("note", "text/plain", b"as told"),
)


def with_two_queues(box):
    """A box whose messages go to `first`, and those of type `both` to `second`, too."""
    box.define(
        sq.MessageType("t", properties={"group": "string"}),
        sq.MessageType("both", properties={"group": "string"}),
        sq.Queue("first", policy=sq.Fifo(), group="group"),
        sq.Queue("second", policy=sq.Unordered()),
        sq.Subscription("all", where="type IN ('t', 'both')", to="first"),
        sq.Subscription("more", where="type = 'both'", to="second"),
    )


queues = box_with(with_two_queues)


def message(kind="t", **fields):
    return sq.Message(type=kind, body=b"body", context={"group": "g"}, **fields)


def publish(box, *messages):
    with box.session() as tx:
        return tx.publish(messages)


def rows(box):
    with box.session() as tx:
        spool = f"(SELECT count(*) FROM {box.schema}.spool)"
        return tx.connection.execute(f"SELECT {spool}, count(*) FROM {box.schema}.message_parts").fetchone()


def receive(box, queue, limit=10):
    with box.session() as tx:
        return list(tx.receive(queue, limit=limit) or ())


def test_they_come_with_their_message_and_go_with_it(queues):
    publish(queues, message(parts=PARTS), message(), message(parts=list(PARTS[2:])))
    assert rows(queues) == (3, 4)
    (first,) = receive(queues, "first", 1)
    assert (first.body, first.parts) == (b"body", PARTS)
    assert rows(queues) == (2, 1)
    assert [one.parts for one in receive(queues, "first")] == [(), PARTS[2:]]
    assert rows(queues) == (0, 0)


def test_they_are_there_once_for_all_queues(queues):
    publish(queues, message("both", parts=PARTS))
    assert rows(queues) == (1, 3)
    assert [one.parts for one in receive(queues, "first")] == [PARTS]
    assert rows(queues) == (1, 3)
    assert [one.parts for one in receive(queues, "second")] == [PARTS]
    assert retention.purge(queues).messages == 1
    assert rows(queues) == (0, 0)


def test_put_back_and_handed_out_again(queues):
    publish(queues, message(parts=PARTS))
    with queues.session() as tx:
        assert tx.receive("first").messages[0].parts == PARTS
    assert [one.message.parts for one in queues.peek("first")] == [PARTS]
    assert [one.parts for one in receive(queues, "first")] == [PARTS]


def test_published_again_they_are_left_out(queues):
    one = message(parts=PARTS)
    publish(queues, one)
    with queues.session() as tx:
        tx.publish([message(message_id=one.message_id, parts=PARTS[:1]), message(parts=PARTS[:1])])
    assert [len(got.parts) for got in receive(queues, "first")] == [3, 1]


def test_unrouted_they_are_kept_until_somebody_wants_them(queues):
    publish(queues, sq.Message(type="new", parts=PARTS), sq.Message(type="new"))
    assert rows(queues) == (2, 3)
    queues.define(sq.Subscription("new", where="type = 'new'", to="second"))
    assert resubmit(queues).routed == 2
    assert sorted(len(got.parts) for got in receive(queues, "second")) == [0, 3]
    assert rows(queues) == (0, 0)


def test_kept_with_the_history(queues):
    queues.define(sq.Queue("first", policy=sq.Fifo(), group="group", keep="everything"))
    publish(queues, message(parts=PARTS))
    receive(queues, "first")
    assert rows(queues) == (1, 3)


def test_they_count_where_a_message_is_too_large(queues, monkeypatch):
    monkeypatch.setattr(sending, "MOST_BODY_BYTES", 10)
    publish(queues, sq.Message(type="t", body=b"12345", parts=[sq.Part("a", None, b"12345")]))
    with pytest.raises(sq.UsageError, match="has 11 bytes, its parts included"), queues.session() as tx:
        tx.publish(sq.Message(type="t", body=b"12345", parts=[sq.Part("a", None, b"123456")]))
    assert rows(queues) == (1, 1)


def test_they_count_where_a_batch_is_cut(queues, monkeypatch):
    monkeypatch.setattr(sending, "_PORTION_BYTES", 1000)
    publish(queues, *(message(parts=[sq.Part("a", None, b"%d" % n * 700)]) for n in range(4)))
    assert [got.parts[0].body[:1] for got in receive(queues, "first")] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: sq.Part("", None, b""), "name of a part"),
        (lambda: sq.Part("a\0", None, b""), "name of a part"),
        (lambda: sq.Part("\ud800", None, b""), "name of a part"),
        (lambda: sq.Part("x" * 257, None, b""), "name of a part"),
        (lambda: sq.Part("a", 7, b""), "content type of part 'a'"),
        (lambda: sq.Part("a", "text/\0", b""), "content type of part 'a'"),
        (lambda: sq.Part("a", None, "text"), "the body of part 'a' is str"),
        (lambda: message(parts=[b"bytes"]), "a list of seriatim.Part"),
        (lambda: message(parts=iter(PARTS)), "a list of seriatim.Part"),
        (lambda: message(parts=None), "a list of seriatim.Part"),
        (lambda: message(parts=[PARTS[0], PARTS[0]]), "two parts are named 'scan.tif'"),
    ],
)
def test_what_is_no_part(wrong, why):
    with pytest.raises(sq.UsageError, match=why):
        wrong()


def test_a_message_with_parts_can_be_sent_to_another_process():
    one = message(parts=PARTS)
    assert pickle.loads(pickle.dumps(one)) == one


def test_a_role_sends_and_gets_them(queues):
    role = f"{queues.schema}_courier"
    with queues.session() as tx:
        tx.connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        grant(queues, role, publish=["first"], receive=["first"])
        dsn = queues.dsn.replace("seriatim@", f"{role}@")
        with sq.MessageBox.open(dsn, schema=queues.schema) as own:
            publish(own, message(parts=PARTS))
            assert [one.parts for one in receive(own, "first")] == [PARTS]
            published(own, PARTS)
            queues.tick()
            assert [one.parts for one in receive(own, "first")] == [PARTS]
        with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM {queues.schema}.message_parts")
        with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT * FROM {queues.schema}.parts_of(2, '{{1}}')")
    finally:
        with queues.session() as tx:
            tx.connection.execute(f"DROP SCHEMA {queues.schema} CASCADE")
            tx.connection.execute(f"DROP OWNED BY {role}")
            tx.connection.execute(f"DROP ROLE {role}")


# ---- looked at


def test_they_are_told_where_their_message_is(queues):
    (told,) = publish(queues, message(parts=PARTS))
    publish(queues, message())
    assert sorted(one.parts for one in message_operations.messages(queues, queue="first")) == [0, 3]
    found, (place,) = message_operations.message(queues, told)
    assert (found.parts, place.parts) == (PARTS, 3)
    with queues.session() as tx:
        view = tx.connection.execute(f"SELECT parts FROM {queues.schema}.messages ORDER BY number").fetchall()
    assert view == [(3,), (0,)]


def test_commands_tell_them(queues):
    (told,) = publish(queues, message(parts=PARTS))
    which = ["--dsn", queues.dsn, "--schema", queues.schema]
    (listed,) = json.loads(CliRunner().invoke(main, ["messages", "list", *which, "--json"]).stdout)
    assert listed["parts"] == 3
    shown = CliRunner().invoke(main, ["messages", "show", told, *which]).stdout
    assert "part scan.tif: image/tiff, 2,000 bytes" in shown
    assert "part é: no content type, 0 bytes" in shown
    whole = json.loads(CliRunner().invoke(main, ["messages", "show", told, *which, "--json"]).stdout)
    assert whole["parts"][2] == {"name": "note", "content_type": "text/plain", "body": "as told"}
    assert whole["parts"][0]["body"] == PARTS[0].body.hex()


# ---- from SQL


def published(box, parts, body=b"body"):
    """Publish through SQL, with parts as rows of an application's table would be given."""
    statement = f"""
        SELECT {box.schema}.publish('t', %s, '{{"group": "g"}}', parts => (
            SELECT array_agg(ROW(name, content_type, body)::{box.schema}.part ORDER BY number)
            FROM unnest(%s::text[], %s::text[], %s::bytea[]) WITH ORDINALITY AS given (name, content_type, body, number)
        ))
    """
    columns = [list(each) for each in zip(*((one.name, one.content_type, one.body) for one in parts), strict=True)]
    with psycopg.connect(box.dsn) as connection:
        return connection.execute(statement, [body, *(columns or [[], [], []])]).fetchone()[0]


def test_published_from_sql(queues):
    published(queues, PARTS)
    published(queues, ())
    assert rows(queues) == (2, 3)
    assert [one.parts for one in receive(queues, "first")] == [PARTS, ()]
    assert rows(queues) == (0, 0)


def test_published_from_sql_again_they_are_left_out(queues):
    one = f"""SELECT {queues.schema}.publish('t', '', '{{"group": "g"}}', 'same', parts => ARRAY[('a', NULL, '')]::{queues.schema}.part[])"""
    for _ in range(2):
        with psycopg.connect(queues.dsn) as connection:
            connection.execute(one)
    assert rows(queues) == (1, 1)
    assert [len(got.parts) for got in receive(queues, "first")] == [1]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ("ARRAY[(NULL, NULL, '')]", "part 1 needs a name of 1 to 256 characters"),
        ("ARRAY[('a', NULL, ''), NULL]", "part 2 needs a name"),
        ("ARRAY[(repeat('x', 257), NULL, '')]", "part 1 needs a name"),
        ("ARRAY[('a', '', '')]", "part 1 can't have an empty content type"),
        ("ARRAY[('a', NULL, NULL)]", "part 1 can't be NULL, but its body can be empty"),
        ("ARRAY[('a', NULL, ''), ('b', NULL, ''), ('a', NULL, '')]", 'part 3 has the name of another one, "a"'),
    ],
)
def test_what_is_no_part_in_sql(queues, parts, why):
    with psycopg.connect(queues.dsn) as connection, pytest.raises(psycopg.errors.InvalidParameterValue, match=why):
        connection.execute(f"SELECT {queues.schema}.publish('t', '', parts => {parts}::{queues.schema}.part[])")
    assert rows(queues) == (0, 0)


# ---- in columns, as Spark writes and reads them


def columns(*messages):
    kind = pa.struct([("name", pa.string()), ("content_type", pa.string()), ("body", pa.binary())])
    given = [
        [{"name": part.name, "content_type": part.content_type, "body": part.body} for part in each] or None
        for each in messages
    ]
    n = len(messages)
    return pa.RecordBatch.from_pydict(
        {"type": ["t"] * n, "group": ["g"] * n, "body": [b"body"] * n, "parts": pa.array(given, pa.list_(kind))}
    )


def test_a_batch_brings_them(queues):
    with Staging(queues.dsn, queues.schema) as staging:
        part = staging.stage("writer", 0, [columns(PARTS, (), PARTS[2:])])
        assert staging.merge("writer", 0, [part]) == 3
    assert rows(queues) == (3, 4)
    assert [one.parts for one in receive(queues, "first")] == [PARTS, (), PARTS[2:]]


def test_a_batch_that_is_routed_again_keeps_them(queues):
    with Staging(queues.dsn, queues.schema) as staging:
        part = staging.stage("writer", 0, [columns(PARTS, ())])
        queues.define(sq.Subscription("late", where="type = 't'", to="second"))
        staging.merge("writer", 0, [part])
    assert sorted(len(one.parts) for one in receive(queues, "second")) == [0, 3]
    with queues.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {queues.schema}.staged_message_parts").fetchone() == (0,)


def test_a_batch_that_is_forgotten_leaves_none(queues):
    with Staging(queues.dsn, queues.schema) as staging:
        staging.discard([staging.stage("writer", 0, [columns(PARTS)])])
    with queues.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {queues.schema}.staged_message_parts").fetchone() == (0,)


def test_a_wrong_part_of_a_batch_is_kept_with_its_message(queues):
    with Staging(queues.dsn, queues.schema) as staging:
        wrong = columns(PARTS[:1])
        given = [{"name": "a", "content_type": None, "body": body} for body in (b"1", b"2")]
        given += [{"name": "", "content_type": "", "body": b"3"}, None, {"name": "part 3", "body": b"4"}]
        parts = pa.array([given], wrong.schema.field("parts").type)
        wrong = wrong.set_column(wrong.schema.get_field_index("parts"), "parts", parts)
        assert staging.merge("writer", 0, [staging.stage("writer", 0, [wrong])]) == 1
    with queues.session() as tx:
        kept = tx.connection.execute(f"SELECT name, body FROM {queues.schema}.message_parts ORDER BY number").fetchall()
        ((problem,),) = tx.connection.execute(f"SELECT problem FROM {queues.schema}.unrouted").fetchall()
    assert kept == [("a", b"1"), ("part 2", b"2"), ("part 3", b"3"), ("part 5", b"4")]
    assert problem == (
        "column 'parts': part 2: another one is named 'a', too; part 3: '' can't be the name of a part (text, 1 to 256 "
        "characters, without NUL); part 4 is null; part 5: another one is named 'part 3', too"
    )


@pytest.mark.parametrize("queue", ["first", "second", None])
def test_a_batch_has_them(queues, queue):
    publish(queues, message("both", parts=PARTS), message("both"))
    with PipelineFeed(queues.dsn, queues.schema, queue=queue) as feed:
        table = pa.Table.from_batches([rows for part in feed.parts_now() for rows in feed.read_now(part, {})])
        expected = [[{"name": one.name, "content_type": one.content_type, "body": one.body} for one in PARTS], None]
        assert table.column("parts").to_pylist() == expected
        if queue is None:
            return
        reader, batch, messages = feed.next("", 0, None)
        assert messages == 2
        parts = feed.parts(reader, 0, batch)
        table = pa.Table.from_batches([rows for part in parts for rows in feed.read(0, batch, part, {})])
        assert table.column("parts").to_pylist() == expected
