"""How much of a queue without groups a turn takes: nobody who is free waits behind somebody else's run."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.runtime.workers.turn_size import TurnSize
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.test_worker import DEADLINE_S, until, work, working


@pytest.fixture
def loose(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None)
    return box


def gathering(box, threads):
    """A handler that waits, at the first message of each thread, until so many of them have one."""
    together, known = threading.Barrier(threads), threading.local()

    def handle(message, tx):
        if not getattr(known, "has_met", False):
            known.has_met = True
            together.wait(DEADLINE_S)  # nobody comes, where one has taken all
        see(box, message, tx)
        assert message.attempt == 1

    return handle


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_all_threads_work_on_what_one_could_have_taken(loose, mode):
    publish(loose, *range(16))
    work(loose, gathering(loose, 4), workers=4, mode=mode)
    assert sorted(version for _, version in seen(loose)) == list(range(16))
    assert rows(loose, "SELECT FROM {schema}.faults") == []


def test_several_processes_share_as_threads_do(loose):
    publish(loose, *range(8))
    handle = gathering(loose, 4)
    with sq.MessageBox.open(loose.dsn, schema=loose.schema) as other:
        both = [sq.Worker(box, "shop", handle, workers=2) for box in (loose, other)]
        with working(both[0]), working(both[1]):
            until(lambda: not left(loose))
    assert sorted(version for _, version in seen(loose)) == list(range(8))
    assert rows(loose, "SELECT FROM {schema}.faults") == []


def test_fast_handlers_have_long_runs(loose):
    publish(loose, *range(400))
    turns = set()
    work(
        loose, lambda message, tx: turns.add(tx.connection.execute("SELECT pg_current_xact_id()").fetchone()), workers=1
    )
    assert len(turns) < 100  # 15 where nothing else is going on: 1, 1, 3, 7, 15, 31, then 50 each


def test_a_batch_is_as_long_as_was_asked_for(loose):
    publish(loose, *range(20))
    sizes = []
    work(loose, lambda delivery, tx: sizes.append(len(delivery)), workers=1, batch=True, run_length=10)
    assert sizes == [10, 10]


def queue(policy=None):
    return sq.Queue("q", policy or sq.Unordered(), group=None if policy is None else "g")


def test_a_turn_takes_what_is_worked_on_in_a_moment():
    turn_size = TurnSize(queue(), batch=False)
    taken = []
    for _ in range(8):
        taken.append(turn_size.of(50))
        turn_size.note(taken[-1], 0.0)
    assert taken == [1, 2, 4, 8, 16, 32, 50, 50]
    turn_size.note(50, 1.0)  # one of them took a second
    assert turn_size.of(50) == 1
    for _ in range(20):
        turn_size.note(1, 0.005)
    assert turn_size.of(50) in (3, 4)
    assert turn_size.of(2) == 2


def test_slow_commits_make_longer_runs():
    turn_size = TurnSize(queue(), batch=False)
    for _ in range(20):
        turn_size.note(1, 0.02)
        turn_size.note_between(0.01)
    assert turn_size.of(50) == 4
    for _ in range(20):
        turn_size.note_between(10.0)
    assert turn_size.of(50) == 10  # but not for longer than anybody would wait


def test_a_turn_that_meets_a_slow_message_leaves_the_rest():
    turn_size = TurnSize(queue(), batch=False)
    assert not turn_size.is_over(0.05)
    assert turn_size.is_over(0.2)


def test_where_there_are_groups_the_run_is_one_of_a_group():
    turn_size = TurnSize(queue(sq.Fifo()), batch=False)
    turn_size.note(1, 5.0)
    assert turn_size.of(50) == 50
    assert not turn_size.is_over(0.2)
