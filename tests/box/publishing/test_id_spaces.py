"""Message ids are compared within the id space of who publishes: no role takes another's ids, or learns of them."""

from __future__ import annotations

import pickle

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import messages as message_operations
from seriatim.operations import retention
from seriatim.operations.grants import grant, grants, revoke
from seriatim.operations.trace import trace_message
from tests.box.roles import as_role, in_sql, make, rows
from tests.databases import box_with


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer"),
        sq.Queue("rq", policy=sq.Fifo(), group="customer"),
        sq.Queue(
            "small",
            policy=sq.Standard(),
            group="customer",
            sequence="version",
            max_messages=sq.Limit(2, when_full="refuse"),
        ),
        sq.Subscription("orders", where="customer LIKE 'c%'", to="orders"),
        sq.Subscription("rq", where="customer LIKE 'r%'", to="rq"),
        sq.Subscription("small", where="customer LIKE 's%'", to="small"),
    )


box = box_with(prepare)


def order(message_id, customer="c1", version=1):
    return sq.Message(type="order", message_id=message_id, context={"customer": customer, "version": version})


def ids(box):
    return sorted((one.message_id, one.queue, one.id_space) for one in message_operations.messages(box))


def test_whoever_publishes_an_id_first_takes_it_from_nobody(box):
    make(box, "eve", "shop", "clerk")
    grant(box, "eve", publish=["rq"])
    grant(box, "shop", publish=["orders"])
    grant(box, "clerk", publish=["orders"], id_space="shop")
    with as_role(box, "eve") as eve, as_role(box, "shop") as shop, as_role(box, "clerk") as clerk:
        assert eve.publish(order("order-4711", "r1")).left_out == []
        assert in_sql(box, "eve", "SELECT box.publish('order', '', '{\"customer\": \"r2\"}', 'sql-1')") == [("sql-1",)]
        assert box.publish(order("order-4711")).left_out == []
        assert shop.publish(order("order-4711")).left_out == []
        assert clerk.publish(order("order-4711")).left_out == ["order-4711"]  # they share a space
        assert box.publish(order("sql-1")).left_out == []
        assert eve.publish([order("sql-1", "r2"), order("new", "r2")]).left_out == ["sql-1"]
    box.tick()
    assert ids(box) == [
        ("new", "rq", "eve"),
        ("order-4711", "orders", ""),
        ("order-4711", "orders", "shop"),
        ("order-4711", "rq", "eve"),
        ("sql-1", "orders", ""),
        ("sql-1", "rq", "eve"),
    ]
    assert {(one.role, one.id_space) for one in grants(box)} == {("eve", "eve"), ("shop", "shop"), ("clerk", "shop")}


@pytest.mark.parametrize("whole", [True, False])
def test_what_was_left_out_is_told_within_the_list_of_ids(box, whole):
    first = [order(f"m{n}", version=n) for n in range(3)]
    assert box.publish(first) == ["m0", "m1", "m2"]
    given = [order("m4"), order("m1"), order("m4"), *first]

    def publish(messages):
        if whole:
            return box.publish(messages)
        with box.session() as tx:
            return tx.publish(messages)

    found = publish(given)
    assert isinstance(found, list)
    assert found == ["m4", "m1", "m4", "m0", "m1", "m2"]
    # One for each that isn't taken in: of what is given twice the second.
    assert found.left_out == ["m1", "m4", "m0", "m1", "m2"]
    assert publish(order("m1")) == ["m1"]
    assert publish(order("m1")).left_out == ["m1"]
    assert publish(order("m5")).left_out == publish([]).left_out == []
    kept = pickle.loads(pickle.dumps(found))
    assert (kept, kept.left_out) == (found, found.left_out)


def test_what_is_left_out_of_many_large_messages_is_told(box):
    """They go in several statements."""
    large = [
        sq.Message(type="order", message_id=f"m{n}", body=b"x" * 12_000_000, context={"customer": "c1"})
        for n in range(5)
    ]
    assert box.publish(large[3]).left_out == []
    assert box.publish(large).left_out == ["m3"]


def test_a_full_queue_lets_in_again_what_was_published_in_the_same_space_only(box):
    make(box, "shop")
    grant(box, "shop", publish=["small"])
    with as_role(box, "shop") as shop:
        shop.publish([order("a", "s1", 1), order("b", "s1", 2)])
        assert shop.publish([order("a", "s1", 1)]).left_out == ["a"]
        with pytest.raises(sq.QueueFull):
            box.publish([order("a", "s1", 3)])


def test_roles_of_one_group_share_its_space_and_a_role_of_its_own_goes_first(box):
    make(box, "team", options="NOLOGIN")
    make(box, "one", "two")
    rows(box, "GRANT team TO one, two")
    grant(box, "team", publish=["orders"])
    with as_role(box, "one") as one, as_role(box, "two") as two:
        assert one.publish(order("x")).left_out == []
        assert two.publish(order("x")).left_out == ["x"]
        grant(box, "two", receive=["orders"])  # from now on its own
        assert two.publish(order("x")).left_out == []
        grant(box, "two", id_space="team")
        assert two.publish(order("x")).left_out == ["x"]
        grant(box, "two", id_space="")
        box.publish(order("y"))
        assert two.publish(order("y")).left_out == ["y"]
        revoke(box, "two")
        grant(box, "two", publish=["orders"])  # begins anew
        assert two.publish(order("y")).left_out == []


def test_an_id_space_that_cannot_be(box):
    make(box, "old", "other")
    grant(box, "old", publish=["orders"], id_space="other")
    with pytest.raises(sq.UsageError, match="the id space 'other' is that of the role 'old'") as caught:
        grant(box, "other", publish=["orders"])
    assert "--id-space" in caught.value.remedy
    for wrong in ("x" * 129, "a\0", 7):
        with pytest.raises(sq.UsageError, match="is no id space"):
            grant(box, "other", publish=["orders"], id_space=wrong)
    grant(box, "other", publish=["orders"], id_space="other")  # said so
    assert [one.id_space for one in grants(box)] == ["other", "other"]


def test_two_messages_of_one_id_are_told_apart(box):
    make(box, "shop")
    grant(box, "shop", publish=["rq"])
    with as_role(box, "shop") as shop:
        shop.publish(order("x", "r1"))
    box.publish(order("x"))
    with pytest.raises(sq.UsageError, match="several messages have the id 'x', in the id spaces '', 'shop'"):
        message_operations.message(box, "x")
    with pytest.raises(sq.UsageError, match="several messages have the id 'x'"):
        trace_message(box, "x")
    message, places = message_operations.message(box, "x", id_space="shop")
    assert (message.context["customer"], [one.queue for one in places]) == ("r1", ["rq"])
    assert {one.queue for one in trace_message(box, "x", id_space="")} == {None, "orders"}
    where = ["--dsn", box.dsn, "--schema", box.schema]
    shown = CliRunner().invoke(main, ["messages", "show", "x", "--id-space", "shop", *where])
    assert 'customer: "r1"' in shown.stdout
    for queue in ("orders", "rq"):
        with box.session() as tx:
            tx.receive(queue).done()
    with pytest.raises(sq.UsageError, match="several messages have the id 'x'"):
        trace_message(box, "x")
    assert [one.kind for one in trace_message(box, "x", id_space="shop")] == ["received", "unknown"]


def test_an_id_is_forgotten_in_its_space_only(box):
    make(box, "shop")
    grant(box, "shop", publish=["orders"])
    with as_role(box, "shop") as shop:
        shop.publish(order("x"))
        box.publish(order("x"))
        rows(box, "UPDATE box.message_ids SET published_at = now() - interval '8 days' WHERE id_space = 'shop'")
        assert retention.purge(box).message_ids == 1
        assert box.publish(order("x")).left_out == ["x"]
        assert shop.publish(order("x")).left_out == []


def test_a_stray_of_one_id_leaves_another_where_it_is(box):
    """What an instance that has ended leaves is found by its place, and not by its id."""
    make(box, "shop")
    grant(box, "shop", publish=["orders"])
    with as_role(box, "shop") as shop:
        shop.publish(order("x"))
    box.publish(order("x"))
    ((first, _), (second, _)) = rows(box, "SELECT entry_id, arrival_id FROM box.entries ORDER BY entry_id")
    rows(
        box,
        "SELECT box.set_stray_aside(%s, 'c1', 'x', 1, 'gone', %s)",
        [box.definitions().queue("orders").queue_id, second],
    )
    assert rows(box, "SELECT entry_id FROM box.entries") == [(first,)]
