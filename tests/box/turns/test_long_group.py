"""A long group that one transaction receives in portions: in order, each message once, also where some are put back or rolled back in between."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.turns.turn_reading import PORTION
from seriatim.operations import dead_letters

JOB = sq.MessageType("job", properties={"key": "string", "n": "long"})
POLICIES = {
    "fifo": sq.Queue("jobs", sq.Fifo(), group="key"),
    "standard": sq.Queue("jobs", sq.Standard(), group="key", sequence="n"),
    "best": sq.Queue("jobs", sq.BestEffort(), group="key", sequence="n"),
}
MANY = 150


def filled(box, queue, *keys, many=MANY):
    box.define(JOB, queue)
    with box.session() as tx:
        tx.publish(
            [
                sq.Message(type="job", context={"to": "jobs", "key": key, "n": n}, message_id=f"{key} {n}")
                for n in range(1, many + 1)
                for key in keys
            ]
        )


def numbers(delivery):
    return [one.context["n"] for one in delivery]


@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize("policy", POLICIES)
def test_portions_follow_on_one_another(box, policy, limit):
    filled(box, POLICIES[policy], "a", "b")
    got = {"a": [], "b": []}
    with box.session() as tx:
        while (delivery := tx.receive("jobs", limit=limit)) is not None:
            got[delivery.group] += numbers(delivery)
    assert got == {key: list(range(1, MANY + 1)) for key in "ab"}
    with box.session() as tx:
        assert tx.receive("jobs") is None


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_put_back_or_rolled_back_comes_again_in_its_place(box, policy):
    filled(box, POLICIES[policy], "a")
    got = []
    with box.session() as tx:
        for place in range(1000):
            delivery = tx.receive("jobs", limit=4)
            if delivery is None:
                break
            match place % 5:
                case 0:
                    delivery.put_back()
                case 1 if len(delivery) > 2:
                    delivery.done_through(2)
                    got += [one.context["n"] for one in delivery.messages[:2]]
                case 2:
                    pass  # the next call puts it back
                case 3:
                    with tx.connection.transaction(force_rollback=True):
                        delivery.done()
                case _:
                    got += numbers(delivery)
    assert got == list(range(1, MANY + 1))


def test_what_is_dead_or_postponed_in_between(box):
    filled(box, POLICIES["fifo"], "a", "b", many=30)
    got = []
    with box.session() as tx:
        for place in range(100):
            delivery = tx.receive("jobs", limit=3, group="a")
            if delivery is None:
                break
            if place % 3 == 0:
                delivery.dead_letter("no", done=1)
                got.append(delivery.messages[0].context["n"])
            else:
                got += numbers(delivery)
        delivery = tx.receive("jobs", limit=3, group="b")
        delivery.postpone(3600, done=1)
        assert tx.receive("jobs", group="b") is None
    dead = [int(one.message_id.split()[1]) for one in dead_letters.dead_letters(box, "jobs")]
    assert dead
    assert sorted(got + dead) == list(range(1, 31))
    assert got == sorted(got)


def test_what_is_judged_leaves_before_more_is_judged(box):
    many = 2 * PORTION.arrived + 10
    filled(box, POLICIES["fifo"], "a", many=many)
    with box.session() as tx:
        assert [numbers(tx.receive("jobs")) for _ in range(5)] == [[1], [2], [3], [4], [5]]
        arrived = tx.connection.execute(
            f"SELECT count(*) FROM {box.schema}.entries WHERE status = 'arrived'"
        ).fetchone()
        assert arrived == (many - PORTION.arrived,)
