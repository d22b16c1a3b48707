"""A box that was restored: it votes again when it has learned from both others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import seriatim as sq
from seriatim.errors import Unavailable
from seriatim.operations import identity
from seriatim.regions.box_role import role_of
from seriatim.regions.box_votes import Way, strike, vote
from seriatim.regions.numbered import Numbered, SessionNumber
from seriatim.regions.restoring import restore
from tests.blocked import wait_until_blocked
from tests.regions.away import away
from tests.regions.two import NAME, Two, message
from tests.regions.working import Handled


def restored(two: Two, box: sq.MessageBox) -> None:
    """The box has gone back to when it was empty."""
    two.rows(box, "UPDATE {0}.box_identity SET incarnation = incarnation + 1 RETURNING 1")
    for table in (
        "region_numbers", "region_sessions", "region_outbox", "entries", "known_groups", "spool", "message_ids"
    ):  # fmt: skip
        two.rows(box, f"DELETE FROM {{0}}.{table} RETURNING 1")


def test_a_restored_box_knows_the_numbers_of_the_others(two: Two) -> None:
    with away(two, "journal"):
        two.regions.publish([message("s", ident="m1"), message("s", ident="m2")])  # a and b
    with away(two, "b"):
        two.regions.publish(message("t", ident="m3"))  # a and the journal
    restored(two, two.first)
    two.regions.tend()
    assert two.regions.publish(message("s"))[0].number == 3
    assert two.regions.publish(message("t"))[0].number == 2
    role = two.rows(two.first, "SELECT incarnation, learned FROM {0}.region_roles")
    assert role == [(2, 2)]
    assert [(one.region, one.incarnation) for one in two.journal.regions(NAME)] == [("a", 2), ("b", 1)]


def test_it_is_away_until_it_has_learned(two: Two) -> None:
    two.regions.publish(message("s", ident="m1"))
    restored(two, two.first)
    with away(two, "journal"), pytest.raises(Unavailable):
        two.regions.publish(message("s"))
    with away(two, "b"), pytest.raises(Unavailable):
        two.regions.publish(message("s"))
    assert two.regions.publish(message("s"))[0].known_by == ("b", "journal")
    two.regions.tend()
    assert two.regions.publish(message("s"))[0].known_by == ("a", "b")


def test_it_rewrites_no_message_and_its_earlier_votes_do_not_count(two: Two) -> None:
    published = [message("s", 1, "m1"), message("s", 2, "m2")]
    two.regions.publish(published)

    def votes() -> list[bool]:
        messages = [Numbered(one, (SessionNumber("status", "s", n),)) for n, one in enumerate(published, 1)]
        with two.first.access.transaction() as transaction:
            return vote(transaction, NAME, "a", messages, way=Way.SENT).votes

    assert votes() == [True, True]
    two.rows(two.first, "UPDATE {0}.box_identity SET incarnation = incarnation + 1 RETURNING 1")
    rows = "SELECT message_id, ctid::text FROM {0}.region_numbers ORDER BY 1"
    before = two.rows(two.first, rows)
    two.regions.tend()
    assert two.rows(two.first, rows) == before
    assert votes() == [False, False]
    for _ in range(2):
        assert two.regions.publish(message("t", 1, "m3"))[0].known_by == ("a", "b")


def test_a_box_that_was_given_a_new_id_learns_first(two: Two) -> None:
    # It went back in time on its own server, where nothing but an operator notices it.
    two.regions.publish([message("s", ident="m1"), message("s", ident="m2")])
    before = two.rows(two.first, "SELECT box_id, incarnation FROM {0}.box_identity")
    restored(two, two.first)
    two.rows(two.first, "UPDATE {0}.box_identity SET incarnation = %s RETURNING 1", before[0][1])
    identity.new_id(two.first, actor="ann", reason="a dump was restored in its place")
    with away(two, "journal"), pytest.raises(Unavailable):
        two.regions.publish(message("s"))
    two.regions.tend()
    assert two.regions.publish(message("s"))[0].number == 3
    assert two.rows(two.first, "SELECT incarnation, learned FROM {0}.region_roles") == [(2, 2)]


def test_a_vote_from_before_a_restore_does_not_count(two: Two) -> None:
    sender = two.regions._sending()
    ask = sender._ask_box

    def ask_and_lose(at: int, region: str, units: list) -> None:
        ask(at, region, units)
        if region == "a":
            restored(two, two.first)
            assert two.regions.tend()

    sender._ask_box = ask_and_lose  # type: ignore[method-assign]
    with pytest.raises(sq.SeriatimError, match="restored"):
        sender.send([message("s", 1, "m1")])


def test_a_restored_box_waits_for_calls_that_count_its_former_votes(two: Two) -> None:
    def fence() -> None:
        with two.second.access.transaction() as transaction:
            transaction.do("region_fence", of_name=NAME, incarnation=2)

    with ThreadPoolExecutor(1) as others:
        with two.second.access.transaction() as transaction:
            assert role_of(transaction, NAME, "b", holds=True).fence < 2
            restored_since = others.submit(fence)
            wait_until_blocked(two.second.dsn, by=transaction.connection)
        restored_since.result()
    with two.second.access.transaction() as transaction:
        assert role_of(transaction, NAME, "b").fence == 2


def test_a_new_box_in_place_of_a_lost_one_learns_first(two: Two, databases) -> None:
    from tests.databases import fresh_box

    two.regions.publish([message("s", ident="m1"), message("s", ident="m2")])
    with (
        fresh_box(databases) as instead,
        sq.Regions(two.first, instead, two.journal, name=NAME, patience="30s") as regions,
    ):
        from tests.regions.two import STATUS

        regions.define(*STATUS)
        regions.tend()
        assert regions.publish(message("s"))[0].number == 3
        assert two.rows(instead, "SELECT region, incarnation, learned FROM {0}.region_roles") == [("b", 2, 2)]


def test_a_box_that_lost_its_messages_gets_those_that_are_not_over_again(both_at_once: Two) -> None:
    two = both_at_once
    handled = Handled(two.regions)
    two.regions.publish([message("s", 1, "m1"), message("t", 1, "m2")])
    handled.work("a")
    two.regions.publish([message("s", 2, "m3"), message("u", 1, "m4")])
    assert two.outbox(two.first) == two.outbox(two.second) == []
    restored(two, two.second)
    two.regions.tend()
    two.regions.publish(message("s", 3, "m5"))
    assert two.has(two.second) == [("s", 2, "m3"), ("s", 3, "m5"), ("u", 1, "m4")]
    assert two.outbox(two.first) == two.outbox(two.second) == []
    assert handled.work("b") == [("s", 2), ("s", 3), ("u", 1)]


def test_it_votes_when_it_has_them(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two.regions.publish([message("s", 1, "m1"), message("s", 2, "m2")])
    with away(two, "b"):
        two.regions.publish(message("s", 3, "m3"))
    restored(two, two.second)
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 1)

    known_by: list[tuple[str, ...]] = []

    def copied_in_order() -> None:
        had = [number for _, number, _ in two.has(two.second)]
        assert had == list(range(1, len(had) + 1))
        known_by.append(two.regions.publish(message("t"))[0].known_by)

    assert restore(two.regions._pair, "b", progress=copied_in_order)
    assert [number for _, number, _ in two.has(two.second)] == [1, 2, 3]
    assert known_by == [("a", "journal")] * 3
    assert two.regions.publish(message("s", 4))[0].known_by == ("a", "b")


def test_a_box_whose_restore_began_under_an_earlier_version_gets_them_too(two: Two) -> None:
    two.regions.publish(message("s", 1, "m1"))
    restored(two, two.second)
    two.rows(two.first, "UPDATE {0}.region_roles SET fence = 2 RETURNING 1")  # as far as that version came
    two.regions.tend()
    assert two.has(two.second) == [("s", 1, "m1")]
    assert two.regions.publish(message("s", 2))[0].known_by == ("a", "b")


def test_it_votes_although_it_takes_long_to_write_what_it_lacks(two: Two) -> None:
    two.regions.publish(message("s", 1, "m1"))
    restored(two, two.second)
    with (
        sq.Regions(two.first, two.second, two.journal, name=NAME, patience="1s", retry_after=0) as regions,
        two.second.access.connect() as connection,
        ThreadPoolExecutor(1) as others,
    ):
        with connection.transaction():
            connection.execute(f"LOCK TABLE {two.second.schema}.region_numbers IN SHARE MODE".encode())
            tended = others.submit(regions.tend)
            wait_until_blocked(two.second.dsn, by=connection)
            with pytest.raises(TimeoutError):
                tended.result(timeout=3)
        tended.result()
    assert two.has(two.second) == [("s", 1, "m1")]
    assert two.regions.publish(message("s", 2))[0].known_by == ("a", "b")


def _lose_and_learn(two: Two) -> None:
    """Box b is empty, and box a has noted its new incarnation, and what it lacks."""
    restored(two, two.second)
    with two.first.access.transaction() as transaction:
        transaction.do("region_fence", of_name=NAME, incarnation=2)


def test_a_message_that_a_box_has_lost_since_is_not_struck_off(two: Two) -> None:
    sender = two.regions._sending()
    strike = sender._strike

    def lose_and_strike(units: list) -> None:
        _lose_and_learn(two)
        strike(units)

    sender._strike = lose_and_strike  # type: ignore[method-assign]
    assert sender.send([message("s", 1, "m1")])[0].known_by == ("a", "b")
    assert two.outbox(two.first) == ["m1"]
    two.regions.tend()
    assert two.has(two.second) == two.has(two.first) == [("s", 1, "m1")]


def test_a_copy_that_a_box_has_lost_since_is_not_struck_off(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    with away(two, "b"):
        two.regions.publish(message("s", 1, "m1"))

    def lose_and_strike(*arguments: Any) -> None:
        if two.has(two.second):
            _lose_and_learn(two)
        strike(*arguments)

    monkeypatch.setattr("seriatim.regions.outbox.strike", lose_and_strike)
    two.regions.tend()
    assert (two.outbox(two.first), two.has(two.second)) == (["m1"], [])
    monkeypatch.undo()
    two.regions.tend()
    assert two.has(two.second) == two.has(two.first) == [("s", 1, "m1")]
