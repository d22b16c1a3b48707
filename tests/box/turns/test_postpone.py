"""Not now: a receiver postpones what it has in hand, and nothing counts as an attempt; or it makes it a dead letter."""

from __future__ import annotations

import json
import threading
from datetime import timedelta

import psycopg
import pytest

import seriatim as sq
from seriatim.kernel.groups.verbs import Action
from seriatim.operations import dead_letters, edits, groups, invariants, messages, trace
from seriatim.operations.grants import grant
from tests.box import roles
from tests.box.given_up import given_up
from tests.box.shop import define, left, publish, rows

pytestmark = pytest.mark.dear

BY = {"actor": "ann", "reason": "now it may be"}
POLICIES = [
    (sq.Standard(), {}),
    (sq.Fifo(), {"sequence": None}),
    (sq.BestEffort(), {}),
    (sq.UnitOfWork(size=3), {}),
    (sq.Unordered(), {"group": None, "sequence": None}),
]
by_policy = pytest.mark.parametrize(("policy", "more"), POLICIES, ids=lambda value: getattr(value, "name", ""))


def received(box, limit=10):
    with box.session() as tx:
        delivery = tx.receive("shop", limit=limit)
        return None if delivery is None else [(one.context["version"], one.attempt) for one in delivery]


def entries(box):
    query = """SELECT (stored.context ->> 'version')::bigint, entry.attempt, entry.postponed,
        extract(epoch FROM entry.postponed_until - now()) > 3000 AND entry.visible_at = entry.postponed_until
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position) ORDER BY 1"""
    return [tuple(row) for row in rows(box, query)]


def pass_time(box):
    """Let all postponements be over."""
    rows(box, "UPDATE {schema}.entries SET visible_at = now() WHERE visible_at > now()")
    rows(box, "UPDATE {schema}.known_groups SET due_at = 0 WHERE due_at IS NOT NULL")


@by_policy
@pytest.mark.parametrize("joined", [False, True])
def test_the_rest_waits_and_nothing_is_counted(box, policy, more, joined):
    define(box, policy=policy, **more)
    publish(box, 1, 2, 3)
    is_set, done = policy.name == "unit_of_work", 0 if policy.name == "unit_of_work" else 1
    if joined:
        with (
            psycopg.connect(box.dsn, options=f"-c search_path={box.schema}") as connection,
            box.session(connection) as tx,
        ):
            tx.receive("shop", limit=10).postpone("1h", done=done)
    else:
        with box.session() as tx:
            tx.receive("shop", limit=10).postpone(timedelta(hours=1), done=done)
    assert received(box) is None
    alone = not is_set and policy.name != "unordered"
    assert entries(box) == [
        (one, 0, None if alone and one > 2 else 1, None if alone and one > 2 else True) for one in range(done + 1, 4)
    ]
    assert rows(box, "SELECT FROM {schema}.faults") == []
    assert invariants.broken(box) == []
    pass_time(box)
    assert received(box) == [(one, 1) for one in range(done + 1, 4)]
    assert invariants.broken(box) == []


def test_the_group_shows_until_when_and_how_often(box):
    define(box)
    publish(box, 1, 2)
    publish(box, 1, customer="c2")
    for _ in range(3):
        with box.session() as tx:
            delivery = tx.receive("shop", group="c1")
            delivery.postpone("1h")
        pass_time(box)
    with box.session() as tx:
        tx.receive("shop", group="c1").postpone("1h")
    (view,) = groups.stopped(box)
    assert (view.group, view.state, view.postponed, view.allows(Action.SKIP_HOLE)) == ("c1", "waiting", 4, False)
    assert view.reason == view.postponement
    assert view.reason.endswith("(4 times)")
    found = groups.standing(box, "shop", "c1")
    assert found.why == f"its receiver said not now: {view.reason}"
    assert found.helps == ("retry",)
    assert found.following.postponement == view.reason
    assert rows(box, "SELECT state FROM {schema}.groups WHERE group_key = 'c1'")[0].state == "waiting"
    assert received(box) == [(1, 1)]  # of the other group
    first, second = messages.messages(box, queue="shop")
    assert (first.postponement, second.postponed) == (view.reason, None)
    assert any(view.reason in step.text for step in trace.trace_group(box, "shop", "c1"))


@by_policy
def test_retry_ends_it_and_is_logged(box, policy, more):
    define(box, policy=policy, **more)
    publish(box, 1, 2, 3)
    with box.session() as tx:
        tx.receive("shop", limit=1).postpone("1h")
        ids = [one.message_id for one in messages.messages(box, queue="shop")]
    if policy.name == "unordered":
        assert received(box) == [(2, 1), (3, 1)]
        messages.retry(box, ids[0], queue="shop", **BY)
        assert received(box) == [(1, 1)]
    else:
        assert groups.retry(box, "shop", "c1", **BY).obeyed
        assert received(box) == [(1, 1), (2, 1), (3, 1)]
    (entry,) = rows(box, "SELECT action, actor, details FROM {schema}.operator_log")
    assert (entry.action, entry.actor) == ("retry", "ann")
    assert policy.name == "unordered" or entry.details["postponed"] == 1
    assert invariants.broken(box) == []


def test_a_waiting_receiver_gets_it_when_its_time_has_come_and_at_once_after_a_retry(box):
    define(box)
    publish(box, 1)
    with box.session() as tx:
        tx.receive("shop").postpone("0.2s")
    with box.session() as tx:
        assert tx.receive("shop", wait="60s") is not None
        tx.delivery.postpone("1h")
    found = []

    def wait():
        with box.session() as tx:
            found.append(tx.receive("shop", wait="60s").messages[0].attempt)

    thread = threading.Thread(target=wait)
    thread.start()
    groups.retry(box, "shop", "c1", **BY)
    thread.join(120)
    assert found == [1]


@pytest.mark.parametrize(
    "delay", ["soon", "-1s", -1, None, True, float("nan"), "10001d", timedelta(days=-1), timedelta(days=10001)]
)
def test_what_is_no_delay_is_refused(box, delay):
    define(box)
    publish(box, 1)
    with box.session() as tx:
        delivery = tx.receive("shop")
        with pytest.raises(sq.UsageError):
            delivery.postpone(delay)
        assert [one.context["version"] for one in delivery] == [1]


def test_what_has_ended_or_is_only_a_part_is_refused(box):
    define(box)
    publish(box, 1, 2)
    with box.session() as tx:
        delivery = tx.receive("shop", limit=2)
        for verb in (
            lambda done: delivery.postpone("1s", done=done),
            lambda done: delivery.dead_letter("why", done=done),
        ):
            for done in (-1, 2, True, "1"):
                with pytest.raises(sq.UsageError, match="a whole number from 0 to 1"):
                    verb(done)
        for reason in ("", " ", None):
            with pytest.raises(sq.UsageError, match="is no reason"):
                delivery.dead_letter(reason)
        with pytest.raises(sq.UsageError, match=r"raise seriatim\.Postpone"):
            delivery.part(0, 1).postpone("1s")
        with pytest.raises(sq.UsageError, match=r"raise seriatim\.DeadLetter"):
            delivery.part(0, 1).dead_letter("why")
        delivery.done()
        with pytest.raises(sq.UsageError, match="it is done"):
            delivery.postpone("1s")
    with pytest.raises(sq.UsageError, match="it is done"):
        delivery.dead_letter("why")


def test_a_rolled_back_postponement_never_was(box):
    define(box)
    publish(box, 1)
    with given_up(box.session()) as tx:
        tx.receive("shop").postpone("1h")
    assert entries(box) == [(1, 0, None, None)]
    with psycopg.connect(box.dsn) as connection, box.session(connection) as tx:
        delivery = tx.receive("shop")
        with connection.transaction(force_rollback=True):
            delivery.postpone("1h")
    assert entries(box) == [(1, 0, None, None)]
    assert received(box) == [(1, 1)]
    assert invariants.broken(box) == []


def test_a_set_is_postponed_as_a_whole(box):
    define(box, policy=sq.UnitOfWork(size=3))
    publish(box, 1, 2, 3)
    with box.session() as tx:
        delivery = tx.receive("shop")
        with pytest.raises(sq.UsageError, match="is done as a whole"):
            delivery.postpone("1h", done=1)
        with pytest.raises(sq.UsageError, match="is done as a whole"):
            delivery.done_through(2)
        delivery.postpone("1h")
    (view,) = groups.stopped(box)
    assert (view.state, view.postponed) == ("waiting", 1)
    assert groups.retry(box, "shop", "c1", **BY).before == "waiting"
    assert received(box) == [(1, 1), (2, 1), (3, 1)]


@by_policy
@pytest.mark.parametrize("errors", ["suspend", "stop", "continue"])
def test_a_dead_letter_counts_as_an_attempt_and_its_group_goes_on(box, policy, more, errors):
    define(box, policy=policy, errors=errors, **more)
    box.define(
        sq.Queue("failures", sq.Unordered()),
        sq.Subscription("failures", where="type = 'seriatim.failure'", to="failures"),
    )
    publish(box, 1, 2, 3)
    is_set = policy.name == "unit_of_work"
    with box.session() as tx:
        tx.receive("shop", limit=10).dead_letter("no such customer", done=0 if is_set else 1)
    dead = dead_letters.dead_letters(box, "shop")
    assert len(dead) == (3 if is_set else 1)
    assert rows(box, "SELECT DISTINCT attempt, reason FROM {schema}.aside WHERE disposition = 'dead'") == [
        (1, "its handler made it a dead letter: no such customer")
    ]
    (fault,) = rows(box, "SELECT attempt, kind, error_class, error FROM {schema}.faults")
    assert fault == (1, "business", "DeadLetter", "no such customer")
    with box.session() as tx:
        (failure,) = tx.receive("failures").messages
        assert failure.context["dead_letter"] is True
    assert received(box) == (None if is_set else [(3, 1)])
    assert left(box) == 0
    assert invariants.broken(box) == []


def test_a_role_postpones_and_dead_letters_what_it_has_in_hand_and_nothing_else(box):
    define(box)
    define(box, "other")
    publish(box, 1, 2)
    roles.make(box, "receiver", "stranger")
    grant(box, "receiver", receive=["shop"])
    grant(box, "stranger", publish=["shop"], see=["shop"])
    with roles.as_role(box, "receiver") as own:
        with own.session() as tx:
            tx.receive("shop").postpone("1h")
        with pytest.raises(sq.EnvironmentProblem):  # that is for operators
            groups.retry(own, "shop", "c1", **BY)
        pass_time(box)
        with own.session() as tx:
            tx.receive("shop").dead_letter("no such customer")
    assert len(dead_letters.dead_letters(box, "shop")) == 1
    query = "SELECT queue_id, array_agg(entry_id) AS ids FROM {schema}.entries GROUP BY 1 ORDER BY 1"
    (shop, mine), (other, others) = rows(box, query)
    call = "SELECT box.postpone(%s, %s, %s, %s::interval) AS until"
    denied = psycopg.errors.InsufficientPrivilege
    for role, queue, ids, why in (
        ("stranger", shop, mine, "may not receive from"),
        ("receiver", other, others, "may not receive from"),
        ("receiver", shop, others, "in another queue"),
    ):
        with pytest.raises(denied, match=why):
            roles.in_sql(box, role, call, [queue, "c1", ids, "1h"])
    for delay in (None, "-1s", "10001 days"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="cannot be postponed by"):
            roles.in_sql(box, "receiver", call, [shop, "c1", mine, delay])
    with box.session() as tx:
        tx.receive("shop")
        assert roles.in_sql(box, "receiver", call, [shop, "c1", mine, "1h"]) == [
            (None,)
        ]  # it is in another one's hands
        assert roles.in_sql(box, "receiver", call, [shop, None, mine, "1h"]) == [(None,)]  # and its group has an order


def mended(box, policy, body=b"mended"):
    """Retry the postponed message 1 with another body."""
    if policy.name == "unordered":
        (first, *_) = messages.messages(box, queue="shop")
        messages.retry(box, first.message_id, queue="shop", body=body, **BY)
    else:
        groups.retry(box, "shop", "c1", body=body, **BY)


@pytest.mark.parametrize(
    ("policy", "more"),
    [one for one in POLICIES if one[0].name != "unit_of_work"],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_postponed_message_is_handed_out_as_it_was_edited(box, policy, more):
    define(box, policy=policy, **more)
    publish(box, 1)
    with box.session() as tx:
        tx.receive("shop").postpone("1h")
    mended(box, policy)
    assert [one.message.body for one in box.peek("shop")] == [b"mended"]
    for limit in (1, 10):  # a single arrival goes another way
        with given_up(box.session()) as tx:
            assert [(one.body, one.attempt) for one in tx.receive("shop", limit=limit)] == [(b"mended", 1)]
    with box.session() as tx:
        tx.receive("shop").postpone("1h")
    pass_time(box)
    with box.session() as tx:
        assert [one.body for one in tx.receive("shop")] == [b"mended"]


def test_the_messages_of_a_postponed_set_are_handed_out_as_they_were_edited(box):
    define(box, policy=sq.UnitOfWork(size=3))
    publish(box, 1, 2, 3)
    with box.session() as tx:
        tx.receive("shop").postpone("1h")
    lines = [json.loads(edits.line_of(one)) for one in edits.export(box, queue="shop")]
    lines[1] |= {"body": "mended"}
    lines[2]["context"] |= {"correlation_id": "mended"}
    planned = edits.plan(box, edits.read([json.dumps(one).encode() for one in lines]))
    assert [one.changed for one in edits.retry(box, planned, **BY)] == [(), ("body",), ("context.correlation_id",)]
    with box.session() as tx:
        assert [(one.body, one.context.get("correlation_id")) for one in tx.receive("shop")] == [
            (b"", None), (b"mended", None), (b"", "mended"),
        ]  # fmt: skip


@pytest.mark.parametrize(("policy", "more"), [POLICIES[0], POLICIES[-1]], ids=lambda value: getattr(value, "name", ""))
def test_a_dead_letter_comes_back_as_it_was_edited(box, policy, more):
    define(box, policy=policy, **more)
    publish(box, 1)
    with box.session() as tx:
        tx.receive("shop").postpone("1h")
    mended(box, policy)
    (one,) = messages.messages(box, queue="shop")
    messages.take_out(box, [one.message_id], queue="shop", **BY)
    (letter,) = dead_letters.dead_letters(box, "shop")
    dead_letters.requeue(box, letter.entry_id, **BY)
    with box.session() as tx:
        assert [(one.body, one.attempt) for one in tx.receive("shop")] == [(b"mended", 1)]
