"""Sets (`UnitOfWork`) come whole, in one delivery, whatever kept a part of one back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import seriatim as sq
from seriatim.operations import invariants, subscriptions


def drain(box):
    """All that can be received now, each delivery in a transaction of its own: group and sequences."""
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive("sets", limit=1)
            if delivery is None:
                return found
            found.append((delivery.group, [message.sequence for message in delivery]))


def lines_in_sets(box, **more):
    box.define(
        sq.MessageType("line", properties={"order": "string", "nr": "long", "lines": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size=3), group="order", sequence="nr", **more),
        sq.Subscription("even", where="type = 'line' AND nr IN (2)", to="sets"),
        sq.Subscription("odd", where="type = 'line' AND NOT nr IN (2)", to="sets"),
    )


def line(nr, order="o1"):
    return sq.Message(type="line", context={"order": order, "nr": nr})


def test_a_set_comes_whole(box):
    box.define(
        sq.MessageType("line", properties={"order": "string", "nr": "long", "lines": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size="lines"), group="order", sequence="nr"),
        sq.Subscription("lines", where="TRUE", to="sets"),
    )
    lines = [sq.Message(type="line", context={"order": "o1", "nr": nr, "lines": 5}) for nr in (5, 1, 3, 2)]
    box.publish(lines)
    assert drain(box) == []
    box.publish([sq.Message(type="line", context={"order": "o1", "nr": 4})])
    assert drain(box) == [("o1", [1, 2, 3, 4, 5])]


@pytest.mark.parametrize("later", [1, 2, 3])
def test_a_set_comes_whole_once_all_of_it_may_be_seen(box, later):
    lines_in_sets(box)
    moment = datetime.now(UTC) + timedelta(milliseconds=700)
    box.publish([line(later)], visible_at=moment)
    others = [line(nr) for nr in (1, 2, 3) if nr != later]
    box.publish([*others, line(1, "o2"), line(2, "o2"), line(3, "o2")])
    assert drain(box) == [("o2", [1, 2, 3])]
    assert invariants.broken(box) == []
    with box.session() as tx:
        assert [message.sequence for message in tx.receive("sets", wait=20)] == [1, 2, 3]
    assert datetime.now(UTC) >= moment


@pytest.mark.parametrize("stopped", ["even", "odd"])
def test_a_set_comes_whole_though_part_of_it_comes_by_a_subscription_that_is_stopped(box, stopped):
    lines_in_sets(box)
    subscriptions.stop(box, stopped)
    box.publish([line(1), line(2), line(3)])
    assert drain(box) == []
    box.tick()
    assert invariants.broken(box) == []
    subscriptions.start(box, stopped)
    assert drain(box) == [("o1", [1, 2, 3])]
    box.publish([line(1, "o2"), line(2, "o2"), line(3, "o2")])
    subscriptions.stop(box, stopped)
    assert drain(box) == []
    subscriptions.start(box, stopped)
    assert drain(box) == [("o2", [1, 2, 3])]


def test_a_set_that_is_judged_ahead_comes_whole(box):
    """Many groups at once are judged together, before they are asked for."""
    lines_in_sets(box)
    for nr in (1, 2):
        box.publish([line(nr, f"o{number}") for number in range(60)])
    box.publish([line(3, f"o{number}") for number in range(0, 60, 2)], delay="1h")
    box.publish([line(3, f"o{number}") for number in range(1, 60, 2)])
    assert sorted(drain(box)) == sorted((f"o{number}", [1, 2, 3]) for number in range(1, 60, 2))
    assert invariants.broken(box) == []
