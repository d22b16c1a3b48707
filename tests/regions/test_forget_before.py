"""Sessions before a key are closed, worked off, and forgotten by both boxes and the journal; one key stays in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import seriatim as sq
from seriatim.operations.retention import purge
from seriatim.regions import closing
from seriatim.regions.closing import ForgottenSessions
from seriatim.regions.pair import Pair
from tests.regions.away import away
from tests.regions.two import NAME, STATUS, Two, message
from tests.regions.working import Handled, go_back, keep

pytestmark = pytest.mark.dear

BY = {"actor": "ann", "reason": "a test"}
NO_MORE = "before '2027-02' take no messages any more"


def forget(two: Two, before: str = "2027-02") -> ForgottenSessions:
    return two.regions.forget("status", before, **BY)


def sessions_of(two: Two) -> list[set[str]]:
    """The sessions that each box and the journal know."""
    known = [{one for (one,) in two.rows(box, "SELECT session FROM {}.region_sessions")} for box in two.boxes]
    return [*known, {one.session for one in two.journal.sessions(name=NAME)}]


def groups_of(two: Two, box: sq.MessageBox) -> set[str]:
    return {one for (one,) in two.rows(box, "SELECT group_key FROM {}.known_groups")}


def worked_off(two: Two, handled: Handled) -> None:
    """Work in both regions until nothing is left."""
    for _ in range(2):
        two.regions.tend()
        for region in ("a", "b"):
            handled.work(region)
    two.regions.tend()


def now(two: Two) -> sq.Regions:
    """Regions of which both boxes hand out at once."""
    return sq.Regions(two.first, two.second, two.journal, name=NAME, prefer=0, patience="30s", retry_after=0)


@pytest.mark.telling
def test_sessions_before_a_key_go_and_one_key_stays_in_their_place(two: Two) -> None:
    with now(two) as two.regions:
        handled = Handled(two.regions)
        two.regions.publish([message("2027-01/1"), message("2027-01/1"), message("2027-01/2"), message("2027-02/1")])
        worked_off(two, handled)
        assert forget(two) == ForgottenSessions("status", "2027-02", 2, 2, 2, ())
        assert sessions_of(two) == [{"2027-02/1"}] * 3
        assert [groups_of(two, box) for box in two.boxes] == [{"2027-02/1"}] * 2
        for box in two.boxes:
            assert two.rows(box, "SELECT session FROM {}.region_numbers WHERE session < '2027-02'") == []
        assert forget(two) == ForgottenSessions("status", "2027-02", 0, 0, 0, ())
        assert forget(two, "2027-01") == ForgottenSessions("status", "2027-01", 0, 0, 0, ())
        assert [one.action for one in two.journal.log(name=NAME)].count("forget") == 1

        two.regions.publish([message("2027-02/1"), message("2027-02")])
        worked_off(two, handled)
        assert handled.of("2027-02/1") == [1, 2]
        assert handled.of("2027-02") == [1]


def sends_in(two: Two, regions: sq.Regions, one: sq.Message) -> None:
    with psycopg.connect(two.first.dsn) as connection:
        regions.publish(one, connection=connection)


WAYS: dict[str, tuple[dict[str, Any], int | None, Callable[[Two, sq.Regions, sq.Message], object]]] = {
    "its own number": ({}, 1, lambda two, regions, one: regions.publish(one)),
    "the next number": ({}, None, lambda two, regions, one: regions.publish(one)),
    "one box confirms": ({"confirm": "one"}, 1, lambda two, regions, one: regions.publish(one)),
    "a number of the journal": ({"numbers": "journal"}, None, lambda two, regions, one: regions.publish(one)),
    "in a transaction": ({}, 1, sends_in),
    "in a transaction, by the journal": ({"numbers": "journal"}, None, sends_in),
}


@pytest.mark.parametrize("is_over", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_session_that_is_closed_takes_no_message(two: Two, way: str, is_over: bool) -> None:
    with now(two) as both:
        both.publish([message("2027-01/1")])
        if is_over:
            worked_off(two, Handled(both))
    assert bool(forget(two).left) != is_over
    options, number, send = WAYS[way]
    with sq.Regions(two.first, two.second, two.journal, name=NAME, patience="30s", retry_after=0, **options) as regions:
        for session, its in (("2027-01/1", 2), ("2027-01/9", 1)):
            with pytest.raises((sq.NumberRefused, sq.UsageError), match="take no messages"):
                send(two, regions, message(session, number and its))
        send(two, regions, message("2027-02/1", number))
        regions.tend()
    left = set() if is_over else {"2027-01/1"}
    assert {one for one, _, _ in two.has(two.first)} == left | {"2027-02/1"}


@pytest.mark.parametrize("lost", ["a", "b"])
def test_one_box_that_is_there_refuses_too(two: Two, lost: str) -> None:
    assert forget(two).left == ()
    with away(two, lost), pytest.raises(sq.Unavailable, match="take no messages"):  # the other may have it
        two.regions.publish(message("2027-01/1", 1))
    with pytest.raises(sq.NumberRefused, match=NO_MORE):
        two.regions.publish(message("2027-01/1", 1))


def test_what_is_left_is_told_and_worked_off(two: Two) -> None:
    with now(two) as two.regions:
        handled = Handled(two.regions)
        with away(two, "b"):
            two.regions.publish([message("2027-01/1"), message("2027-01/2")])
            with pytest.raises(sq.Unavailable):
                forget(two)
        assert forget(two).left == ("2 messages in the outbox of region a",)
        two.regions.tend()
        assert forget(two).left == ("2 messages in the queue of region a", "2 messages in the queue of region b")
        assert handled.work("a") == [("2027-01/1", 1), ("2027-01/2", 1)]
        assert forget(two).left == ("2 messages in the queue of region b",)
        assert handled.work("b") == []
        assert forget(two) == ForgottenSessions("status", "2027-02", 2, 2, 2, ())


def test_what_is_sent_again_under_its_id_keeps_its_number_while_it_is_left(two: Two) -> None:
    one = message("2027-01/1", 1, "one")
    two.regions.publish(one)
    assert forget(two).left
    assert two.regions.publish(one)[0].known_by == ("a", "b")


def test_a_session_that_stands_is_left(two: Two) -> None:
    with now(two) as two.regions:
        two.regions.publish(message("2027-01/1"))

        def fail(received: object, tx: object) -> None:
            raise sq.Business("no")

        sq.RegionalWorker(two.regions, "status", fail, region="a").run(until_idle=True)
        assert forget(two).left
        two.rows(two.first, "DELETE FROM {}.entries RETURNING 1")
        two.rows(two.second, "DELETE FROM {}.entries RETURNING 1")
        assert forget(two).left == ("1 session in the journal",)


def test_an_open_transaction_that_sends_keeps_it_from_closing(two: Two) -> None:
    with psycopg.connect(two.first.dsn) as connection:
        two.regions.publish(message("2027-01/1", 1), connection=connection)
        assert forget(two).left == ("an open transaction in region a that sends messages to both",)
        assert not two.regions._boxes["a"].is_away
    assert "1 message in the outbox of region a" in forget(two).left


class Killed(Exception):
    """The process ends here."""


@pytest.mark.parametrize("step", range(12))
def test_a_call_that_is_killed_is_repeated(two: Two, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with now(two) as two.regions:
        handled = Handled(two.regions)
        two.regions.publish([message("2027-01/1"), message("2027-02/1")])
        worked_off(two, handled)
        calls = iter(range(100))

        def dies(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*args: Any, **options: Any) -> Any:
                if next(calls) == step:
                    raise Killed
                return call(*args, **options)

            return called

        with monkeypatch.context() as patch:
            patch.setattr(Pair, "in_box", dies(Pair.in_box))
            patch.setattr(two.regions._pair.journal, "call", dies(two.regions._pair.journal.call))
            with pytest.raises(Killed):
                forget(two)
        for session in (
            "2027-01/1",
            "2027-01/2",
        ):  # goes on, or begins, or is refused; never handled twice, and never lost
            sent: list[Any] = []
            try:
                sent = two.regions.publish(message(session))
            except sq.NumberRefused:
                continue
            finally:
                worked_off(two, handled)
                assert handled.of(session)[-len(sent) or 99 :] == [one.number for one in sent]
        assert forget(two).left == ()
        assert sessions_of(two) == [{"2027-02/1"}] * 3
        assert len(handled.got) == len(set(handled.got))
        with pytest.raises(sq.NumberRefused, match=NO_MORE):
            two.regions.publish(message("2027-01/1"))


def test_a_restored_box_hands_nothing_out_again_and_refuses(two: Two) -> None:
    with now(two) as two.regions:
        handled = Handled(two.regions)
        two.regions.publish([message("2027-01/1"), message("2027-01/1")])
        worked_off(two, handled)
        assert handled.got
        before = list(handled.got)
        forget(two)
        # The box is as it was: it has the messages, and no bound.
        two.rows(two.first, "UPDATE {0}.region_queues SET closed_before = NULL, over_before = NULL RETURNING 1")
        two.rows(two.first, "UPDATE {0}.box_identity SET incarnation = incarnation + 1 RETURNING 1")
        with pytest.raises(sq.Unavailable, match="no messages"):  # the restored one may have it
            two.regions.publish(message("2027-01/1", 1))
        two.regions.tend()
        with pytest.raises(sq.NumberRefused, match=NO_MORE):
            two.regions.publish(message("2027-01/1", 1))
        assert handled.got == before


def test_a_box_that_is_restored_before_the_other_one_is_closed_is_closed_again(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = closing._closed

    def closed_and_restored(pair: Pair, region: str, queue: str, before: str) -> str | None:
        found = closed(pair, region, queue, before)
        if region == "a":
            two.rows(two.first, "UPDATE {0}.region_queues SET closed_before = NULL RETURNING 1")
            two.rows(two.first, "UPDATE {0}.box_identity SET incarnation = incarnation + 1 RETURNING 1")
            two.regions.tend()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(closing, "_closed", closed_and_restored)
        assert forget(two).left == ("region a was restored meanwhile",)
    assert two.journal.over_before(NAME) == {}
    assert forget(two).left == ()


def test_a_copy_of_before_is_over_for_whoever_asks(two: Two) -> None:
    with now(two) as two.regions:
        handled = Handled(two.regions)
        assert forget(two).left == ()
        # As a restored box has it, which knew nothing of the bound when it took the message in.
        for box in two.boxes:
            two.rows(box, "UPDATE {}.region_queues SET closed_before = NULL RETURNING 1")
        two.regions.publish([message("2027-01/1", 1), message("2027-01/2", 3, "behind a hole")])
        worked_off(two, handled)
        assert handled.got == []
        assert two.has(two.first) == two.has(two.second) == []
        assert two.journal.sessions(name=NAME) == []


def test_a_journal_that_went_back_learns_the_key_from_the_boxes(two: Two) -> None:
    with now(two) as two.regions:
        handled = Handled(two.regions)
        with away(two, "b"):
            two.regions.publish(message("2027-01/1"))
        keep(two.journal)
        worked_off(two, handled)
        assert forget(two).left == ()
        go_back(two.journal)
        assert two.journal.over_before(NAME) == {}
        two.regions.recover(**BY)
        assert two.journal.over_before(NAME) == {"status": "2027-02"}
        assert forget(two).journal == 1
        assert handled.of("2027-01/1") == [1]


def test_what_cant_be_a_key(two: Two) -> None:
    for before in ("", "a\0b", "x" * 2000):
        with pytest.raises(sq.UsageError, match="the key can't be"):
            forget(two, before)
    with pytest.raises(sq.SeriatimError, match="no queue 'other'"):
        two.regions.forget("other", "2027", **BY)


def test_a_group_that_has_expired_goes_on_behind_what_is_over(two: Two) -> None:
    kind, _, subscription = STATUS
    two.regions.define(
        kind, sq.RegionalQueue("status", group="session", sequence="number", expire_after=0.000001), subscription
    )
    with now(two) as two.regions:
        handled = Handled(two.regions)
        two.regions.publish([message("s"), message("s")])
        worked_off(two, handled)
        for box in two.boxes:
            assert purge(box, forget_expired=True).groups == 1
            assert groups_of(two, box) == set()
        assert two.journal.purge(NAME, 0).sessions in (0, 1)
        two.regions.publish(message("s"))
        worked_off(two, handled)
        assert handled.of("s") == [1, 2, 3]
