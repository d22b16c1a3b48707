"""A pipeline reads what comes for a service: in order, in batches that stay as they are, and its sides end by themselves."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.postgres import statements
from seriatim.operations import dialogs, invariants, messages
from tests.dialogs.talking import begun, far_of, let_expire, states


@pytest.fixture
def feed(talk):
    with PipelineFeed(talk.dsn, talk.schema, service="Inventory", pipeline="p") as found:
        yield found


class Reader:
    """Reads a feed batch by batch, as a query does."""

    def __init__(self, feed):
        self.feed = feed
        self.name, self.batch = "", 0

    def next(self, at_most=None):
        """The rows of the next batch; the one before is done."""
        if self.name:
            self.feed.done(self.name, self.batch)
        before = self.batch
        self.name, self.batch, _ = self.feed.next(self.name, self.batch, at_most)
        return self.rows(before)

    def rows(self, after):
        properties = self.feed.properties()
        parts = self.feed.parts(self.name, after, self.batch)
        tables = [table for part in parts for table in self.feed.read(after, self.batch, part, properties)]
        return [row for table in tables for row in table.to_pylist()]


def short(rows):
    return [(row["type"], row["dialog_sequence"], row["body"]) for row in rows]


def test_the_columns_tell_of_the_dialog(talk, feed):
    handle = begun(talk, b"1", b"2")
    rows = Reader(feed).next()
    assert short(rows) == [("AddItem", 0, b"1"), ("AddItem", 1, b"2")]
    (ours,) = dialogs.dialogs(talk, handle=handle)
    far = far_of(talk, handle)
    for row in rows:
        assert (row["handle"], row["conversation_id"]) == (str(far), str(ours.conversation_id))
        assert (row["service"], row["far_service"], row["contract"]) == ("Inventory", "Orders", "AddItem")
        assert (row["is_initiator"], row["is_monolog"]) == (False, False)
    assert states(talk)[far] == "CO"
    assert [row["ordinal"] for row in rows] == [1, 2]


def test_a_side_ends_with_the_batch_that_has_the_end(talk, feed):
    handle = begun(talk, b"1")
    far, reader = far_of(talk, handle), Reader(feed)
    assert short(reader.next()) == [("AddItem", 0, b"1")]
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        tx.end(handle)
    before = reader.batch
    rows = [("AddItem", 1, b"2"), ("EndDialog", 2, b"")]
    assert short(reader.next()) == rows
    assert (states(talk)[handle], states(talk)[far]) == ("CD", "CD")
    with talk.session() as tx:
        tx.connection.execute(f"SELECT {talk.schema}.forget_closed('0 s')")
    assert short(reader.rows(before)) == rows
    assert reader.next() == []
    assert invariants.broken(talk) == []


def test_what_waits_behind_an_error_comes_too(talk, feed):
    handle = begun(talk, b"1", b"2", b"3")
    reader = Reader(feed)
    assert short(reader.next(1)) == [("AddItem", 0, b"1")]
    with talk.session() as tx:
        tx.end(handle, error=(7, "sold out"))
    (error,) = reader.next(1)
    assert error["type"] == "Error"
    assert b"sold out" in error["body"]
    assert (states(talk)[handle], states(talk)[far_of(talk, handle)]) == ("CD", "CD")
    assert short(reader.next()) == [("AddItem", 1, b"2"), ("AddItem", 2, b"3")]
    assert reader.next() == []
    assert invariants.broken(talk) == []


def test_a_batch_stays_as_it_is_when_its_dialog_ends(talk, feed):
    handle = begun(talk, b"1", b"2")
    reader = Reader(feed)
    rows = short(reader.next())
    let_expire(talk, handle)
    talk.tick()
    assert set(states(talk).values()) == {"ER"}
    assert short(reader.rows(0)) == rows
    assert [row["type"] for row in reader.next()] == ["Error"]
    assert states(talk)[far_of(talk, handle)] == "CD"


def test_an_end_from_elsewhere_takes_nothing_out_of_a_batch(talk, feed):
    handle = begun(talk, b"1", b"2", b"3")
    reader = Reader(feed)
    rows = short(reader.next(2))
    with talk.session() as tx:
        tx.end(far_of(talk, handle), cleanup=True)
    assert short(reader.rows(0)) == rows
    assert reader.next() == []
    assert invariants.broken(talk) == []


def test_a_lifetime_that_is_over_is_noticed(talk, feed):
    handle = begun(talk, lifetime="1h")
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"1")
    let_expire(talk, handle)
    assert [row["type"] for row in Reader(feed).next()] == ["Error"]


def test_what_waited_for_room_comes_when_there_is_some(talk, feed):
    talk.define(sq.Queue("inventory", group="conversation_group", max_messages=2))
    begun(talk, b"1", b"2")
    handle = begun(talk, b"3")
    with talk.session() as tx:
        tx.end(handle)
    reader = Reader(feed)
    found = []
    for _ in range(5):
        found += short(reader.next(1))
    assert found == [("AddItem", 0, b"1"), ("AddItem", 1, b"2"), ("AddItem", 0, b"3"), ("EndDialog", 1, b"")]


def test_what_is_there_now_can_be_looked_at(talk, feed):
    begun(talk, b"1")
    properties = feed.properties()
    (row,) = [row for part in feed.parts_now() for one in feed.read_now(part, properties) for row in one.to_pylist()]
    assert (row["body"], row["service"]) == (b"1", "Inventory")


def test_a_service_that_is_not_there(talk):
    with pytest.raises(sq.UsageError, match="no service 'Inventry'"):
        PipelineFeed(talk.dsn, talk.schema, service="Inventry")


@pytest.fixture
def strict(talk):
    """Bodies are JSON objects."""
    talk.define(sq.MessageType("AddItem", validation="valid_json", schema='{"type": "object"}'))
    return talk


def test_the_dialog_ends_with_an_error_that_names_the_violation(strict, feed):
    begun(strict, b"{}", b"{ }")
    wrong = begun(strict, b"{}", b"[]", b"{ }")
    with strict.session() as tx:
        tx.end(wrong)
    rows = Reader(feed).next()
    (error,) = [row for row in rows if row["type"] == "Error"]
    rows.remove(error)
    assert sorted(short(rows)) == [("AddItem", 0, b"{}"), ("AddItem", 0, b"{}"), ("AddItem", 1, b"{ }")]
    assert (error["type"], error["handle"]) == ("Error", str(far_of(strict, wrong)))
    assert b"the message 1 isn't a 'AddItem'" in error["body"]
    assert [(one.status, one.type) for one in messages.messages(strict) if one.status != "in_hand"] == [
        ("invalid", "AddItem"), ("dead", "AddItem"), ("dead", "EndDialog"),
    ]  # fmt: skip
    assert states(strict)[far_of(strict, wrong)] == "CD"
    assert sorted(states(strict).values()) == ["CD", "CD", "CO", "CO"]
    assert invariants.broken(strict) == []


def test_the_first_message_may_be_wrong_and_the_other_side_is_told(strict, feed):
    wrong = begun(strict, b"", b"{}")
    reader = Reader(feed)
    assert [row["type"] for row in reader.next()] == ["Error"]
    assert states(strict)[wrong] == "ER"
    with strict.session() as tx:
        assert [one.type for one in tx.receive("orders")] == ["Error"]
    assert reader.next() == []
    assert invariants.broken(strict) == []


def test_of_dialogs_in_one_group_the_others_go_on(strict, feed):
    handles = [begun(strict, b"{}", b"{ }"), begun(strict, b"{}", b"1"), begun(strict, b"{}", b"{ }")]
    group = dialogs.dialogs(strict, handle=far_of(strict, handles[0]))[0].group_id
    with strict.session() as tx:
        for handle in handles[1:]:
            tx.move(far_of(strict, handle), group)
    rows = short(Reader(feed).next())
    assert rows[:5] == [
        ("AddItem", 0, b"{}"),
        ("AddItem", 1, b"{ }"),
        *[("AddItem", 0, b"{}")] * 2,
        ("AddItem", 1, b"{ }"),
    ]
    assert [kind for kind, *_ in rows[5:]] == ["Error"]


def test_a_batch_is_filled_with_others_and_stays_as_it_is(strict, feed):
    begun(strict, b"{}", b"{}", b"[]", b"{}")
    begun(strict, b"{}", b"{}", b"{}")
    reader, found = Reader(feed), []
    while rows := short(reader.next(3)):
        found.append(rows)
        assert short(reader.rows(reader.batch - 1)) == rows
    assert all(len(rows) <= 3 for rows in found)
    assert sorted(kind for rows in found for kind, *_ in rows) == ["AddItem"] * 5 + ["Error"]
    assert invariants.broken(strict) == []


def test_as_many_as_fail_are_one_statement(strict, feed, monkeypatch):
    asked = []
    read = statements.statement

    def noted(name, *given, **options):
        asked.append(name)
        return read(name, *given, **options)

    monkeypatch.setattr(statements, "statement", noted)
    for _ in range(12):
        begun(strict, b"[]")
    assert [row["type"] for row in Reader(feed).next()] == ["Error"] * 12
    assert [name for name in asked if name in ("bodies_in_batch", "fail_in_batch")][:2] == [
        "bodies_in_batch", "fail_in_batch",
    ]  # fmt: skip
    assert asked.count("fail_in_batch") == 1
