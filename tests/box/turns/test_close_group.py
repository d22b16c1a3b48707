"""A handler closes the group of its message, in its transaction; an operator closes a group at once, or when it holds nothing."""

from __future__ import annotations

import asyncio

import pytest

import seriatim as sq
from seriatim.operations import events, groups, invariants
from tests.box.shop import define, left, publish, rows
from tests.runtime.workers.test_worker import until, working

pytestmark = pytest.mark.dear

BY = {"actor": "ann", "reason": "the quarter is over"}


def received(box, queue="shop"):
    """What is handed out, message by message."""
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue)
            if delivery is None:
                return found
            found += [(message.context["version"], message.ordinal) for message in delivery]


def late(box):
    """What is late, by number."""
    found = rows(box, "SELECT disposition, reason, sequence FROM {schema}.aside ORDER BY sequence")
    assert {(one.disposition, one.reason) for one in found} <= {("late", "the group is closed")}
    return [one.sequence for one in found]


def view(box, key="c1"):
    """The state of the group, and whether it is closing."""
    found = groups.group_view(box, "shop", key)
    return str(found.state), found.closing


def closed_at(box):
    """How often the group was told to be closed."""
    return [one.kind for one in events.events(box, "shop")].count("closed")


@pytest.fixture
def shop(box):
    define(box)
    yield box
    assert invariants.broken(box) == []


def test_it_is_closed_when_it_holds_nothing(shop):
    publish(shop, 1, 2, 4)
    with shop.session() as tx:
        delivery = tx.receive("shop", limit=2)
        tx.close_group()
        delivery.done()
    assert view(shop) == ("waiting", True)
    assert closed_at(shop) == 0
    publish(shop, 5, 4, 3, 3)
    assert received(shop) == [(3, 3), (4, 4)]
    assert (view(shop), late(shop), closed_at(shop)) == (("closed", False), [3, 4, 5], 1)


def test_what_is_released_is_handed_out_although_it_is_closed(shop):
    publish(shop, 1, 2, 3)
    with shop.session() as tx:
        delivery = tx.receive("shop")
        tx.close_group()
        tx.close_group()
        assert [message.context["version"] for message in delivery] == [1]
    assert view(shop) == ("closed", False)
    assert received(shop) == [(2, 2), (3, 3)]
    assert groups.forget(shop, "shop", "c1", **BY) == 1
    publish(shop, 1)
    assert received(shop) == [(1, 1)]


def test_it_is_undone_with_the_transaction(shop):
    publish(shop, 1, 2)
    with pytest.raises(ZeroDivisionError):
        _close_and_fail(shop)
    publish(shop, 3)
    assert received(shop) == [(1, 1), (2, 2), (3, 3)]
    assert (view(shop), closed_at(shop)) == (("ready", False), 0)


def test_a_delivery_that_is_put_back_leaves_all_the_same(shop):
    publish(shop, 1, 2, 3)
    with shop.session() as tx:
        delivery = tx.receive("shop", limit=2)
        tx.close_group()
        delivery.done_through(1)
    assert (view(shop), received(shop)) == (("closed", False), [(2, 2), (3, 3)])


def test_in_a_transaction_of_an_application(shop):
    publish(shop, 1, 2)
    with shop.session() as other, shop.session(other.connection) as tx:
        delivery = tx.receive("shop")
        tx.close_group()
        delivery.done()
    publish(shop, 3)
    assert (received(shop), late(shop)) == ([(2, 2)], [3])


def test_without_a_message_in_hand(shop):
    with shop.session() as tx:
        with pytest.raises(sq.UsageError, match="no message is in hand"):
            tx.close_group()
        publish(shop, 1)
        tx.receive("shop").put_back()
        with pytest.raises(sq.UsageError, match="cannot close the group: it was put back"):
            tx.close_group()
    shop.define(sq.Queue("heap", policy=sq.Unordered()), sq.Subscription("heap", where="type = 'order'", to="heap"))
    publish(shop, 2)
    with shop.session() as tx:
        tx.receive("heap")
        with pytest.raises(sq.UsageError, match="the queue has none"):
            tx.close_group()


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Standard(), sq.BestEffort(max_rows=10)])
@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_worker_s_handler(box, policy, mode):
    define(box, policy=policy)
    calls = []

    def handler(message, tx):
        calls.append(message.context["version"])
        if len(calls) == 2:
            tx.close_group()
            raise sq.Transient("the first attempt is undone")
        if calls[-1] == 3:
            tx.close_group()

    publish(box, 1, 2, 3)
    with working(sq.Worker(box, "shop", handler, mode=mode, workers=1)):
        until(lambda: not left(box))
        publish(box, 4)
        until(lambda: not left(box))
    assert (calls, view(box)) == ([1, 2, 2, 3], ("closed", False))
    assert late(box) == [None if isinstance(policy, sq.Fifo) else 4]
    assert closed_at(box) == 1
    assert invariants.broken(box) == []


def test_as_coroutines(shop):
    publish(shop, 1, 3)

    async def close():
        async with await sq.AsyncMessageBox.open(shop.dsn, schema=shop.schema) as box, box.session() as tx:
            delivery = await tx.receive("shop")
            await tx.close_group()
            await delivery.done()

    asyncio.run(close())
    assert view(shop) == ("waiting", True)


def test_an_operator_closes(shop):
    publish(shop, 1, 2, 4)
    done = groups.close(shop, "shop", "c1", **BY)
    assert (str(done.before), str(done.after)) == ("waiting", "waiting")
    assert view(shop) == ("waiting", True)
    assert "it is closing" in groups.standing(shop, "shop", "c1").why
    assert received(shop) == [(1, 1), (2, 2)]
    done = groups.close(shop, "shop", "c1", at_once=True, **BY)
    assert (str(done.after), [one.kind for one in done.events]) == ("closed", ["closed"])
    publish(shop, 3)
    assert (received(shop), late(shop)) == ([], [3])
    standing = groups.standing(shop, "shop", "c1")
    assert standing.helps == (groups.Action.ABORT,)
    assert [(one.action, one.details.get("at_once")) for one in standing.operations] == [
        ("close", True),
        ("close", None),
    ]
    groups.abort(shop, "shop", "c1", **BY)
    assert groups.forget(shop, "shop", "c1", **BY) == 1


def test_closed_at_once_what_was_released_stays(shop):
    publish(shop, 1, 2)
    groups.close(shop, "shop", "c1", **BY)
    assert view(shop) == ("closed", False)
    groups.close(shop, "shop", "c1", at_once=True, **BY)
    assert (received(shop), left(shop), closed_at(shop)) == ([], 2, 1)
    groups.abort(shop, "shop", "c1", **BY)


def test_a_closed_group_whose_handler_fails_is_retried(shop):
    publish(shop, 1, 2)
    groups.close(shop, "shop", "c1", **BY)
    failing = [True]

    def handler(message, tx):
        if failing:
            raise sq.Business("no")

    with working(sq.Worker(shop, "shop", handler, workers=1)):
        until(lambda: view(shop)[0] == "faulted")
        failing.clear()
        assert str(groups.retry(shop, "shop", "c1", **BY).after) == "closed"
        until(lambda: not left(shop))
    assert view(shop) == ("closed", False)


def test_a_closing_group_whose_handler_fails_is_closed_after_its_retry(shop):
    publish(shop, 1)
    with working(sq.Worker(shop, "shop", _fails, workers=1)):
        until(lambda: groups.group_view(shop, "shop", "c1").state == "faulted")
    done = groups.close(shop, "shop", "c1", **BY)
    assert (str(done.after), view(shop)) == ("faulted", ("faulted", True))
    assert str(groups.retry(shop, "shop", "c1", **BY).after) == "closed"
    assert received(shop) == [(1, 1)]


def _close_and_fail(box):
    with box.session() as tx:
        tx.receive("shop")
        tx.close_group()
        raise ZeroDivisionError


def _fails(message, tx):
    raise sq.Business("no")
