"""The benchmarks of workers run, and what they measure is there; the figures are for `make bench` on a quiet machine."""

from __future__ import annotations

import pytest

pytest.importorskip("procrastinate")

from benchmarks import workers


def test_workers_that_begin_together_all_get_something(postgresql):
    # On a machine with other work a worker may stand still for long, so the ratio itself is the benchmark's to ask for.
    assert workers.fairness(postgresql, groups=60, waiting=5, workers=3).ratio >= 1


def test_groups_move(postgresql):
    median, longest = workers.moves(postgresql, kills=1)
    assert 0 < median.ratio <= longest.ratio


def test_a_suspended_group_beside_others(postgresql):
    assert workers.suspended(postgresql, backlog=300, groups=10, waiting=5, rounds=1).ratio > 0
