"""The kernel against the oracle on random scripts, and what the design promises about batches and time.

Only at full size the examples are other ones each time.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from seriatim import Policy, Sequencer, Standard, Unordered
from tests.conformance.in_memory import comparing
from tests.kernel import strategies
from tests.kernel.comparison import Call, check_replay, check_script, join, numbered, released, view
from tests.kernel.corpus import check_one_merge
from tests.kernel.weights import check_weights
from tests.soak import full, sized

pytestmark = pytest.mark.soak

prove = settings(
    max_examples=sized(3_000, 150, 30),
    derandomize=not full(),
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.parametrize("kind", strategies.ALL_POLICIES)
def test_an_ordinal_counts_on_by_the_weight(kind: str) -> None:
    @prove
    @given(policy=strategies.ALL_POLICIES[kind], seed=st.integers(0, 2**32))
    def agree(policy: Policy, seed: int) -> None:
        if not isinstance(policy, Unordered):
            check_weights(policy, random.Random(seed))

    agree()


@prove
@given(seed=st.integers(0, 2**32))
def test_what_two_regions_send_is_judged_as_the_oracle_does(seed: int) -> None:
    check_one_merge(random.Random(seed))


TIMED_POLICIES = st.one_of(strategies.standards, strategies.windowed, strategies.units_of_work)


@pytest.mark.parametrize("kind", strategies.ALL_POLICIES)
def test_the_kernel_does_what_the_oracle_does(kind: str) -> None:
    @prove
    @given(policy=strategies.ALL_POLICIES[kind], script=strategies.calls(), start=st.booleans())
    def agree(policy: Policy, script: list[Call], start: bool) -> None:
        own = start and isinstance(policy, Standard) and policy.start != "first"
        check_script(policy, script, {"a": 3} if own else {})

    agree()


@pytest.mark.parametrize("kind", [kind for kind in strategies.ALL_POLICIES if "without" not in kind])
def test_cutting_into_batches_changes_nothing(kind: str) -> None:
    @prove
    @given(policy=strategies.ALL_POLICIES[kind], offered=strategies.items(most=20), data=st.data())
    def agree(policy: Policy, offered: list[Any], data: st.DataObject) -> None:
        messages = numbered(offered)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=5)))
        edges = [0, *cuts, len(messages)]
        whole, cut = Sequencer(policy, **comparing(policy)), Sequencer(policy, **comparing(policy))
        at_once = [whole.offer(messages, now=1.0)]
        in_parts = [cut.offer(messages[a:b], now=1.0) for a, b in pairwise(edges)]
        assert [row for o in at_once for row in released(o)] == [row for o in in_parts for row in released(o)]
        assert join(at_once) == join(in_parts)
        assert {key: view(whole.group(key)) for key in whole.groups()} == {
            key: view(cut.group(key)) for key in cut.groups()
        }
        assert join([whole.advance(9.0), whole.finish()]) == join([cut.advance(9.0), cut.finish()])

    agree()


@prove
@given(
    policy=TIMED_POLICIES,
    before=strategies.items(most=14),
    after=strategies.items(most=6),
    steps=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=30),
)
def test_one_advance_equals_many(policy: Policy, before: list[Any], after: list[Any], steps: list[float]) -> None:
    first, second = numbered(before), numbered(after, len(before))
    once, often = Sequencer(policy, **comparing(policy)), Sequencer(policy, **comparing(policy))
    moments = [1.0 + sum(steps[: place + 1]) for place in range(len(steps))]
    outcomes_once = [once.offer(first, now=1.0), once.advance(moments[-1])]
    outcomes_often = [often.offer(first, now=1.0), *(often.advance(moment) for moment in moments)]
    assert join(outcomes_once) == join(outcomes_often)
    assert [row for o in outcomes_once for row in released(o)] == [row for o in outcomes_often for row in released(o)]
    assert join([once.offer(second), once.finish()]) == join([often.offer(second), often.finish()])


@prove
@given(policy=TIMED_POLICIES, first=strategies.items(), second=strategies.items(), back=st.floats(0, 5))
def test_an_earlier_now_counts_as_the_latest(policy: Policy, first: list[Any], second: list[Any], back: float) -> None:
    first, second = numbered(first), numbered(second, len(first))
    straight, backwards = Sequencer(policy, **comparing(policy)), Sequencer(policy, **comparing(policy))
    expected = [straight.offer(first, now=5.0), straight.offer(second, now=5.0), straight.advance(8.0)]
    found = [backwards.offer(first, now=5.0), backwards.offer(second, now=5.0 - back)]
    assert join([backwards.advance(5.0 - back)]) == join([straight.advance(5.0)])
    found.append(backwards.advance(8.0))
    assert join(expected) == join(found)
    assert join([straight.finish()]) == join([backwards.finish()])


@prove
@given(
    policy=TIMED_POLICIES,
    parts=st.lists(st.tuples(strategies.timed_items(), st.one_of(st.none(), st.integers(0, 20))), max_size=4),
)
def test_a_replay_does_what_the_oracle_does(policy: Policy, parts: list[tuple[list[Any], int | None]]) -> None:
    check_replay(policy, parts)


@prove
@given(policy=TIMED_POLICIES, timed=strategies.timed_items(most=20), data=st.data())
def test_a_replay_may_be_cut_anywhere(policy: Policy, timed: list[Any], data: st.DataObject) -> None:
    messages = sorted(numbered(timed), key=lambda message: message[3])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=5)))
    edges = [0, *cuts, len(messages)]
    whole, cut = Sequencer(policy, **comparing(policy)), Sequencer(policy, **comparing(policy))
    at_once = [whole.replay(messages, watermark=30.0)]
    in_parts = [cut.replay(messages[a:b]) for a, b in pairwise(edges)]
    in_parts.append(cut.replay([], watermark=30.0))
    assert join(at_once) == join(in_parts)
    assert join([whole.finish()]) == join([cut.finish()])
