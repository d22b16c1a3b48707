"""Publishing: what is taken in, once, and what is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import psycopg
import pytest

import seriatim as sq
from seriatim.box.publishing import batch as publish
from seriatim.pipeline.types.message import new_message_id
from tests.box.given_up import given_up
from tests.box.shop import define, rows
from tests.box.shop import publish as publish_versions

pytestmark = pytest.mark.telling


def stored(box, columns="message_id, location, number"):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT {columns} FROM {box.schema}.messages ORDER BY number").fetchall()


def test_what_was_given_is_kept(box):
    one = sq.Message(type="order", body=b"\0\xff", context={"a": 1}, content_type="text/plain", message_id="é")
    with box.session() as tx:
        assert tx.publish(one) == ["é"]
        assert tx.publish([]) == []
    columns = "message_id, type, location, body, content_type, context"
    assert stored(box, columns) == [("é", "order", "box", b"\0\xff", "text/plain", {"a": 1})]


def test_properties_of_every_type(box):
    moment = datetime(2026, 11, 20, 12, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    context = {
        "string": 'with "quotes", \\ and ☃',
        "long": 2**63 - 1,
        "decimal": Decimal("12345678901234567890.10"),
        "float": 0.1,
        "boolean": True,
        "timestamp": moment,
        "naive": moment.replace(tzinfo=None),
        "nothing": None,
    }
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context=context))
    with box.session() as tx:
        row = tx.connection.execute(f"SELECT context->>'decimal', context FROM {box.schema}.spool").fetchone()
    assert row[0] == "12345678901234567890.10"
    assert row[1] | {"decimal": None} == context | {
        "decimal": None,
        "timestamp": moment.astimezone(UTC).isoformat(),
        "naive": moment.replace(tzinfo=UTC).isoformat(),
    }


def test_published_again_it_changes_nothing(box):
    one, two, three = (sq.Message(type="order", message_id=name, body=name.encode()) for name in ("1", "2", "3"))
    with box.session() as tx:
        assert tx.publish([one, two, one]) == ["1", "2", "1"]
    with box.session() as tx:
        tx.publish([sq.Message(type="other", message_id="2"), three])
        tx.publish([one])
    assert stored(box, "message_id, number, body") == [("1", 1, b"1"), ("2", 2, b"2"), ("3", 3, b"3")]


def test_published_by_two_at_once_it_is_taken_in_once(box):
    batch = [sq.Message(type="order") for _ in range(200)]

    def run(order):
        with box.session() as tx:
            return tx.publish(order)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(run, order) for order in (batch, batch[::-1]) * 2]:
            done.result()
    assert sorted(name for name, _, _ in stored(box)) == sorted(one.message_id for one in batch)
    assert [number for _, _, number in stored(box)] == list(range(1, 201))


def test_nothing_unnumbered_stays(box):
    with box.session() as tx:
        tx.publish([sq.Message(type="order") for _ in range(10)])
    with box.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {box.schema}.arrivals").fetchone() == (0,)


def test_empty_and_large_bodies_in_their_order(box, monkeypatch):
    monkeypatch.setattr(publish, "_PORTION_BYTES", 1000)
    bodies = [b"", b"a" * 999, b"b", b"c" * 5000, b"", b"d"]
    with box.session() as tx:
        tx.publish([sq.Message(type="order", body=body) for body in bodies])
    assert [row[0] for row in stored(box, "body")] == bodies


def test_a_body_that_is_too_large(box, monkeypatch):
    monkeypatch.setattr(publish, "MOST_BODY_BYTES", 10)
    with pytest.raises(sq.UsageError, match="has 11 bytes"), box.session() as tx:
        tx.publish([sq.Message(type="order", body=b"x" * 11)])
    assert stored(box) == []


def test_ten_thousand_properties(box):
    context = {f"property {n}": n for n in range(10_000)}
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context=context))
    assert stored(box, "context") == [(context,)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("p", "a\0b"),
        ("p", "\ud800"),
        ("p\0", 1),
        (7, 1),
        ("p", 2**63),
        ("p", float("nan")),
        ("p", Decimal("Infinity")),
        ("p", b"bytes"),
        ("p", [1]),
        ("type", "other"),
        ("ticket", 1),
    ],
)
def test_a_property_that_has_no_place(box, name, value):
    good = sq.Message(type="order")
    with box.session() as tx:
        with pytest.raises(sq.UsageError, match="message the-bad-one"):
            tx.publish([good, sq.Message(type="order", message_id="the-bad-one", context={name: value})])
        tx.publish([sq.Message(type="order", message_id="2")])
    assert [row[0] for row in stored(box)] == ["2"]  # nothing of the call was taken in


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"type": ""}, "type"),
        ({"type": "a\0"}, "type"),
        ({"message_id": ""}, "message_id"),
        ({"body": "text"}, "bytes"),
    ],
)
def test_a_message_that_is_none(wrong, why):
    with pytest.raises(sq.UsageError, match=why):
        sq.Message(**{"type": "order", **wrong})


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"body": "\\x41"}, "is str"),
        ({"type": ""}, "type"),
        ({"content_type": 5}, "content type"),
        ({"parts": [3]}, "parts"),
    ],
)
def test_what_was_received_and_changed_is_checked(box, wrong, why):
    define(box)
    publish_versions(box, 1)
    with box.session() as tx:
        (received,) = tx.receive("shop").messages
        with pytest.raises(sq.UsageError, match=why):
            tx.publish([replace(received, message_id="another", **wrong)])
        assert tx.publish([replace(received, message_id="another", body=b"b")]) == ["another"]


def test_something_else_than_messages(box):
    with pytest.raises(sq.UsageError, match="dict is not a message"), box.session() as tx:
        tx.publish([{"type": "order"}])
    with pytest.raises(sq.UsageError, match="not a location's name"), box.session() as tx:
        tx.publish([sq.Message(type="order", context={"location": 7})])


def test_ids_are_new_and_sort_by_time():
    ids = [new_message_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert [one[:13] for one in ids] == sorted(one[:13] for one in ids)
    assert {(one[14], one[19] in "89ab") for one in ids} == {("7", True)}


@pytest.mark.parametrize("many", [0, 1, 50, 5000])
def test_ids_that_the_database_gives_are_new_and_sort_by_time(box, many):
    found = rows(box, "SELECT id FROM {schema}.new_message_ids(%s) WITH ORDINALITY AS one (id, n) ORDER BY n", many)
    others = rows(box, "SELECT id FROM {schema}.new_message_ids(%s) AS id", many)
    ids = [one.id for one in found]
    assert len(set(ids) | {one.id for one in others}) == 2 * many
    assert all(str(UUID(one)) == one and one[14] == "7" and one[19] in "89ab" for one in ids)
    assert len({one[:24] for one in ids}) == min(many, 1)


def test_the_application_and_its_message_commit_together(box):
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"CREATE TABLE {box.schema}.orders (id int PRIMARY KEY)")
        connection.commit()
        for given in (connection.transaction(), given_up(connection.transaction())):
            with given:
                connection.execute(f"INSERT INTO {box.schema}.orders SELECT count(*) FROM {box.schema}.orders")
                with box.session(connection) as tx:
                    tx.publish([sq.Message(type="order")])
        assert connection.execute(f"SELECT id FROM {box.schema}.orders").fetchall() == [(0,)]
    assert len(stored(box)) == 1
