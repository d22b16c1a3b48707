"""A party that takes too long counts as away, and isn't asked for a while."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.errors import EnvironmentProblem, Unavailable, UsageError
from seriatim.regions.party import Party


def party(box: sq.MessageBox, patience_s: float, retry_after_s: float) -> Party[sq.MessageBox]:
    return Party("region a", lambda: box, lambda _: None, patience_s, retry_after_s)


def sleep(box: sq.MessageBox) -> None:
    with box.access.transaction() as transaction:
        transaction.connection.execute("SELECT pg_sleep(100)")


def sleeping(box: sq.MessageBox) -> int:
    with box.access.connect() as connection:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(100)' AND state = 'active'"
        return connection.execute(sql).fetchone()[0]  # type: ignore[index]


def test_who_does_not_answer_in_time_is_away(box: sq.MessageBox) -> None:
    slow = party(box, 0.2, 1000)
    with pytest.raises(Unavailable, match=r"region a is away: it didn't answer within 0\.2 s"):
        slow.call(sleep)
    assert slow.is_away
    with pytest.raises(Unavailable, match="didn't answer"):
        slow.call(lambda _: "not asked")
    while sleeping(box):  # the statement was cancelled
        pass


def test_who_does_not_end_long_work_in_time_is_not_away(box: sq.MessageBox) -> None:
    slow = party(box, 0.2, 1000)
    with pytest.raises(Unavailable, match=r"region a is busy: it didn't answer within 0\.3 s"):
        slow.call(sleep, patience_s=0.3)
    assert not slow.is_away


def test_it_is_asked_again_after_a_while(box: sq.MessageBox) -> None:
    slow = party(box, 0.2, 0)
    with pytest.raises(Unavailable):
        slow.call(sleep)
    assert slow.call(lambda found: found.schema, patience_s=30) == box.schema


def test_errors_of_the_caller_are_no_absence(box: sq.MessageBox) -> None:
    asked = party(box, 30, 1000)

    def wrong(_: sq.MessageBox) -> None:
        raise UsageError("wrong")

    with pytest.raises(UsageError, match="wrong"):
        asked.call(wrong)
    assert not asked.is_away

    def gone(_: sq.MessageBox) -> None:
        raise EnvironmentProblem("PostgreSQL can't be reached")

    with pytest.raises(Unavailable, match="can't be reached"):
        asked.call(gone)
    assert asked.is_away


def test_threads_ask_at_once_and_a_closed_one_refuses(box: sq.MessageBox) -> None:
    shared = party(box, 30, 0)
    meet = threading.Barrier(2, timeout=120)
    threads = [threading.Thread(target=lambda: shared.call(lambda _: meet.wait())) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    shared.close()
    with pytest.raises(UsageError, match="closed"):
        shared.call(lambda _: None)
