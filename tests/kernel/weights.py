"""Arrivals of any weight, given to the kernel itself: an ordinal counts on by the weight, and nothing else depends on it."""

from __future__ import annotations

import random

import numpy as np

from seriatim import Policy
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.policy import Fifo
from seriatim.kernel.values.columns import Ints, order_by_group
from seriatim.kernel.values.outcome import Disposition
from seriatim.kernel.values.time import micros
from tests.conformance.case import same

GROUPS = 3


def check_weights(policy: Policy, dice: random.Random) -> None:
    """Plays arrivals by chance twice, with their weights and with the weight 1 in place of each above, and compares."""
    heavy = light = kernel.new_state(policy, GROUPS)
    weights: Ints = np.zeros(0, np.int64)
    left = np.zeros(GROUPS, np.int64)
    for now in range(dice.randrange(1, 5)):
        arrivals = _arrivals(policy, dice, len(weights), micros(now))
        weights = np.concatenate([weights, arrivals.weight[np.argsort(arrivals.ref)]])
        ones = arrivals.with_columns(weight=np.minimum(arrivals.weight, 1))
        one, other = kernel.call(policy, heavy, arrivals, micros(now)), kernel.call(policy, light, ones, micros(now))
        heavy, light = one.state, other.state
        for column in ("ref", "disposition", "reason", "late", "cause", "timed"):
            same(column, getattr(one.decided, column).tolist(), getattr(other.decided, column).tolist())
        gone = one.decided.take(one.decided.disposition == Disposition.RELEASED)
        for group, ref, ordinal in zip(gone.group.tolist(), gone.ref.tolist(), gone.ordinal.tolist(), strict=True):
            same("ordinal", ordinal, int(left[group]) + 1)
            left[group] += weights[ref]
        same("ordinals", heavy.groups.ordinal.tolist(), left.tolist())
        same("next", heavy.groups.next.tolist(), light.groups.next.tolist())


def _arrivals(policy: Policy, dice: random.Random, first: int, moment: int) -> Arrivals:
    count = dice.randrange(8)
    group = np.array([dice.randrange(GROUPS) for _ in range(count)], np.int64)
    sequence = np.array([dice.randrange(8) for _ in range(count)], np.int64)
    weight = np.array([dice.choice([0, 1, 1, 2, 3]) for _ in range(count)], np.int64)
    ref = first + np.arange(count)
    order = order_by_group(group)
    return Arrivals(
        group[order],
        (ref if isinstance(policy, Fifo) else sequence)[order],
        ref[order],
        np.full(count, moment, np.int64),
        np.full(count, NOT_SAID),
        weight[order],
        np.zeros(count, np.int64),
    )
