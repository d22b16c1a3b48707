"""The figures of a box: right where they are counted, near where they are estimated, and the same as other views say."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.views.figures import read_figures
from seriatim.operations import groups, queues
from seriatim.operations.figures import figures
from tests.databases import box_with


def defined(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", max_messages=5000),
        sq.Queue("looks", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="version > 0", to="orders"),
        sq.Subscription("looks", where="customer = 'c1'", to="looks"),
    )


full = box_with(defined)


def order(customer, version):
    return sq.Message(type="order", context={"customer": customer, "version": version})


def of(found, figure, name=None, kind=None):
    (one,) = [one.value for one in found if (one.figure, one.name, one.kind) == (figure, name, kind)]
    return one


def test_counts_and_ages(full):
    with full.session() as tx:
        tx.publish([order("c1", n) for n in (1, 2, 4)] + [order("c2", 2), order("c3", 1), order("c3", 1)])
    for _ in range(3):
        with full.session() as tx:
            tx.receive("orders", limit=1)
    groups.suspend(full, "orders", "c3", actor="me", reason="test")
    found = figures(full)
    counts = {one.queue: one for one in queues.queues(full)}["orders"]
    for kind in ("arrived", "held", "queued", "in_hand"):
        assert of(found, "messages", "orders", kind) == getattr(counts, kind), kind
    assert of(found, "set_aside", "orders", "duplicate") == counts.duplicate == 1
    assert of(found, "groups", "orders", "suspended") == 1
    assert of(found, "groups", "orders", "waiting") == counts.waiting_groups
    assert of(found, "holes", "orders") >= 1
    assert of(found, "hole_seconds", "orders") >= 0
    assert of(found, "standing_seconds", "orders", "waiting") >= 0
    assert of(found, "ready_seconds", "looks") >= 0
    assert of(found, "queue_limit", "orders") == 5000
    assert of(found, "queue_enabled", "looks") == 1
    assert of(found, "is_estimated", "orders") == 0
    assert of(found, "published", "box") == 6
    assert of(found, "dispenser_next", "box") == 7
    assert of(found, "bytes", "entries") > 0
    assert of(found, "transaction_seconds") >= 0
    assert not [one for one in found if one.figure == "queue_limit" and one.name == "looks"]


def test_what_is_too_much_to_count_is_estimated(full):
    with full.session() as tx:
        tx.publish([order(f"c{n}", 2 if n % 2 else 1) for n in range(2, 602)])
    with full.access.transaction() as transaction:
        found = read_figures(transaction, 5.0, most=200)  # 100 for each queue
    assert of(found, "is_estimated", "orders") == 1
    assert of(found, "is_estimated", "looks") == 0
    # The sample is of all blocks here, as there are few.
    assert of(found, "messages", "orders", "arrived") == pytest.approx(600)
    with full.session() as tx:
        tx.receive("orders", limit=1)
    full.tick()
    with full.access.transaction() as transaction:
        found = read_figures(transaction, 5.0, most=200)
    groups_found = sum(one.value for one in found if one.figure == "groups" and one.name == "orders")
    assert groups_found == pytest.approx(600)


def test_a_statement_that_takes_too_long_is_said_to(full):
    with full.session() as tx:
        tx.connection.execute(f"LOCK TABLE {full.schema}.unrouted")
        with pytest.raises(sq.Unavailable, match=r"took longer than 0\.05 s"):
            figures(full, limit_s=0.05)
