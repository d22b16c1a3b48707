"""Groups that messages open and close: the kernel against the oracle, cut in any way, and in few passes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim import Fifo, Policy, PolicyError, Sequencer, Standard, UnitOfWork, UsageError
from seriatim.kernel.policies import stays
from tests.kernel import strategies
from tests.kernel.comparison import Call, check_replay, check_script, join, numbered, released, view
from tests.kernel.test_properties import prove

pytestmark = pytest.mark.soak

POLICIES = {"fifo": st.just(Fifo()), "standard": strategies.standards}


def opens(value: dict[str, Any]) -> bool:
    """Whether a message opens its group: as its `size` says, so that the usual messages do."""
    return value.get("size") in (2, 3, 4)


def closes(value: dict[str, Any]) -> bool:
    """Whether a message closes its group."""
    return bool(value.get("last"))


@st.composite
def kinds(draw: st.DrawFn) -> dict[str, Any]:
    """What opens and closes groups."""
    which = draw(st.sampled_from(["both", "both", "both", "opens", "closes"]))
    found: dict[str, Any] = {} if which == "opens" else {"closes": closes}
    if which != "closes":
        found |= {"opens": opens, "unopened_timeout": draw(st.sampled_from([None, None, 2, 5]))}
    return found


@pytest.mark.parametrize("kind", POLICIES)
def test_the_kernel_does_what_the_oracle_does(kind: str) -> None:
    @prove
    @given(policy=POLICIES[kind], script=strategies.calls(), its=kinds(), start=st.booleans())
    def agree(policy: Policy, script: list[Call], its: dict[str, Any], start: bool) -> None:
        own = start and isinstance(policy, Standard) and policy.start != "first"
        check_script(policy, script, {"a": 3} if own else {}, its)

    agree()


@pytest.mark.parametrize("kind", POLICIES)
def test_cutting_into_batches_changes_nothing(kind: str) -> None:
    @prove
    @given(policy=POLICIES[kind], its=kinds(), offered=strategies.items(most=20), data=st.data())
    def agree(policy: Policy, its: dict[str, Any], offered: list[Any], data: st.DataObject) -> None:
        messages = numbered(offered)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=5)))
        edges = [0, *cuts, len(messages)]
        whole, cut = Sequencer(policy, **its), Sequencer(policy, **its)
        at_once = [whole.offer(messages, now=1.0)]
        in_parts = [cut.offer(messages[a:b], now=1.0) for a, b in pairwise(edges)]
        assert [row for o in at_once for row in released(o)] == [row for o in in_parts for row in released(o)]
        assert join(at_once) == join(in_parts)
        assert {key: view(whole.group(key)) for key in whole.groups()} == {
            key: view(cut.group(key)) for key in cut.groups()
        }
        assert join([whole.advance(9.0), whole.finish()]) == join([cut.advance(9.0), cut.finish()])

    agree()


@pytest.mark.parametrize("kind", POLICIES)
def test_a_replay_does_what_the_oracle_does(kind: str) -> None:
    @prove
    @given(
        policy=POLICIES[kind],
        its=kinds(),
        parts=st.lists(st.tuples(strategies.timed_items(), st.one_of(st.none(), st.integers(0, 20))), max_size=4),
    )
    def agree(policy: Policy, its: dict[str, Any], parts: list[tuple[list[Any], int | None]]) -> None:
        check_replay(policy, parts, its)

    agree()


@prove
@given(
    policy=strategies.standards,
    its=kinds(),
    before=strategies.items(most=14),
    steps=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=30),
)
def test_one_advance_equals_many(policy: Policy, its: dict[str, Any], before: list[Any], steps: list[float]) -> None:
    first = numbered(before)
    once, often = Sequencer(policy, **its), Sequencer(policy, **its)
    moments = [1.0 + sum(steps[: place + 1]) for place in range(len(steps))]
    outcomes_once = [once.offer(first, now=1.0), once.advance(moments[-1])]
    outcomes_often = [often.offer(first, now=1.0), *(often.advance(moment) for moment in moments)]
    assert join(outcomes_once) == join(outcomes_often)


@pytest.mark.dear
@pytest.mark.parametrize("policy", [Fifo(), Standard(), Standard(start="first")])
def test_a_batch_needs_as_many_passes_as_a_group_has_stays(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []
    one = stays._pass
    monkeypatch.setattr(stays, "_pass", lambda *given: passes.append(1) or one(*given))
    says = {"opens": lambda value: value == "in", "closes": lambda value: value == "out"}
    sequencer = Sequencer(policy, **says)
    guests = [
        (f"guest {n}", number, value)
        for n in range(10_000)
        for number, value in ((1, "in"), (2, "stays"), (3, "out"), (4, "too late"))
    ]
    out = sequencer.offer(guests, now=0)
    assert (len(out.released), len(out.late), len(passes)) == (30_000, 10_000, 1)
    often = [("regular", number, value) for _ in range(200) for number, value in ((1, "in"), (2, "out"))]
    passes.clear()
    out = Sequencer(policy, **says).offer([*guests, *often], now=0)
    assert (len(out.released), len(passes)) == (30_400, 200)


def test_what_is_refused() -> None:
    for wrong in (UnitOfWork(size=3),):
        with pytest.raises(PolicyError, match="opens and closes are for Fifo and Standard, not for UnitOfWork"):
            Sequencer(wrong, opens=opens)
    with pytest.raises(PolicyError, match="unopened_timeout is for groups that a message opens"):
        Sequencer(Fifo(), closes=closes, unopened_timeout=3)
    with pytest.raises(UsageError, match="opens can't be 'x'"):
        Sequencer(Fifo(), opens="x")  # type: ignore[arg-type]
