"""What a worker obeys, by what it was started with, what is set for its queue, and who else works on that."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seriatim.box.definitions.queue_settings import QueueSettings
from seriatim.box.workers.heartbeat import WorkerOrders
from seriatim.runtime.workers.obeyed import Obeyed, obeyed, shares

OWN = Obeyed(8, 8, 50, 100.0)
CAPACITIES = st.lists(st.integers(0, 20), min_size=1, max_size=8)


def of(*, is_reader=False, own=OWN, capacities=(), place=0, **settings):
    return obeyed(own, WorkerOrders(QueueSettings(**settings), tuple(capacities), place), is_reader=is_reader)


def test_what_is_set_counts_before_an_option():
    assert of() == OWN
    assert of(workers=2, run_length=7) == Obeyed(2, 2, 7, 100.0)
    assert of(rate=9.0, capacities=[8]) == Obeyed(8, 8, 50, 9.0)


def test_all_processes_share_a_rate_that_is_set_by_their_threads():
    found = [of(rate=40.0, own=Obeyed(n, n, 50, None), capacities=[8, 24], place=at) for at, n in enumerate((8, 24))]
    assert [one.rate for one in found] == [10.0, 30.0]
    # One that has no share of the groups in flight takes nothing of the rate either.
    found = [of(rate=40.0, in_flight=1, capacities=[8, 8], place=at) for at in (0, 1)]
    assert [(one.threads, one.rate) for one in found] == [(1, 40.0), (0, 40.0)]


def test_a_reader_shares_the_rate_of_its_activation_and_leaves_the_number_to_who_serves():
    own = Obeyed(1, 1, 50, 100.0)
    assert of(is_reader=True, own=own, workers=4, capacities=[1] * 4) == Obeyed(1, 1, 50, 25.0)


def test_what_the_others_know_of_this_process_may_be_older_than_what_is_set():
    assert of(workers=2, in_flight=100, capacities=[8, 3]).threads == 2


@given(CAPACITIES, st.integers(1, 200))
def test_shares_reach_the_limit_as_evenly_as_may_be(capacities, most):
    found = shares(most, capacities)
    assert sum(found) == min(most, sum(capacities))
    assert all(0 <= share <= wanted for share, wanted in zip(found, capacities, strict=True))
    # Nobody has two more than another who wanted more.
    cut = [share for share, wanted in zip(found, capacities, strict=True) if share < wanted]
    assert all(max(found) - one <= 1 for one in cut)
    assert shares(None, capacities) == capacities
