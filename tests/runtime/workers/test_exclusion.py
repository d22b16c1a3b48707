"""Who wants to be alone at work is, as far as patience goes."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from seriatim.runtime.workers.exclusion import Exclusion

LONG_S = 120.0


class Turn:
    """A turn at work in a thread, until it is told to leave."""

    def __init__(self, exclusion, *, alone=False, patience_s=LONG_S):
        self.began, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(exclusion, alone, patience_s), daemon=True)
        self._thread.start()

    def _run(self, exclusion, alone, patience_s):
        with exclusion.at_work(alone=alone, patience_s=patience_s):
            self.began.set()
            self._leave.wait(LONG_S)

    def leave(self):
        self._leave.set()
        self._thread.join(LONG_S)


def waits(turn):
    """Whether it hasn't begun, though it had the time to."""
    return not turn.began.wait(0.2)


def until_wanted(exclusion):
    """Somebody wants to be alone, and waits."""
    deadline = time.monotonic() + LONG_S
    while not exclusion._wanting:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_who_wants_to_be_alone_waits_for_all_others_and_they_for_him():
    exclusion = Exclusion()
    first, second = Turn(exclusion), Turn(exclusion)
    assert first.began.wait(LONG_S)
    assert second.began.wait(LONG_S)
    alone = Turn(exclusion, alone=True)
    until_wanted(exclusion)  # before somebody comes later
    assert waits(alone)
    first.leave()
    late = Turn(exclusion)  # nobody passes him who came before
    assert waits(alone)
    second.leave()
    assert alone.began.wait(LONG_S)
    assert waits(late)
    alone.leave()
    assert late.began.wait(LONG_S)
    late.leave()


def test_two_are_alone_one_after_the_other():
    exclusion = Exclusion()
    turns = [Turn(exclusion, alone=True) for _ in range(2)]
    while not (begun := [turn for turn in turns if turn.began.wait(0.01)]):
        pass
    (first,) = begun
    other = turns[turns.index(first) - 1]
    assert waits(other)
    first.leave()
    assert other.began.wait(LONG_S)
    other.leave()


@pytest.mark.parametrize("alone", [True, False])
def test_patience_ends(alone):
    exclusion = Exclusion()
    stuck = Turn(exclusion, alone=not alone)
    assert stuck.began.wait(LONG_S)
    impatient = Turn(exclusion, alone=alone, patience_s=0.05)
    assert impatient.began.wait(LONG_S)
    stuck.leave()
    impatient.leave()
    again = Turn(exclusion, alone=True)
    assert again.began.wait(LONG_S)
    again.leave()


def test_many_threads_never_meet_one_that_is_alone():
    exclusion, lock, at_work, met = Exclusion(), threading.Lock(), [], []

    def turn(number):
        alone = number % 7 == 0
        with exclusion.at_work(alone=alone, patience_s=LONG_S):
            with lock:
                at_work.append(alone)
                if True in at_work and len(at_work) > 1:
                    met.append(list(at_work))
            with lock:
                at_work.remove(alone)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(turn, range(2_000)))
    assert not met
    assert not at_work
