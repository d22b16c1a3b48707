"""Every action in every state, by the kernel's table: it is done and leads where it may, or is refused with what is allowed."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

import seriatim as sq
from seriatim.box.faults.faults import fail
from seriatim.box.faults.lease import claim
from seriatim.box.operators import actions, requeue
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import VERBS, Action, Situation, refusal
from seriatim.operations import dead_letters, groups, subscriptions
from tests.box.console import BUSINESS, BY, ORDER, rows
from tests.models.transitions import leads

DEADLINE_S = 120.0
SHORT = {GroupState.TIMED_OUT: sq.Standard(hole_timeout=0.01)}


@pytest.fixture(scope="module")
def queues(postgresql):
    """A box with a queue for each state."""
    with sq.MessageBox.open(postgresql, schema="test_refused") as box:
        box.define(ORDER)
        for state in GroupState:
            policy = SHORT.get(state, sq.Standard(late="suspend"))
            box.define(
                sq.Queue(state, policy, group="customer", sequence="version"),
                sq.Subscription(state, where=f"customer LIKE '{state.replace('_', '-')} %'", to=state),
            )
        yield box


@pytest.fixture(autouse=True)
def _nobody_waits_long(monkeypatch):
    monkeypatch.setattr(actions, "_BRIEFLY_MS", 20)
    monkeypatch.setattr(requeue, "_PATIENCE_MS", 20)


def key_of(state, action):
    return f"{state} {action}".replace("_", "-")


def publish(box, key, *numbers):
    body = {"customer": key}
    box.publish([sq.Message(type="order", body=b"{}", context=body | {"version": one}) for one in numbers])


def letter_of(box, queue, key):
    (found,) = dead_letters.dead_letters(box, queue, key=key)
    return found.entry_id


def made(box, state, key):
    """A group with a dead letter, in that state; the locked one isn't locked yet."""
    publish(box, key, 1)
    with box.session() as tx:
        fail(tx.transaction, tx.receive(state, group=key), 0, 1, BUSINESS)
    groups.skip_message(box, state, key, **BY)
    match state:
        case GroupState.CLOSED | GroupState.SUSPENDED:
            groups.act(box, Action.CLOSE if state == "closed" else Action.SUSPEND, state, key, **BY)
        case GroupState.WAITING | GroupState.TIMED_OUT:
            publish(box, key, 3)
            with box.session() as tx:
                assert tx.receive(state, group=key) is None
        case GroupState.FAULTED:
            publish(box, key, 2)
            with box.session() as tx:
                fail(tx.transaction, tx.receive(state, group=key), 0, 1, BUSINESS)
        case GroupState.LOCKED | GroupState.READY:
            publish(box, key, 2)


def shown(box, state, key):
    return groups.group_view(box, state, key).state


@contextmanager
def in_state(box, state, key):
    """As long as the group shows that state."""
    if state is GroupState.LOCKED:
        with box.session() as tx:
            tx.receive(state, group=key)
            yield
        return
    deadline = time.monotonic() + DEADLINE_S
    while state is GroupState.TIMED_OUT and shown(box, state, key) != state:
        box.tick()
        assert time.monotonic() < deadline
    yield


def do(box, action, queue, key):
    queue = str(queue)
    if action is Action.REQUEUE:
        return dead_letters.requeue(box, letter_of(box, queue, key), **BY)
    return groups.act(box, action, queue, key, next=10 if action is Action.RESET else None, **BY)


def log_of(box, key):
    return rows(box, "SELECT action FROM {schema}.operator_log WHERE group_key = %s ORDER BY operation_id", key)


def assert_refused(box, action, queue, key, state):
    """It is refused with the state and what is allowed, and nothing has happened."""
    before, said = groups.group_view(box, queue, key), log_of(box, key)
    with pytest.raises(sq.ActionRefused) as refused:
        do(box, action, queue, key)
    assert refused.value.what == refusal(action, state)
    assert refused.value.where == f"queue '{queue}', group {key!r}"
    situation = Situation(state, by_message=state is GroupState.FAULTED, leased=before.leased_by is not None)
    assert refused.value.remedy == f"allowed: {', '.join(situation.allowed)}"
    assert set(situation.allowed) == {one for one in Action if before.allows(one)}
    after = groups.group_view(box, queue, key)
    assert (after.state, after.waiting, after.next) == (before.state, before.waiting, before.next)
    assert log_of(box, key) == said


@pytest.mark.dear
@pytest.mark.parametrize("state", GroupState)
def test_every_action_in_every_state(queues, state):
    for action in Action:
        made(queues, state, key_of(state, action))
    for action in Action:
        key = key_of(state, action)
        with in_state(queues, state, key):
            assert shown(queues, state, key) == state
            if action is Action.SKIP_MESSAGE and state in VERBS[action].states - {GroupState.FAULTED}:
                with pytest.raises(sq.ActionRefused, match=f"no message has stopped the group, which is {state}: name"):
                    do(queues, action, state, key)
            elif state not in VERBS[action].states:
                assert_refused(queues, action, state, key, state)
            elif (action, state) == (Action.REQUEUE, GroupState.LOCKED):
                with pytest.raises(sq.Unavailable, match=r"another session (has|keeps) the lock of the group"):
                    do(queues, action, state, key)
            else:
                done = do(queues, action, state, key)
                assert shown(queues, state, key) in leads(state, action)
                assert log_of(queues, key)[-1] == (action,)
                if action is not Action.REQUEUE:
                    assert (done.before, done.obeyed) == (state, state is not GroupState.LOCKED)


def test_a_late_message_that_suspended_its_group_is_skipped(queues):
    state, key = GroupState.SUSPENDED, "suspended late"
    publish(queues, key, 2)
    with queues.session() as tx:
        assert tx.receive(state, group=key) is None
    groups.skip_hole(queues, state, key, **BY)
    with queues.session() as tx:
        assert [one.sequence for one in tx.receive(state, group=key)] == [2]
    publish(queues, key, 1)
    with queues.session() as tx:
        assert tx.receive(state, group=key) is None
    assert shown(queues, state, key) == state
    assert do(queues, Action.SKIP_MESSAGE, state, key).after in leads(state, Action.SKIP_MESSAGE)


@pytest.mark.parametrize("action", Action)
def test_a_leased_group_is_locked(queues, action):
    state, key = GroupState.LOCKED, f"locked leased {action}".replace("_", "-")
    made(queues, state, key)
    with queues.session() as tx:
        claim(tx.transaction, tx.receive(state, group=key), 1, "somebody", 600_000_000)
    assert shown(queues, state, key) == state
    if action in (Action.SUSPEND, Action.ABORT):  # which fences its worker off
        assert do(queues, action, state, key).obeyed is (action is Action.ABORT)
    elif action is Action.REQUEUE:
        with pytest.raises(sq.Unavailable, match=r"another session (has|keeps) the lock of the group"):
            do(queues, action, state, key)
    else:
        assert_refused(queues, action, state, key, state)


@pytest.mark.parametrize("action", Action)
def test_what_is_not_there(queues, action):
    if action is Action.REQUEUE:
        with pytest.raises(sq.UsageError, match="no dead letter 999999999"):
            dead_letters.requeue(queues, 999_999_999, **BY)
        return
    if not VERBS[action].begins:
        with pytest.raises(sq.UsageError, match="there is no group 'nobody' in queue 'ready'"):
            do(queues, action, "ready", "nobody")
    with pytest.raises(sq.UsageError, match="there is no queue 'reddy'"):
        do(queues, action, "reddy", "nobody")


def test_of_a_queue_that_is_off_groups_are_as_they_are(queues):
    state, keys = GroupState.READY, ("ready off one", "ready off two")
    for key in keys:
        made(queues, state, key)
    subscriptions.stop(queues, state)
    try:
        assert_refused(queues, Action.RETRY, state, keys[0], state)
        assert do(queues, Action.SUSPEND, state, keys[0]).after == "suspended"
        assert do(queues, Action.REQUEUE, state, keys[1]).letter.group == keys[1]
    finally:
        subscriptions.start(queues, state)


def in_hand_of(box, key):
    query = (
        "SELECT message_id FROM {schema}.entries JOIN {schema}.spool USING (arrival_id, position) WHERE group_key = %s"
    )
    return rows(box, query + " AND status = 'in_hand' ORDER BY entry_id", key)[0][0]


def test_what_a_pipeline_has_in_hand_stays_its_own(queues):
    queues.define(
        sq.Queue("read", sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("read", where="customer LIKE 'read %'", to="read"),
    )
    for action in Action:
        publish(queues, f"read {action}", 1, 2, 4)
    with PipelineFeed(queues.dsn, queues.schema, queue="read", pipeline="p") as feed:
        reader, batch, count = feed.next("", 0, None)
        assert count == 2 * len(Action)
        for action in set(Action) - {Action.REQUEUE}:
            key = f"read {action}"
            if action is Action.SKIP_MESSAGE:
                with pytest.raises(sq.ActionRefused, match=r"a pipeline has message '.*' in hand"):
                    groups.skip_message(queues, "read", key, message=in_hand_of(queues, key), **BY)
            elif GroupState.WAITING in VERBS[action].states:
                do(queues, action, "read", key)
            else:
                assert_refused(queues, action, "read", key, GroupState.WAITING)
            assert groups.group_view(queues, "read", key).in_hand == 2
        assert feed.next(reader, 0, 0)[2] == count
        assert batch == 1


def test_of_a_group_of_dialogs_there_is_no_next_number(queues):
    queues.define(
        sq.Service("Asking", queue="asking"), sq.Service("Answering", queue="answering", contracts=["DEFAULT"])
    )
    with queues.session() as tx:
        tx.send(tx.begin_dialog("Asking", "Answering"), "DEFAULT", b"1")
    (view,) = groups.groups(queues, "answering")
    for action in (Action.RESUME, Action.RETRY, Action.SKIP_HOLE):
        assert_refused(queues, action, "answering", view.group, GroupState.READY)
    with pytest.raises(
        sq.ActionRefused, match="cannot reset the group, which is ready: only the policy standard has a next number"
    ) as refused:
        do(queues, Action.RESET, "answering", view.group)
    assert refused.value.remedy == "allowed: suspend, abort, close, requeue"
    for action in (Action.SUSPEND, Action.RESUME, Action.ABORT, Action.CLOSE):
        done = do(queues, action, "answering", view.group)
        assert done.after in leads(done.before, action)
