"""Numbers as producers have them: the kernel against the oracle on random scripts, and in any batching.

Only at full size the examples are other ones each time.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim import VOID, BestEffort, Policy, Sequence, Sequencer, Standard
from tests.kernel import strategies
from tests.kernel.comparison import Call, check_script, comparing, join, numbered
from tests.kernel.test_properties import prove

pytestmark = pytest.mark.soak


@st.composite
def standards(draw: st.DrawFn) -> Standard:
    """A policy, with any way to find the first number."""
    plain = draw(strategies.standards)
    start = draw(st.sampled_from([plain.start, "lowest", "told", "first"]))
    parameters = {one.name: getattr(plain, one.name) for one in fields(plain) if one.name != "start"}
    parameters["settle"] = draw(st.sampled_from([2, 3])) if start == "lowest" else None
    return Standard(start=start, **parameters)


@st.composite
def sequences(draw: st.DrawFn, kinds: tuple[str, ...] = ()) -> Sequence:
    """What numbers mean: some of the rules."""
    names = ("through", "base", "base_only", "unnumbered", "void", "modulus", "previous")
    given_: dict[str, Any] = {name: name for name in names if draw(st.booleans()) or name in kinds}
    given_ |= draw(st.sampled_from([{}, {"epoch": "epoch"}, {"restarts": "restarts"}]))
    if "modulus" in given_:
        given_["modulus"] = draw(st.sampled_from([5, 8, 16]))
    if "previous" in given_ and "through" not in given_:
        del given_["previous"]
    return Sequence(**given_)


@st.composite
def items(draw: st.DrawFn, *, most: int = 8) -> list[tuple[Any, Any, Any]]:
    """Messages of two groups, which say anything that a sequence may ask for."""
    group = st.sampled_from(["a", "a", "b"])
    rarely = st.sampled_from([False, False, False, False, True])
    value = st.fixed_dictionaries(
        {},
        optional={
            "base": rarely, "base_only": rarely, "restarts": rarely, "unnumbered": rarely, "void": rarely,
            "epoch": st.sampled_from([1, 1, 1, 2, 2, 3, None]), "content": st.sampled_from([0, 0, 1, 1j]),
        },
    )  # fmt: skip
    found = []
    for _ in range(draw(st.integers(0, most))):
        number = draw(st.integers(-2, 12))
        length = draw(st.sampled_from([0, 0, 0, 1, 2, 3, -1]))
        says = draw(st.one_of(value, value, value, value, st.just(VOID)))
        if says is not VOID:
            says = {"epoch": 1, **says, "through": number + length, "previous": number - 1}
            if draw(st.integers(0, 5)) == 0:
                del says["through"]
        found.append((draw(group), number, says))
    return found


@st.composite
def scripts(draw: st.DrawFn, *, most: int = 8) -> list[Call]:
    """What a program and its operators may do to a queue in order."""
    now, script = 0.0, []
    for _ in range(draw(st.integers(1, most))):
        now = max(0.0, now + draw(st.sampled_from([0, 0, 1, 1, 2, 3, 5])))
        kind = draw(st.sampled_from(["offer", "offer", "offer", "advance", "act"]))
        if kind == "offer":
            script.append(Call("offer", (draw(items()),), {"now": now}))
        elif kind == "advance":
            script.append(Call("advance", (now,)))
        else:
            script.append(draw(strategies.actions(now)))
    return script


@prove
@given(policy=standards(), sequence=sequences(), script=scripts(), start=st.sampled_from([{}, {}, {"a": 3}]))
def test_the_kernel_does_what_the_oracle_does(
    policy: Policy, sequence: Sequence, script: list[Call], start: dict[str, int]
) -> None:
    own = isinstance(policy, Standard) and not policy.finds_start
    check_script(policy, script, start if own else {}, {"sequence": sequence})


@prove
@given(policy=standards(), sequence=sequences(), messages=items(most=24), data=st.data())
def test_messages_may_be_cut_into_calls_in_any_way(
    policy: Policy, sequence: Sequence, messages: list[Any], data: st.DataObject
) -> None:
    messages = numbered(messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(messages)), max_size=6)))
    begin = comparing(policy) | {"sequence": sequence}
    whole, cut = Sequencer(policy, **begin), Sequencer(policy, **begin)
    at_once = [whole.offer(messages, now=0.0)]
    in_parts = [cut.offer(messages[a:b], now=0.0) for a, b in pairwise([0, *cuts, len(messages)])]
    assert join(at_once) == join(in_parts)
    assert join([whole.finish()]) == join([cut.finish()])


@prove
@given(
    policy=st.one_of(strategies.windowed, strategies.windowless), modulus=st.sampled_from([5, 8, 16]), script=scripts()
)
def test_best_effort_unwraps_what_turns_over(policy: BestEffort, modulus: int, script: list[Call]) -> None:
    check_script(policy, script, {}, {"sequence": Sequence(modulus=modulus, void="void")})


@prove
@given(policy=standards(), sequence=sequences(), messages=items(most=16), data=st.data())
def test_what_comes_twice_leaves_once(
    policy: Standard, sequence: Sequence, messages: list[Any], data: st.DataObject
) -> None:
    """The whole input again releases nothing: but what has no number, what was rejected, and numbers that turn over half-way."""
    says = {
        name: value for name, value in sequence.given().items() if name not in ("unnumbered", "restarts", "modulus")
    }
    plain = replace(policy, capacity=None, late=data.draw(st.sampled_from(["set_aside", "suspend"])))
    messages = [
        (group, number, value)
        for group, number, value in numbered(messages)
        if not says.get("epoch") or value is not VOID
    ]
    once = Sequencer(plain, **comparing(plain), sequence=Sequence(**says))
    first, again = once.offer(messages, now=0.0), once.offer(messages, now=0.0)
    left = {(one.group, one.value["message"]) for one in first.released}
    assert [one for one in again.released if (one.group, one.value["message"]) in left] == []
