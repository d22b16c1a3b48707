"""What a receiver takes of a queue with a gate: messages of one group as far as they go."""

from __future__ import annotations

from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.box.turns.turns import Turns
from tests.box.shop import rows

JOB = sq.MessageType("job", {"key": "string", "n": "long", "urgency": "long"})
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
WORK = sq.Queue("work", sq.Unordered(), group="key", gate="out")
ALL = (
    sq.Subscription("work", where="type = 'job'", to="work"),
    sq.Subscription("out", where="type = 'done'", to="out"),
    JOB, sq.MessageType("done"), OUT, WORK,
)  # fmt: skip


@pytest.fixture
def gated(box):
    box.define(*ALL)
    return box


def publish(box, keys, urgency=5):
    """A message for each letter, together."""
    each = [{"key": key, "n": n, "urgency": urgency} for n, key in enumerate(keys, 1)]
    box.publish([sq.Message(type="job", context=context) for context in each])


def taken(tx, limit):
    delivery = tx.receive("work", limit=limit)
    return delivery and "".join(f"{one.context['key']}{one.context['n']}" for one in delivery)


def test_a_run_is_of_one_group_as_far_as_it_goes(gated):
    publish(gated, "abcabcabca")
    with gated.session() as tx, gated.session() as other, gated.session() as third:
        assert taken(tx, 3) == "a1a4a7"
        assert taken(other, 4) == "b2" + "c3" + "b5b8", "its group has no more: the oldest of others"
        assert taken(third, 10) == "c6c9" + "a10"


def test_the_oldest_message_goes_first_and_in_order_of_age(gated):
    publish(gated, "ab")
    publish(gated, "ba")
    with gated.session() as tx:
        assert taken(tx, 3) == "a1" + "b2" + "a2"
    with gated.session() as tx:
        assert taken(tx, 1) == "b1"


def test_a_message_with_more_priority_is_not_kept_waiting_by_its_group(gated):
    gated.define(replace(WORK, priority="urgency"))
    publish(gated, "aab")
    publish(gated, "ab", urgency=9)
    with gated.session() as tx, gated.session() as other:
        assert taken(tx, 2) == "a1" + "b2", "the rest of its group is less urgent"
        assert taken(other, 2) == "a1a2"


def test_what_waits_or_is_in_hand_is_passed_over(gated):
    publish(gated, "aaaab")
    with gated.session() as tx:
        tx.receive("work", limit=2).postpone("1h")
    with gated.session() as tx, gated.session() as other:
        assert taken(tx, 1) == "a3"
        assert taken(other, 9) == "a4" + "b5"


def test_a_group_that_is_too_far_ahead_of_its_gate_holds_up_no_other(gated):
    gated.define(replace(WORK, gate=replace(WORK.gate, open_at_most=2)))
    publish(gated, "aaab")
    with gated.session() as first, gated.session() as then:
        assert taken(first, 2) == "a1a2"
        assert taken(then, 3) == "b4"


def test_a_run_asks_its_gate_to_look_at_one_group(gated):
    publish(gated, "abcd" * 5)
    for _ in range(4):
        with gated.session() as tx:
            taken(tx, 5)
    asked = "SELECT group_key, count(*) FROM {schema}.requests GROUP BY 1 ORDER BY 1"
    assert rows(gated, asked) == [(key, 1) for key in "abcd"]


@pytest.mark.parametrize("limit", [1, 10])
def test_what_a_turn_has_released_leaves_without_another_also_beside_other_groups(gated, monkeypatch, limit):
    publish(gated, "abcd" * 20)
    for _ in range(4):
        with gated.session() as tx:
            for job in tx.receive("work", limit=20):
                tx.publish(sq.Message(type="done"), cause=job)
    turns = []
    monkeypatch.setattr(Turns, "look", noted(Turns.look, turns))
    found = []
    with gated.session() as tx:
        delivery = tx.receive("out", limit=limit)
        while delivery is not None:
            found += [(delivery.group, one.ordinal) for one in delivery]
            delivery = tx.commit_and_receive(limit=limit)
    assert found == [(key, n) for key in "abcd" for n in range(1, 21)]
    assert len(turns) == 4


def noted(method, calls):
    def wrapped(*given, **more):
        calls.append(given)
        return method(*given, **more)

    return wrapped
