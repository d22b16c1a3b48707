"""A turn that is judged without columns: its result is that of the turn with columns, whatever the rows are."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seriatim as sq
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.next_numbers import judged_at_once
from seriatim.box.turns.turn_reading import turn_of
from seriatim.kernel.groups.state import NOTHING, Flag
from seriatim.kernel.values.time import NEVER
from tests.soak import sized

NOW = 10_000
prove = settings(max_examples=sized(10_000, 500, 100), derandomize=True, deadline=None, database=None)
mostly = st.integers(0, 9).map(bool)  # nine times of ten

policies = st.builds(
    lambda hole, **others: sq.Standard(**hole, **others),
    hole=st.sampled_from([{}, {"hole_timeout": 10}, {"hole_timeout": 10, "on_hole": "skip"}]),
    start=st.sampled_from([1, 1, 0, 5, "first"]),
    increment=st.sampled_from([1, 1, 2]),
    remember=st.sampled_from([0, 3, 64]),
    late=st.sampled_from(["set_aside", "deliver", "suspend"]),
)


def queue_of(policy, *, is_gate):
    if is_gate:
        declared = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
        return BoxQueue(1, declared, True, None, incarnation=2, origin_id=7, open_at_most=1_000)
    return BoxQueue(1, sq.Queue("q", policy, group="key", sequence="n"), True, None, incarnation=2)


@st.composite
def rows(draw, queue):
    """What the statement returns that begins a turn, of a group that is mostly as most are."""
    policy, is_gate = queue.declared.policy, queue.origin_id is not None
    first, step = policy.start if isinstance(policy.start, int) else 1, policy.increment
    left = draw(st.integers(0, 5))
    following = first + step * left
    row = dict.fromkeys(
        ("group_keys", "incarnations", "states", "skipped", "group_arrivals", "decided", "remembered", "lives")
    )
    if draw(st.booleans()):
        marks = [(first + step * at, 4 * draw(st.integers(0, 99))) for at in range(left)][-(policy.remember or 1) :]
        flags = 1 if draw(mostly) else draw(st.sampled_from([0, *map(int, Flag)]))
        clock, suspects = draw(st.sampled_from([NEVER, 500, 2 * NOW])), 0 if is_gate else draw(st.integers(0, 2))
        last = following - step if left else NOTHING
        row = {
            "group_keys": ["a"],
            "incarnations": [draw(st.integers(0, 3))],
            "states": [[flags, first, following, 0, last, left, NEVER, 0, clock, suspects, NOTHING]],
            "skipped": ["{}" if draw(mostly) else f"{{{following + step},{following + step}}}"],
            "group_arrivals": [left if draw(mostly) else left + 1],
            "decided": [[left] + [0] * (7 if is_gate else 6)],
            "remembered": [
                b64encode(np.array(marks, "<i8").tobytes()).decode() if not is_gate and policy.remember else ""
            ],
            "lives": [None],
        }
    else:
        following = first
    came = [following + step * at for at in range(draw(st.integers(0, 7)))]
    voids = [number for number in came if is_gate and draw(st.integers(0, 4)) == 0]
    came = [number for number in came if number not in voids]
    if not is_gate:
        came = draw(st.permutations(came))
    if came and not draw(mostly):
        came[draw(st.integers(0, len(came) - 1))] += draw(st.sampled_from([-1, 1, step, 9]))
    count = len(came)
    return SimpleNamespace(
        places=[0] * count,
        codes=[0] * count,
        entry_ids=[100 + at for at in range(count)],
        sequences=list(came),
        sizes=[draw(st.sampled_from([None, 4, 400])) for _ in came],
        ranks=[200 + at for at in range(count)],
        visible=[draw(st.sampled_from([None] * 20 + [NOW - 1, NOW, NOW + 1])) for _ in came],
        arrivals=[None] * count,
        ordinals=[None] * count,
        late=[False] * count,
        waits=[False] * count,
        times=sorted(draw(st.integers(0, NOW)) for _ in came),
        meanings=[None] * count or None,
        request_places=None,
        request_ids=None,
        actions=None,
        look_ids=draw(st.sampled_from([None, [7], [8, 9]])),
        unrouted=not draw(mostly),
        void_places=[0] * len(voids) or None,
        void_numbers=voids or None,
        more=draw(st.booleans()),
        full_groups=draw(st.sampled_from([None, ["a"]])),
        late_places=None,
        late_numbers=None,
        **row,
    )


@pytest.mark.soak
@pytest.mark.parametrize("is_gate", [False, True])
def test_its_result_is_that_of_the_turn_with_columns(is_gate):
    found = []

    @prove
    @given(policy=policies, at_most=st.sampled_from([3, 50]), data=st.data())
    def agree(policy, at_most, data):
        queue = queue_of(policy, is_gate=is_gate)
        row = data.draw(rows(queue))
        locked = LockedGroups(["a"], NOW, 1)
        portion = {"most_arrived": data.draw(st.sampled_from([1_000, 3])), "most_held": 1_000, "most_whole": 1_000}
        result = judged_at_once(queue, locked, row, at_most, portion["most_arrived"])
        found.append(result is not None)
        if result is None:
            return
        turn, _ = turn_of(queue, locked, row, at_most, portion)
        assert not turn.is_short()
        assert values(result) == values(turn.judge())

    agree()
    assert 0.2 < sum(found) / len(found) < 0.8


def values(result):
    named = {one.name: getattr(result, one.name) for one in fields(result)}
    return named | {"events": list(result.events.rows()), "full": list(result.full), "held_s": list(result.held_s)}
