"""Which policies have clocks: the engines don't wake a group whose policy has none."""

from __future__ import annotations

import numpy as np
import pytest

from seriatim import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.policy import Policy, has_clock, with_stays
from seriatim.kernel.values.time import FOREVER

POLICIES = [
    (Unordered(), False),
    (Fifo(), False),
    (Standard(), False),
    (Standard(hole_timeout=0), False),
    (Standard(hole_timeout=5), True),
    (BestEffort(), True),
    (BestEffort(window=5), True),
    (UnitOfWork(size=3), False),
    (UnitOfWork(size=3, timeout=5), True),
    (with_stays(Fifo(), opens=True, closes=True), False),
    (with_stays(Fifo(), opens=True, closes=False, unopened_timeout=5), True),
    (with_stays(Standard(), opens=True, closes=True), False),
    (with_stays(Standard(hole_timeout=5), opens=False, closes=True), True),
    (with_stays(Standard(), opens=True, closes=False, unopened_timeout=5), True),
]


@pytest.mark.parametrize(("policy", "clock"), POLICIES, ids=str)
def test_nothing_is_ever_due_without_a_clock(policy: Policy, clock: bool) -> None:
    assert has_clock(policy) == clock
    if clock or isinstance(policy, Unordered):
        return
    # A message that waits, as far as one can wait in that policy.
    one = np.array([2])
    none = np.zeros(1, np.int64)
    arrivals = Arrivals(none, one, none, none, np.array([NOT_SAID]), np.ones(1, np.int64), none)
    if policy.name in ("fifo", "standard") and hasattr(policy, "opens"):
        arrivals = arrivals.with_columns(size=none)
    state = kernel.offer(policy, kernel.new_state(policy, 1), arrivals).state
    assert kernel.due(policy, state).tolist() == [FOREVER]
