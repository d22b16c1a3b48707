"""Sending to two regions: whose the numbers are, and who knows them."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.statements import Statements
from seriatim.errors import Unavailable, UsageError
from seriatim.regions.journal.values import WantedMessage, digest_of
from tests.regions.away import away
from tests.regions.two import NAME, Two, message


def numbers(sent: list) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(one.session, one.number, one.known_by) for one in sent]


def test_a_message_is_in_both_boxes(two: Two) -> None:
    assert numbers(two.regions.publish([message("s", 1, "m1")])) == [("s", 1, ("a", "b"))]
    assert two.has(two.first) == two.has(two.second) == [("s", 1, "m1")]
    assert two.outbox(two.first) == two.outbox(two.second) == []


def test_the_same_again_changes_nothing(two: Two) -> None:
    for _ in range(2):
        assert numbers(two.regions.publish([message("s", 1, "m1"), message("t", 4, "m2")])) == [
            ("s", 1, ("a", "b")), ("t", 4, ("a", "b")),
        ]  # fmt: skip
    assert two.has(two.first) == two.has(two.second) == [("s", 1, "m1"), ("t", 4, "m2")]


def test_numbers_are_given_out(two: Two) -> None:
    given = [message("s", ident="m1"), message("t", ident="m2"), message("s", ident="m3")]
    assert [one.number for one in two.regions.publish(given)] == [1, 1, 2]
    assert [one.number for one in two.regions.publish([*given, message("s")])] == [
        1,
        1,
        2,
        3,
    ]  # who has a number keeps it
    assert two.regions.publish(message("s"))[0].number == 4


def test_with_one_of_the_three_away_senders_go_on(two: Two) -> None:
    with away(two, "a"):
        assert numbers(two.regions.publish(message("s"))) == [("s", 1, ("b", "journal"))]
    assert two.outbox(two.second) != []
    with away(two, "b"):
        assert numbers(two.regions.publish(message("s"))) == [("s", 2, ("a", "journal"))]
    with away(two, "journal"):
        assert numbers(two.regions.publish(message("s"))) == [("s", 3, ("a", "b"))]


def test_each_party_says_whether_a_message_is_known(two: Two) -> None:
    def sent(number: int | None, ident: str) -> tuple[int, bool]:
        (found,) = two.regions.publish(message("s", number, ident))
        return found.number, found.is_known

    assert sent(1, "m1") == (1, False)
    assert sent(None, "m2") == (2, False)
    assert sent(1, "m1") == (1, True)
    with away(two, "a"):
        assert sent(3, "m3") == (3, False)  # b and the journal have it
    with away(two, "b"):
        assert sent(3, "m3") == (3, True)
        assert sent(4, "m4") == (4, False)  # a and the journal have it
    with away(two, "journal"):
        assert sent(None, "m4") == (4, True)


@pytest.mark.parametrize("parties", [("a", "b"), ("a", "journal"), ("b", "journal")])
def test_with_two_away_nothing_is_promised(two: Two, parties: tuple[str, str]) -> None:
    with away(two, *parties), pytest.raises(Unavailable):
        two.regions.publish(message("s", 1, "m1"))
    assert numbers(two.regions.publish(message("s", 1, "m1"))) == [("s", 1, ("a", "b"))]


def test_a_number_that_another_message_has_is_refused(two: Two) -> None:
    two.regions.publish(message("s", 1, "m1"))
    with pytest.raises(sq.NumberRefused, match="message m1 has number 1"):
        two.regions.publish(message("s", 1, "other"))
    with pytest.raises(sq.NumberRefused, match="the highest number is 1"):
        two.regions.publish(message("s", 0, "lower"))
    with pytest.raises(UsageError, match="has the number 1 already"):
        two.regions.publish(message("s", 2, "m1"))


def test_who_is_refused_by_one_box_is_barred_and_gets_the_next_number(two: Two) -> None:
    with away(two, "a"):
        two.regions.publish(message("s", ident="first"))  # b and the journal have number 1
    sender = two.regions._sending()
    following = sender._numbering.next  # type: ignore[union-attr]

    def knows_nothing(messages, places, *, anew=False):  # as it was before the other sender came
        return following(messages, places, anew=anew) if anew else [1]

    sender._numbering.next = knows_nothing  # type: ignore[union-attr, method-assign]
    (sent,) = sender.send([message("s", ident="second")])
    assert (sent.number, sent.known_by) == (2, ("a", "b"))
    withdrawn = two.rows(two.first, "SELECT number, message_id, withdrawn FROM {}.region_numbers ORDER BY 1")
    assert withdrawn == [(1, "second", True), (2, "second", False)]
    assert two.outbox(two.first) == []


def test_who_is_refused_and_cannot_be_barred_raises(two: Two) -> None:
    with away(two, "a", "journal"), pytest.raises(Unavailable):
        two.regions.publish(message("s", 1, "first"))
    with away(two, "journal"), pytest.raises(Unavailable, match="nobody can say what became of it"):
        two.regions.publish(message("s", 1, "second"))
    (answer,) = two.journal.claim(NAME, "status", "a", [_asked("second")])
    assert answer.answer.name == "TAKEN"  # so it was handled under this number
    assert numbers(two.regions.publish(message("s", 1, "second"))) == [("s", 1, ("a", "journal"))]


def _asked(ident: str) -> WantedMessage:
    return WantedMessage("s", 1, ident, digest_of("status", None, b""))


def test_copies_are_visible_later(two: Two) -> None:
    two.regions.publish(message("s", 1, "m1"))
    sql = "SELECT visible_at - now() > '1 s' FROM {0}.entries"
    assert two.rows(two.first, sql) == [(None,)]
    assert two.rows(two.second, sql) == [(True,)]


def test_without_preference_each_session_has_a_home(two: Two) -> None:
    with sq.Regions(
        two.first, two.second, two.journal, name=NAME, prefer=None, spread="100s", patience="30s"
    ) as regions:
        regions.publish([message(f"s{at}", 1) for at in range(20)])
    sql = "SELECT count(*) FILTER (WHERE visible_at IS NULL) FROM {0}.entries"
    (first,), (second,) = two.rows(two.first, sql)[0], two.rows(two.second, sql)[0]
    assert first + second == 20
    assert min(first, second) > 0


def test_one_box_can_be_enough(two: Two) -> None:
    with sq.Regions(two.first, two.second, two.journal, name=NAME, confirm="one", patience="30s") as regions:
        assert numbers(regions.publish(message("s", 1, "m1"))) == [("s", 1, ("a",))]
        with pytest.raises(UsageError, match="numbers of the sender's own"):
            regions.publish(message("s"))
        with pytest.raises(sq.NumberRefused):
            regions.publish(message("s", 1, "m2"))
    assert two.outbox(two.first) == ["m1"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([message(None, 1)], "group_key_missing|null|missing"),
        ([message("s", 1, "x"), message("s", 1, "y")], "two messages have the number 1"),
        ([message("s", 1), message("s")], "number all, or none"),
        ([sq.Message(type="other")], "no queue of the regions"),
    ],
)
def test_bad_messages(two: Two, given: list[sq.Message], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        two.regions.publish(given)
    assert two.has(two.first) == []


def test_any_number_of_messages_takes_the_same_statements(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    for name in ("rows", "value", "do"):
        original = getattr(Statements, name)
        monkeypatch.setattr(
            Statements, name, lambda self, *a, _of=original, **k: (counted.append(a[0]), _of(self, *a, **k))[1]
        )
    two.regions.publish(message("first", 1))  # what is read once
    found = []
    for many in (2, 200):
        counted.clear()
        two.regions.publish([message(f"s{many}-{at}", number) for at in range(many) for number in (1, 2)])
        found.append(len(counted))
    assert found[0] == found[1] > 0


def test_in_a_transaction_of_the_application(two: Two) -> None:
    with two.second.access.connect() as other:  # the connection of an application would be its own
        dsn = other.info.dsn
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE mine (id int)")
        sent = two.regions.publish([message("s", 1, "m1")], connection=connection)
        assert numbers(sent) == [("s", 1, ("b",))]
        again = two.regions.publish([message("s", 1, "m1")], connection=connection)
        assert (sent[0].is_known, again[0].is_known) == (False, True)
        with pytest.raises(sq.NumberRefused):
            two.regions.publish([message("s", 1, "m2")], connection=connection)
        with pytest.raises(UsageError, match="a number of its own"):
            two.regions.publish([message("s")], connection=connection)
        assert two.has(two.second) == []
    assert two.has(two.second) == [("s", 1, "m1")]
    assert two.outbox(two.second) == ["m1"]
    assert [one.copied for one in two.regions.tend()] == [0, 1]
    with psycopg.connect(two.journal_dsn) as connection, pytest.raises(UsageError, match="leads to no box"):
        two.regions.publish([message("s", 2)], connection=connection)


def test_a_message_keeps_its_number_where_only_the_journal_is_left_that_knows_it(two: Two) -> None:
    with away(two, "b"):
        assert two.regions.publish(message("s", ident="m1"))[0].number == 1
    with away(two, "a"):
        assert numbers(two.regions.publish([message("s", ident="m1"), message("s", ident="m2")])) == [
            ("s", 1, ("b", "journal")), ("s", 2, ("b", "journal")),
        ]  # fmt: skip


def test_who_is_refused_asks_whether_an_earlier_call_has_left_it(two: Two) -> None:
    with away(two, "a", "journal"), pytest.raises(Unavailable):
        two.regions.publish(message("s", 1, "m1"))  # in b only
    two.regions.publish(message("s", 2, "m2"))
    two.regions.tend()  # a's copy is below 2, and no vote
    with pytest.raises(Unavailable, match="an earlier call has left it in a region"):
        two.regions.publish(message("s", 1, "m1"))
    (answer,) = two.journal.claim(NAME, "status", "a", [_asked("m1")])
    assert answer.answer.name == "TAKEN"
    assert numbers(two.regions.publish(message("s", 1, "m1"))) == [("s", 1, ("journal",))]


def test_a_session_in_an_open_transaction_is_refused_and_others_are_sent(two: Two) -> None:
    with (
        sq.Regions(two.first, two.second, two.journal, name=NAME, patience="4s", retry_after="1000s") as regions,
        psycopg.connect(two.first.dsn) as connection,
    ):
        regions.publish(message("s", 1, "mine"), connection=connection)
        locked = "another transaction in region a has messages of the session; 1 messages of other sessions are sent"
        with pytest.raises(Unavailable, match=locked):
            regions.publish([message("s", 1, "other"), message("t", 1, "m2")])
        assert not regions._boxes["a"].is_away
        connection.commit()
        regions.tend()
    assert two.has(two.first) == two.has(two.second) == [("s", 1, "mine"), ("t", 1, "m2")]


def test_a_region_whose_messages_are_not_counted_in_time_is_not_away(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seriatim.regions.seeing.LOOK_S", 4.1)
    with (
        sq.Regions(two.first, two.second, two.journal, name=NAME, patience="4s", retry_after="1000s") as regions,
        psycopg.connect(two.first.dsn) as connection,
    ):
        connection.execute(f"LOCK TABLE {two.first.schema}.region_waiting")  # which nobody else reads here
        first, second = regions.status().regions
        assert (first.state, first.outbox, second.state, second.outbox) == ("votes", None, "votes", 0)
        assert "region a is busy: it didn't answer within 4.1 s" in str(first.why)
        assert regions.publish(message("s", 1))[0].known_by == ("a", "b")


def test_a_box_whose_sessions_are_locked_as_a_table_is_away(two: Two) -> None:
    with (
        sq.Regions(two.first, two.second, two.journal, name=NAME, patience="4s", retry_after="1000s") as regions,
        psycopg.connect(two.first.dsn) as connection,
    ):
        connection.execute(f"LOCK TABLE {two.first.schema}.region_sessions IN SHARE MODE".encode())
        assert numbers(regions.publish(message("s", 1, "m1"))) == [("s", 1, ("b", "journal"))]
        assert regions._boxes["a"].is_away
