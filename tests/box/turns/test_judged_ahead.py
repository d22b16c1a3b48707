"""Where turns would take in few messages those of many groups are judged together; who is next stays the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import seriatim as sq
from tests.databases import box_with

GROUPS = 200


def with_orders(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "level": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", priority="level"),
        sq.Subscription("all", where="type = 'order'", to="orders"),
    )


queue = box_with(with_orders)


def order(customer, version=1, **context):
    return sq.Message(type="order", body=b"", context={"customer": customer, "version": version} | context)


def publish(box, *messages):
    with box.session() as tx:
        tx.publish(messages)


def publish_one_by_one(box, count):
    """A message for each group, each group a bit later than the one before."""
    for number in range(count):
        publish(box, order(f"g{number:03}"))


def statuses(box):
    with box.session() as tx:
        found = tx.connection.execute(f"SELECT status, count(*) FROM {box.schema}.entries GROUP BY status").fetchall()
    return dict(found)


def received(box):
    """The group of the next message, taken alone."""
    with box.session() as tx:
        delivery = tx.receive("orders", limit=1)
        if delivery is None:
            return None
        (message,) = list(delivery)
        return delivery.group, message.sequence


def drained(box):
    return list(iter(lambda: received(box), None))


def test_one_message_each_in_many_groups(queue):
    publish_one_by_one(queue, GROUPS)
    with queue.session() as tx:
        delivery = tx.receive("orders", limit=1)
        assert delivery.group == "g000"
        # It is judged with the 64 that are next, before anything is in hand.
        assert statuses(queue) == {"arrived": GROUPS - 65, "queued": 65}
        delivery.put_back()
    assert drained(queue) == [(f"g{number:03}", 1) for number in range(GROUPS)]


def test_few_groups_are_left_to_whoever_takes_them(queue):
    publish_one_by_one(queue, 20)
    assert received(queue) == ("g000", 1)
    assert statuses(queue) == {"arrived": 19}


def test_where_few_are_asked_for_the_next_are_judged_with_many(queue):
    publish(queue, *(order("a", version) for version in range(1, 13)))
    publish(queue, *(order(f"g{n}") for n in range(60)))
    assert received(queue) == ("a", 1)
    assert statuses(queue) == {"queued": 71}
    assert drained(queue)[:11] == [("a", version) for version in range(2, 13)]


def test_so_many_groups_as_have_few_messages_each(queue):
    publish(queue, *(order("a", version) for version in range(1, 401)))
    for n in range(10):
        publish(queue, *(order(f"g{n}", version) for version in range(1, 11)))
    assert received(queue) == ("a", 1)
    assert statuses(queue) == {"queued": 399 + 3 * 10, "arrived": 7 * 10}  # 1,280 messages, if they were like the first


def test_a_run_is_judged_alone(queue):
    publish(queue, *(order("a", version) for version in range(1, 13)))
    publish(queue, *(order(f"g{n}") for n in range(60)))
    with queue.session() as tx:
        assert [message.sequence for message in tx.receive("orders", limit=20)] == list(range(1, 13))
    assert statuses(queue) == {"arrived": 60}


def test_what_comes_later_and_has_a_higher_priority_is_next(queue):
    publish_one_by_one(queue, 100)
    assert received(queue) == ("g000", 1)
    publish(queue, order("urgent", level=9), order("g001", 3), order("g001", 2))
    assert drained(queue)[:4] == [("urgent", 1), ("g001", 1), ("g002", 1), ("g003", 1)]


def test_a_hole_among_them_is_held(queue):
    publish(queue, *(order(f"g{number:03}", 1 + number % 2) for number in range(GROUPS)))
    assert sorted(drained(queue)) == [(f"g{number:03}", 1) for number in range(0, GROUPS, 2)]
    assert statuses(queue) == {"held": GROUPS // 2}
    publish(queue, *(order(f"g{number:03}") for number in range(1, GROUPS, 2)))
    assert sorted(drained(queue)) == [(f"g{n:03}", v) for n in range(1, GROUPS, 2) for v in (1, 2)]


def test_by_many_at_once_each_is_handed_out_once_and_in_order(queue):
    for version in (1, 2, 3):
        publish(queue, *(order(f"g{number:03}", version) for number in range(GROUPS)))
    with ThreadPoolExecutor(8) as threads:
        found = [one for some in threads.map(lambda _: drained(queue), range(8)) for one in some]
    assert sorted(found) == [(f"g{n:03}", v) for n in range(GROUPS) for v in (1, 2, 3)]
    assert drained(queue) == []
