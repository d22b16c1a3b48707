"""A request to look at a group, which may be all that makes anybody look at it, goes with the turn that does, and not before."""

from __future__ import annotations

import psycopg

import seriatim as sq
from seriatim.box.connection.access import Transaction
from seriatim.box.turns.turns import Turns
from seriatim.operations import invariants, subscriptions
from tests.box import shop
from tests.box.fed import feed
from tests.databases import box_with

A_TURN_LOOKS_AHEAD_AT = 64


def with_shop(box):
    shop.define(box)
    box.define(sq.Queue("notes", sq.Unordered()), sq.Subscription("notes", where="type = 'note'", to="notes"))


orders = box_with(with_shop)


def kept_back(box, *customers):
    """Publish an order of each, which a stopped subscription keeps back until now: then a look is all that their groups have."""
    subscriptions.stop(box, "shop")
    for customer in customers:
        shop.publish(box, 1, customer=customer)
    box.tick()
    subscriptions.start(box, "shop")


def received(box):
    with box.session() as tx:
        delivery = tx.receive("shop", limit=1)
        return None if delivery is None else delivery.group if list(delivery) else None


def drained(box):
    """The groups of all messages, taken alone; then no look is left, and nothing stands still."""
    found = list(iter(lambda: received(box), None))
    assert shop.rows(box, "SELECT FROM {schema}.requests") == invariants.broken(box) == []
    return found


def publish_by_sql(box):
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"SELECT {box.schema}.publish('note', '', '{{}}')")


def test_a_group_is_looked_at_though_something_has_to_be_routed_first(orders):
    kept_back(orders, "a", "b")
    publish_by_sql(orders)
    assert drained(orders) == ["a", "b"]


def test_a_group_is_looked_at_though_another_transaction_has_to_route_first(orders):
    kept_back(orders, "a", "b")
    publish_by_sql(orders)
    with orders.session() as tx:
        tx.publish(sq.Message(type="note"))
        tx.receive("shop", limit=1).done()
    assert drained(orders) == ["b"]


def test_the_wait_for_a_hole_begins_though_something_has_to_be_routed_first(orders):
    shop.publish(orders, 2)
    orders.tick()
    shop.define(orders, policy=sq.Standard(hole_timeout="1h"))
    publish_by_sql(orders)
    assert drained(orders) == []
    assert shop.rows(orders, "SELECT FROM {schema}.known_groups WHERE due_at IS NOT NULL") == [()]


def test_a_turn_that_fails_takes_no_look_from_other_groups(orders):
    kept_back(orders, "b", "a", "c", "d")
    shop.rows(orders, "UPDATE {schema}.known_groups SET skipped = '{1}' WHERE group_key = 'b'")
    assert [received(orders) for _ in "acd"] == ["a", "c", "d"]


def test_a_pipeline_s_turn_that_fails_takes_no_look_from_other_groups(orders):
    with feed(orders, "shop") as reading:
        subscriptions.stop(orders, "shop")
        for customer in "bacd":
            shop.publish(orders, 1, customer=customer)
        *at, messages = reading.next("", 0, None)
        assert messages == 0
        subscriptions.start(orders, "shop")
        shop.rows(orders, "UPDATE {schema}.known_groups SET skipped = '{1}' WHERE group_key = 'b'")
        assert reading.next(*at, None)[2] == 3


def test_all_groups_that_are_locked_with_the_next_one_are_judged(orders):
    customers = [f"{number:03}" for number in range(A_TURN_LOOKS_AHEAD_AT + 10)]
    kept_back(orders, *customers)
    later = [f"later {number}" for number in range(50)]
    for customer in later:
        shop.publish(orders, 1, customer=customer)
    assert drained(orders) == customers + later


def test_a_look_that_is_requested_during_a_turn_is_left_to_the_next_one(orders):
    subscriptions.stop(orders, "shop")
    shop.publish(orders, 1, customer="a")
    with psycopg.connect(orders.dsn) as connection:
        transaction = Transaction(orders.access, connection)
        definitions = orders.access.known.read(transaction)
        queue, turns = definitions.queue("shop"), Turns(transaction)
        locked = turns.lock(queue)
        judged = turns.look(queue, locked, 1, wary=True)
        subscriptions.start(orders, "shop")
        assert turns.deliver(queue, locked, judged, definitions) is None
    assert drained(orders) == ["a"]
