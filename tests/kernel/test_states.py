"""What an action leads to is what the table says, on random scripts; one that doesn't fit names what does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim import Policy, Sequencer, Standard
from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.groups.state import Flag
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import VERBS, Action, Situation
from seriatim.kernel.operators import actions
from seriatim.kernel.operators.fault import fault
from tests.conformance.in_memory import comparing
from tests.kernel import strategies
from tests.kernel.comparison import Call
from tests.models.transitions import Happening, leads

_ANY = st.one_of([one for kind, one in strategies.ALL_POLICIES.items() if kind != "by arrival"])
# Of an engine, or of handlers: a group in memory knows nothing of them.
_NOT_HERE = {Happening.TAKEN, Happening.LEFT, Happening.FAULT}


def reachable(state: GroupState) -> set[GroupState]:
    """Where a group may get by itself, in any number of steps."""
    found = {state}
    while (
        more := {to for one in found for what in Happening if what not in _NOT_HERE for to in leads(one, what)} - found
    ):
        found |= more
    return found


@settings(max_examples=100, derandomize=True, database=None)
@given(policy=_ANY, script=strategies.calls(most=14))
def test_a_group_goes_where_the_table_leads(policy: Policy, script: list[Call]) -> None:
    sequencer = Sequencer(policy, **comparing(policy))
    for call in script:
        before = {key: GroupState(sequencer.group(key).state) for key in sequencer.groups()}
        allowed = {key: sequencer.group(key).allowed for key in sequencer.groups()}
        counts = sum(sequencer.counts().values())
        error: Exception | None = None
        try:
            getattr(sequencer, call.name)(*call.arguments, **call.keywords)
        except UsageError as refused:
            error = refused
        after = {key: GroupState(sequencer.group(key).state) for key in sequencer.groups()}
        if call.name in ("offer", "advance"):
            assert all(after[key] in reachable(before.get(key, GroupState.READY)) for key in after)
            continue
        assert sum(sequencer.counts().values()) == counts, "an action makes no message and loses none"
        key, action = call.arguments[0], Action(call.name)
        if error is None:
            named = call.keywords.get("sequence") is not None
            assert named or action in allowed[key], "what is done is what the group said that it allows"
            assert after[key] in leads(before[key], action)
        elif key in before:
            assert after == before
            if "holds no message" not in str(error):
                assert_told(error, action, before[key], allowed[key])


def assert_told(error: Exception, action: Action, state: GroupState, allowed: tuple[str, ...]) -> None:
    """A refusal because of the state says which, and what is allowed; one because of a number is another matter."""
    if action not in allowed:
        assert isinstance(error, ActionRefused)
        assert f"that is {state}" in str(error) or f"which is {state}" in str(error)
        assert error.remedy is not None
        said = error.remedy.removeprefix("allowed: ").split(", ")
        assert tuple(one for one in said if hasattr(Sequencer, one)) == allowed


def test_without_a_name_only_a_message_that_stopped_its_group_is_skipped() -> None:
    """An operator's suspension isn't lifted by it, also where a late message is held meanwhile."""
    sequencer = Sequencer(Standard(late="deliver", hole_timeout=5, on_hole="skip"))
    sequencer.offer([("a", 2, "2")], now=0)
    sequencer.advance(5)
    sequencer.suspend("a", now=6)
    sequencer.offer([("a", 1, "1"), ("a", 3, "3")], now=7)
    with pytest.raises(ActionRefused, match="no message has stopped the group, which is suspended") as refused:
        sequencer.skip_message("a", now=8)
    assert refused.value.remedy == "allowed: suspend, resume, reset, abort, close, requeue, restart"
    assert not sequencer.group("a").allows("skip_message")
    assert [item.sequence for item in sequencer.held("a")] == [1, 3]
    with pytest.raises(ActionRefused, match="cannot retry a group that is suspended") as refused:
        actions.retry(sequencer.policy, sequencer._groups[b"a"], 8, "a")
    assert "skip_message" not in str(refused.value.remedy)
    assert [(one.sequence, one.late) for one in sequencer.resume("a", now=9).released] == [(1, True), (3, False)]


def test_a_late_message_that_stopped_its_group_is_skipped() -> None:
    sequencer = Sequencer(Standard(late="suspend", start="first"))
    sequencer.offer([("a", 2, "2"), ("a", 1, "1"), ("a", 3, "3")], now=0)
    assert sequencer.group("a").allowed == ("suspend", "resume", "skip_message", "reset", "abort", "close", "restart")
    done = sequencer.skip_message("a", now=1)
    assert ([one.sequence for one in done.dead], [one.sequence for one in done.released]) == ([1], [3])


def test_who_has_a_group_decides_what_it_allows() -> None:
    leased = Situation(GroupState.LOCKED, leased=True)
    assert leased.allowed == (Action.SUSPEND, Action.ABORT, Action.REQUEUE)
    in_turn = Situation(GroupState.SUSPENDED, in_turn=True)
    assert in_turn.allowed == (Action.SUSPEND, Action.RESUME, Action.REQUEUE)
    assert Action.RETRY in Situation(GroupState.READY, tries_again=True).allowed


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("state", GroupState)
def test_what_is_allowed_leads_somewhere_and_nothing_else_does(action: Action, state: GroupState) -> None:
    assert bool(leads(state, action)) is (state in VERBS[action].states)


@settings(max_examples=60, derandomize=True, database=None)
@given(
    policy=_ANY,
    script=strategies.calls(most=6),
    data=st.data(),
    action=st.sampled_from([actions.retry, actions.skip_message, actions.abort, actions.suspend]),
)
def test_what_mends_a_faulted_group_loses_nothing(policy: Policy, script: list[Call], data: Any, action: Any) -> None:
    sequencer = Sequencer(policy, **comparing(policy))
    for call in script:
        if call.name == "offer":
            sequencer.offer(*call.arguments, **call.keywords)
    key = data.draw(st.sampled_from(sequencer.groups() or ["a"]))
    state = sequencer._groups.get(key.encode())
    if state is None:
        return
    state = fault(state, 10).state
    before = actions.state_of(policy, state)
    if before is GroupState.SUSPENDED:  # by a late message, which is mended first
        return
    done = action(policy, state, 10, "a") if before in VERBS[Action(action.__name__)].states else None
    if done is None:
        assert before is GroupState.CLOSED
        return
    assert actions.state_of(policy, done.state) in leads(before, Action(action.__name__))
    assert len(done.state.held) + len(done.decided) == len(state.held)
    gone_on = not done.state.groups.has(Flag.FAULTED)[0]
    assert gone_on is (action is not actions.suspend)
