"""The benchmark of gates runs; its figures are for `make bench` on a quiet machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("procrastinate")

from benchmarks import gate


def test_a_gate_beside_no_order_and_one_by_hand(postgresql):
    race = replace(gate.RACE, waiting=200, limit=10, workers=1)
    assert [one.ratio > 0 for one in gate.ratios(postgresql, race, 1)] == [True, True]
