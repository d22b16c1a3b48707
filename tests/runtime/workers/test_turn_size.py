"""How much of a queue without groups a turn takes: nobody who is free waits behind somebody else's run."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.runtime.workers import turn_size
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


def turns_of(box, count, mode):
    """The number of turns in which one thread handles the messages; a turn is one transaction or one lease."""
    publish(box, *range(count))
    turns = set()
    which = {"transactional": "pg_current_xact_id()", "leased": f"token FROM {box.schema}.leases"}[mode]

    def handle(message, tx):
        turns.add(tx.connection.execute(f"SELECT {which}").fetchone())

    work(box, handle, workers=1, mode=mode)
    return len(turns)


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_fast_handlers_have_long_runs(loose, monkeypatch, mode):
    monkeypatch.setattr(turn_size, "_SHORTEST_S", 1e9)  # any handler is fast
    monkeypatch.setattr(turn_size, "_LONGEST_S", 1e9)
    assert turns_of(loose, 100, mode) < 10  # 1, 2, 4, 8, 16, 32, and the rest


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_turn_that_has_gone_on_for_long_begins_no_other_message(loose, monkeypatch, mode):
    monkeypatch.setattr(turn_size, "_LONG", 0)
    assert turns_of(loose, 20, mode) == 20


def test_where_there_is_much_between_two_turns_they_are_longer(loose, monkeypatch):
    monkeypatch.setattr(turn_size, "_SHORTEST_S", 1e-9)  # or else one message a turn
    monkeypatch.setattr(turn_size, "_LONGEST_S", 1e9)
    monkeypatch.setattr(turn_size, "_TIMES", 1e12)
    assert turns_of(loose, 100, "transactional") < 10


def test_a_batch_is_as_long_as_was_asked_for(loose):
    publish(loose, *range(20))
    sizes = []
    work(loose, lambda delivery, tx: sizes.append(len(delivery)), workers=1, batch=True, run_length=10)
    assert sizes == [10, 10]


def queue(policy=None):
    return sq.Queue("q", policy or sq.Unordered(), group=None if policy is None else "g")


def test_a_turn_takes_what_is_worked_on_in_a_moment():
    size = TurnSize(queue(), batch=False)
    taken = []
    for _ in range(8):
        taken.append(size.of(50))
        size.note(taken[-1], 0.0)
    assert taken == [1, 2, 4, 8, 16, 32, 50, 50]
    size.note(50, 1.0)  # one of them took a second
    assert size.of(50) == 1
    for _ in range(20):
        size.note(1, 0.005)
    assert size.of(50) in (3, 4)
    assert size.of(2) == 2


def test_slow_commits_make_longer_runs():
    size = TurnSize(queue(), batch=False)
    for _ in range(20):
        size.note(1, 0.02)
        size.note_between(0.01)
    assert size.of(50) == 4
    for _ in range(20):
        size.note_between(10.0)
    assert size.of(50) == 10  # but not for longer than anybody would wait


def test_a_turn_that_meets_a_slow_message_leaves_the_rest():
    size = TurnSize(queue(), batch=False)
    assert not size.is_over(0.05)
    assert size.is_over(0.2)


def test_where_there_are_groups_the_run_is_one_of_a_group():
    size = TurnSize(queue(sq.Fifo()), batch=False)
    size.note(1, 5.0)
    assert size.of(50) == 50
    assert not size.is_over(0.2)
