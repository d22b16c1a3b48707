"""Numbers of the journal in a transaction of the application: kept before the commit, confirmed after it, and another one where that was too late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import psycopg
import pytest

import seriatim as sq
from seriatim.errors import Unavailable, UsageError
from seriatim.kernel.values.time import micros
from seriatim.regions import waiting
from seriatim.regions.outbox import Copied
from tests.regions.away import away
from tests.regions.journal.given import let_pass
from tests.regions.test_restored import restored
from tests.regions.two import NAME, Two, message, past
from tests.regions.working import Handled

_LATE_S = 20.0


@pytest.fixture
def sender(two: Two) -> Iterator[Two]:
    """The regions of a sender to which the journal gives numbers; copies may be handed out at once."""
    with sq.Regions(
        two.first, two.second, two.journal, name=NAME, numbers="journal", prefer=0, patience="30s", retry_after=0
    ) as regions:
        yield replace(two, regions=regions)


@contextmanager
def application(two: Two) -> Iterator[psycopg.Connection]:
    """A transaction of an application in the database of region a."""
    with two.first.access.connect() as other:
        dsn = other.info.dsn
    with psycopg.connect(dsn) as connection:
        yield connection


def _sent(two: Two, *idents: str, session: str = "s") -> list[int]:
    """Publish in a transaction that commits; the numbers that are kept."""
    with application(two) as connection:
        found = two.regions.publish([message(session, ident=one) for one in idents], connection=connection)
    return [one.number for one in found]


def _numbers(two: Two) -> list[tuple[int, str]]:
    return [(number, ident) for _, number, ident in two.has(two.first)]


def test_what_is_committed_is_confirmed_and_comes_to_both_boxes(sender: Two) -> None:
    at = datetime(2026, 11, 28, 3, 5, tzinfo=UTC)
    rich = sq.Message(
        type="status", body=b"\x00\xff", message_id="m1", content_type="a/b",
        context={"session": "s", "price": Decimal("1.50"), "at": at}, parts=[sq.Part("p", "t/x", b"1"), sq.Part("q", None, b"")],
    )  # fmt: skip
    with application(sender) as connection:
        connection.execute("CREATE TABLE mine (id int)")
        found = sender.regions.publish(
            [rich, message("s", ident="m2"), message("t", ident="m3")], connection=connection
        )
        assert [(one.session, one.number, one.known_by) for one in found] == [
            ("s", 1, ("a",)), ("s", 2, ("a",)), ("t", 1, ("a",)),
        ]  # fmt: skip
        again = sender.regions.publish([message("s", ident="m2"), message("s", ident="m4")], connection=connection)
        assert [(one.number, one.is_known) for one in again] == [(2, True), (3, False)]  # who has a number keeps it
        assert sender.regions.tend()[0].sent == 0
    assert _sent(sender, "m2") == [2]
    assert sender.has(sender.first) == sender.has(sender.second) == []
    assert sender.regions.status().regions[0].outbox == 4
    assert [(one.sent, one.copied) for one in sender.regions.tend()] == [(4, 4), (0, 0)]
    assert sender.has(sender.first) == sender.has(sender.second) == [
        ("s", 1, "m1"), ("s", 2, "m2"), ("s", 3, "m4"), ("t", 1, "m3"),
    ]  # fmt: skip
    for box in sender.boxes:
        got = box.peek("status")[0].message
        assert (got.body, got.content_type, got.context["price"], got.context["at"]) == (
            b"\x00\xff",
            "a/b",
            Decimal("1.50"),
            at,
        )
        assert got.context["number"] == 1
    assert _sent(sender, "m2") == [2]
    assert sender.regions.tend()[0].sent == 0
    handled = Handled(sender.regions)
    handled.work("b")
    assert handled.work("a") == []
    assert (handled.of("s"), handled.of("t")) == ([1, 2, 3], [1])


def test_a_number_whose_transaction_is_rolled_back_is_void_after_its_time(sender: Two) -> None:
    with application(sender) as connection:
        assert sender.regions.publish(message("s", ident="m1"), connection=connection)[0].number == 1
        connection.rollback()
    assert sender.regions.publish(message("s", ident="m2"))[0].number == 2
    handled = Handled(sender.regions)
    assert handled.work("a") == []
    let_pass(sender.journal, _LATE_S)
    sender.rows(sender.first, "UPDATE {0}.entries SET visible_at = NULL, postponed_until = NULL RETURNING 1")
    sender.rows(sender.first, "UPDATE {0}.known_groups SET due_at = 0 RETURNING 1")
    assert handled.work("a") == [("s", 2)]
    assert _sent(sender, "m1") == [3]


def test_a_message_whose_transaction_took_too_long_gets_another_number_and_is_handled_once(sender: Two) -> None:
    with application(sender) as connection:
        assert [
            one.number
            for one in sender.regions.publish(
                [message("s", ident="m1"), message("s", ident="m2")], connection=connection
            )
        ] == [1, 2]
        assert sender.regions.publish(message("s", ident="m3"))[0].number == 3
        let_pass(sender.journal, _LATE_S)
    handled = Handled(sender.regions)
    assert sender.regions.tend()[0].sent == 2
    assert sender.regions.tend()[0].sent == 0
    assert _numbers(sender) == [(3, "m3"), (4, "m1"), (5, "m2")]
    assert [one.message.context["number"] for one in sender.second.peek("status")] == [3, 4, 5]
    assert handled.work("b") == [("s", 3), ("s", 4), ("s", 5)]
    assert handled.work("a") == []
    assert handled.of("s") == [3, 4, 5]


def test_who_tends_with_what_was_true_before_does_nothing(sender: Two) -> None:
    """Another process has read the rows, and stood still until the first one had confirmed, renumbered and sent."""
    _sent(sender, "m1")
    pair = sender.regions._pair

    def read() -> list[waiting._Waiting]:
        return pair.in_box("a", lambda one: waiting._all_waiting(one, pair, "a", 0))

    before = read()
    let_pass(sender.journal, _LATE_S)
    assert waiting._send(pair, "a", before, Copied("a")) == 1
    anew = read()
    assert [one.place.number for one in anew] == [2]
    late = Copied("a")
    assert waiting._send(pair, "a", before, late) == 0  # its comparison fails
    assert waiting._confirm(pair, "status", anew, Copied("a")) == []  # and a process that died after this
    assert sender.regions.tend()[0].sent == 1
    for rows in (before, anew):
        waiting._send(pair, "a", rows, late)
    assert (late.sent, late.waiting) == (0, {})
    assert _numbers(sender) == [(2, "m1")]
    known = [one for one in sender.journal.entries(NAME, "status", "s") if one.message_id == "m1"]
    assert [one.number for one in known] == [2]


def test_a_box_that_was_restored_sends_nothing_twice(sender: Two) -> None:
    """What its backup has as waiting was sent since, under another number."""
    _sent(sender, "m1")
    with sender.first.access.connect() as connection:
        connection.execute(f"CREATE TABLE kept AS TABLE {sender.first.schema}.region_waiting".encode())
    let_pass(sender.journal, _LATE_S)
    sender.regions.tend()
    handled = Handled(sender.regions)
    assert handled.work("b") == [("s", 2)]
    restored(sender, sender.first)
    sender.rows(sender.first, "INSERT INTO {0}.region_waiting OVERRIDING SYSTEM VALUE TABLE kept RETURNING 1")
    assert sender.regions.tend()[0].sent == 1
    assert _numbers(sender) == [(2, "m1")]
    assert handled.work("a") == []
    assert handled.of("s") == [2]
    assert sender.has(sender.first) == []


def test_who_is_away_is_told_and_what_a_box_does_not_take_holds_up_nobody(sender: Two, caplog) -> None:
    with away(sender, "journal"), pytest.raises(Unavailable):
        _sent(sender, "m1")
    with application(sender) as connection, pytest.raises(UsageError, match="leave the number out"):
        sender.regions.publish(message("s", 1), connection=connection)
    assert _sent(sender, "m1", session="s") + _sent(sender, "m2", session="t") == [1, 1]
    with away(sender, "journal"):
        found = sender.regions.tend()[0]
        assert (found.sent, "cut off" in str(found.why)) == (0, True)
    past(sender.first, message("u", 1, "m1"))  # past the regions, under this id
    found = sender.regions.tend()[0]
    assert (found.sent, list(found.waiting)) == (1, ["m1"])
    assert "was published before" in found.waiting["m1"]
    assert ("t", 1, "m2") in sender.has(sender.second)
    assert list(sender.regions.tend()[0].waiting) == ["m1"]
    assert len([one for one in caplog.records if getattr(one, "event", "") == "region_copies_wait"]) == 1


def test_a_message_that_is_also_published_without_a_connection_has_one_number(sender: Two) -> None:
    _sent(sender, "m1")
    with pytest.raises(
        Unavailable, match="was committed in a transaction of region a, and its number isn't confirmed yet"
    ):
        sender.regions.publish(message("s", ident="m1"))
    with away(sender, "a"):  # whose row nobody sees now
        assert sender.regions.publish(message("s", ident="m1"))[0].number == 2
    found = sender.regions.tend()[0]
    assert (found.sent, found.waiting) == (1, {})
    assert _numbers(sender) == [(2, "m1")]
    let_pass(sender.journal, _LATE_S)
    handled = Handled(sender.regions)
    assert handled.work("a") + handled.work("b") == [("s", 2)]


def test_two_calls_for_one_message_are_confirmed_under_one_number(sender: Two) -> None:
    slow = sender.regions._sending()
    write = slow._write  # type: ignore[union-attr]

    def write_late(ones: list) -> None:
        assert sender.regions.publish(message("s", ident="m1"))[0].number == 2
        write(ones)

    slow._write = write_late  # type: ignore[union-attr, method-assign]
    with pytest.raises(Unavailable, match="sent message m1 at the same time, under number 2"):
        slow.send([message("s", ident="m1")])
    assert sender.regions.publish(message("s", ident="m1"))[0].number == 2
    assert _numbers(sender) == [(2, "m1")]
    assert [one.number for one in sender.journal.entries(NAME, "status", "s") if one.message_id == "m1"] == [2]


def test_a_message_that_waits_keeps_its_session(sender: Two) -> None:
    _sent(sender, "m1")
    sender.rows(sender.first, "UPDATE {0}.region_waiting SET published_at = now() - interval '50 s' RETURNING 1")
    ages = sender.rows(sender.first, "SELECT outbox, outbox_age, queue_age FROM {0}.region_ages('shop')")[0]
    assert (ages[0], min(ages[1:]) >= micros("50s")) == (1, True)
