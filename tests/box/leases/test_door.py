"""The door: a run of one group under a lease, and the calls on it, from any process."""

import pytest

import seriatim as sq


def defined(box, **given):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.Queue("orders", group="customer", **({"policy": sq.Fifo()} | given)),
        sq.Queue("results", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("results", where="type = 'result'", to="results"),
    )
    return box


def order(customer, n):
    return sq.Message(type="order", context={"customer": customer, "n": n}, message_id=f"{customer}-{n}")


def result(customer, n):
    return sq.Message(type="result", context={"customer": customer, "n": n})


def test_a_run_is_completed_in_parts_and_results_are_published(box):
    defined(box)
    box.publish([order("a", n) for n in range(5)])
    lease = box.lease("orders", limit=3)
    assert [(m.position, m.attempt, m.late, m.message_id) for m in lease.messages] == [
        (1, 1, False, "a-0"), (2, 1, False, "a-1"), (3, 1, False, "a-2"),
    ]  # fmt: skip
    assert box.lease("orders") is None
    answer = lease.complete(2, publish=[result("a", 1)])
    assert (answer.done, answer.over, len(answer.published)) == (2, False, 1)
    again = box.leased(lease.id).complete(2, publish=[result("a", 1)])
    assert again.repeated
    assert again.published == answer.published
    assert lease.complete().over
    with box.session() as tx:
        assert [m.context["n"] for m in tx.receive("results", limit=9)] == [1]
    rest = box.lease("orders")
    assert [m.message_id for m in rest.messages] == ["a-3", "a-4"]
    assert rest.token > lease.token
    assert box.leased(lease.id).complete(3).repeated
    with pytest.raises(sq.LeaseLost):
        lease.renew()
