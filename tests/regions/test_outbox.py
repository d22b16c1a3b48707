"""What one box has and the other lacks: it is copied, or struck off where it is over."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.translate import is_locked, translated
from seriatim.box.views.invariants import broken
from seriatim.regions.journal.values import WantedMessage, digest_of
from seriatim.regions.outbox import Copied, copy_outbox, report
from seriatim.regions.pair import Pair
from tests.regions.away import away
from tests.regions.two import NAME, Two, message
from tests.regions.working import as_worker


def claimed(two: Two, region: str, session: str, number: int, ident: str) -> str:
    """What a region is answered that asks for a message; if it is taken, it is completed."""
    (found,) = two.journal.claim(
        NAME, "status", region, [WantedMessage(session, number, ident, digest_of("status", None, b""))]
    )
    if found.claim is not None:
        with two.journal.transaction() as tx:
            tx.complete(found.claim)
    return found.answer.name


def test_what_the_other_box_lacks_is_copied(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1"), message("s", 2, "m2")])
    assert (two.has(two.second), two.outbox(two.first)) == ([], ["m1", "m2"])
    first, second = two.regions.tend()
    assert (first.copied, first.over, second.copied) == (2, 0, 0)
    assert two.has(two.second) == two.has(two.first)
    assert two.outbox(two.first) == two.outbox(two.second) == []
    assert [one.copied for one in two.regions.tend()] == [0, 0]


def test_a_copy_is_a_vote_above_all_that_the_box_knows(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish(message("s", 1, "m1"))
    two.regions.tend()
    assert two.regions.publish(message("s", 1, "m1"))[0].known_by == ("a", "b")
    with away(two, "b"):
        two.regions.publish(message("s", 2, "m2"))
    with away(two, "a"):
        two.regions.publish(message("s", 3, "m3"))
    two.regions.tend()
    sql = "SELECT message_id, voted, is_copy FROM {}.region_numbers ORDER BY 1"
    assert two.rows(two.second, sql) == [("m1", True, True), ("m2", False, True), ("m3", True, False)]


def test_a_copy_is_as_it_was(two: Two) -> None:
    given = sq.Message(
        type="status", body=b"\x00body", content_type="text/plain", message_id="m1",
        context={"session": "s", "number": 1, "price": Decimal("1.50"), "at": datetime(2026, 1, 2, tzinfo=UTC)},
        parts=[sq.Part("one", None, b"1"), sq.Part("two", "text/plain", b"2")],
    )  # fmt: skip
    with away(two, "b"):
        two.regions.publish(given)
    two.regions.tend()
    two.rows(two.second, "UPDATE {0}.entries SET visible_at = NULL RETURNING 1")
    with as_worker(two.first) as one, as_worker(two.second) as other:
        mine, copy = one.receive("status").messages[0], other.receive("status").messages[0]
    for name in ("type", "body", "content_type", "message_id", "context", "parts", "group", "sequence"):
        assert getattr(mine, name) == getattr(copy, name), name


def test_what_is_over_is_struck_off(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1"), message("s", 2, "m2")])
    assert claimed(two, "a", "s", 1, "m1") == "TAKEN"
    found = two.regions.tend()[0]
    assert (found.copied, found.over) == (1, 1)
    assert two.has(two.second) == [("s", 2, "m2")]


def test_what_is_over_is_struck_off_while_the_other_region_is_away(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1"), message("t", 1, "m2")])
        assert claimed(two, "a", "t", 1, "m2") == "TAKEN"
        found = two.regions.tend()[0]
        assert (found.copied, found.over) == (0, 1)
        assert two.outbox(two.first) == ["m1"]


def test_all_that_is_over_is_struck_off_while_the_other_region_is_away(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 2)
    with away(two, "b"):
        for at, session in enumerate("stuv"):
            two.regions.publish(message(session, 1, f"m{at}"))
        for at, session in [(1, "t"), (2, "u"), (3, "v")]:
            assert claimed(two, "a", session, 1, f"m{at}") == "TAKEN"
        found = two.regions.tend()[0]
        assert (found.copied, found.over) == (0, 3)
        assert "cut off" in (found.why or "")
        assert two.outbox(two.first) == ["m0"]


def test_messages_that_stand_at_the_head_keep_none_behind_them_from_being_struck_off(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 1)
    with away(two, "b"):
        for at in range(8):
            two.regions.publish(message(f"s{at}", 1, f"m{at}"))
        assert claimed(two, "a", "s7", 1, "m7") == "TAKEN"
        assert [two.regions.tend()[0].over for _ in range(3)] == [0, 1, 0]
        assert "m7" not in two.outbox(two.first)
        assert len(two.outbox(two.first)) == 7
    assert two.regions.tend()[0].copied == 7


def test_no_message_overtakes_one_that_could_not_be_copied(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 1)
    copied = Copied("a")
    with away(two, "b"):
        for number in (1, 2, 3):
            two.regions.publish(message("s", number, f"m{number}"))
        outbox = copy_outbox(two.regions._pair, copied)
        next(outbox)
    assert len(list(outbox)) == 2
    assert copied.copied == 0
    assert two.regions.tend()[0].copied == 3


def test_the_lock_on_publishing_is_no_locked_session(two: Two) -> None:
    with psycopg.connect(two.second.dsn) as holding, psycopg.connect(two.second.dsn) as waiting:
        for connection in (holding, waiting):
            connection.execute(f"SET search_path TO {two.second.schema}")
        holding.execute("SELECT pg_advisory_xact_lock(lock_of('publishers'))")
        waiting.execute("SET lock_timeout = '50ms'")
        with pytest.raises(sq.Unavailable, match="publishing") as caught, translated("the box"):
            waiting.execute("SELECT hold_definitions()")
    assert not is_locked(caught.value)


def test_a_locked_session_holds_up_no_copy_of_another(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 3)
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1"), message("t", 1, "m2"), message("s", 2, "m3")])
        two.regions.publish([message("s", 3, "m4"), message("t", 2, "m5")])
    with (
        sq.Regions(two.first, two.second, two.journal, name=NAME, patience="4s", retry_after=0) as regions,
        psycopg.connect(two.second.dsn) as connection,
    ):
        regions.publish(message("s", 1, "other"), connection=connection)
        found = regions.tend()[0]
        assert (found.copied, two.outbox(two.first)) == (2, ["m1", "m3", "m4"])
        assert found.why is not None
        assert [ident for *_, ident in two.has(two.second)] == ["m2", "m5"]
        connection.rollback()
        assert regions.tend()[0].copied == 3
    assert [ident for *_, ident in two.has(two.second)] == ["m1", "m3", "m4", "m2", "m5"]


def test_a_long_outbox_leaves_other_work_its_turn(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 1)
    monkeypatch.setattr("seriatim.regions.regions._TURN", 1)
    with away(two, "b"):
        two.regions.publish([message("s", number) for number in (1, 2, 3)])
    with away(two, "a"):
        two.regions.publish(message("t", 1))
    seen = []

    def look() -> None:
        reported = [one.region for one in two.journal.regions(NAME) if one.reported_at is not None]
        seen.append((len(two.outbox(two.first)), len(two.outbox(two.second)), reported))

    two.regions.tend(progress=look)
    assert seen == [(2, 1, []), (2, 0, []), (1, 0, ["a", "b"]), (0, 0, ["a", "b"])]


def test_a_long_outbox_is_not_counted_after_each_turn(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seriatim.regions.outbox.PORTION", 1)
    monkeypatch.setattr("seriatim.regions.regions._TURN", 1)
    seconds = count()
    monkeypatch.setattr("seriatim.regions.regions.monotonic", lambda: float(next(seconds)), raising=False)
    reported: list[tuple[str, int]] = []

    def counted(pair: Pair, region: str) -> bool:
        reported.append((region, len(two.outbox(two.first))))
        return report(pair, region)

    monkeypatch.setattr("seriatim.regions.regions.report", counted)
    with away(two, "b"):
        two.regions.publish([message("s", number) for number in range(1, 9)])
    two.regions.tend()
    assert reported[:2] == [("a", 7), ("b", 7)]
    assert reported[-2:] == [("a", 0), ("b", 0)]
    assert len(reported) < 2 * 8


def test_two_messages_with_one_number_are_both_kept(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish(message("s", 1, "mine"))
    with away(two, "a", "journal"), suppress(sq.Unavailable):
        two.regions.publish(message("s", 1, "other"))
    two.regions.tend()
    sql = "SELECT message_id, voted, beside FROM {}.region_numbers ORDER BY 1"
    assert two.rows(two.first, sql) == [("mine", True, False), ("other", False, True)]
    assert two.rows(two.second, sql) == [
        ("mine", False, False),
        ("other", True, True),
    ]  # the journal has voted for mine
    assert claimed(two, "b", "s", 1, "other") == "CONFLICT"
    assert two.has(two.first) == two.has(two.second) == [("s", 1, "mine")]
    assert claimed(two, "b", "s", 1, "mine") == "TAKEN"
    two.second.tick()
    two.regions.tend()
    aside = "SELECT disposition, message_id FROM {0}.aside JOIN {0}.spool USING (arrival_id, position)"
    assert [two.rows(box, aside) for box in two.boxes] == [[("duplicate", "other")]] * 2
    for box in two.boxes:
        with box.access.transaction() as transaction:
            assert broken(transaction) == []


def test_what_was_set_aside_too_early_comes_back_as_the_other_one(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish(message("s", 1, "mine"))
    with away(two, "a", "journal"), suppress(sq.Unavailable):
        two.regions.publish(message("s", 1, "other"))
    two.rows(two.second, "UPDATE {0}.entries SET visible_at = NULL RETURNING 1")
    with as_worker(two.second) as tx:
        delivery = tx.receive("status")
        assert delivery is not None
        delivery.dead_letter("its number is another message's")
    two.regions.tend()  # the copy of mine comes, lies beside the queue, and takes the place of the other one
    assert two.has(two.second) == [("s", 1, "mine")]
    two.rows(two.second, "UPDATE {0}.entries SET visible_at = NULL RETURNING 1")
    with as_worker(two.second) as tx:
        received = tx.receive("status")
        assert received is not None
        assert [one.message_id for one in received.messages] == ["mine"]


def test_what_the_other_box_leads_elsewhere_waits(two: Two) -> None:
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1"), message("t", 1, "m2")])
    two.second.define(sq.Subscription("to-status", where="type = 'status' AND session <> 't'", to="status"))
    found = two.regions.tend()[0]
    assert (found.copied, list(found.waiting)) == (1, ["m2"])
    assert "no queue of the regions" in found.waiting["m2"]
    assert two.outbox(two.first) == ["m2"]
    two.regions.define(sq.Subscription("to-status", where="type = 'status'", to="status"))
    assert two.regions.tend()[0].copied == 1


def test_the_second_look_of_a_region_lets_the_journal_forget(two: Two) -> None:
    two.regions.publish(message("s", 1, "m1"))
    assert claimed(two, "a", "s", 1, "m1") == "TAKEN"
    for box in two.boxes:
        two.rows(box, "DELETE FROM {0}.entries RETURNING 1")
    assert two.journal.purge(NAME, 0).sessions == 0
    for _ in range(3):
        two.regions.tend()
    assert two.journal.purge(NAME, 0).sessions == 1
