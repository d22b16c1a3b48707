"""The examples of dialogs do what they say."""

from __future__ import annotations

from collections import defaultdict

from examples.dialogs import fan_out, monolog, purchase_order, trigger

from seriatim.operations import invariants
from tests.dialogs.talking import states


def test_a_purchase_order_never_has_a_line_before_its_header(box):
    pieces = defaultdict(list)
    for order, piece in purchase_order.main(box):
        pieces[order].append(piece)
    whole = ["Header", *["Line"] * purchase_order.LINES, "Footer"]
    assert pieces == {str(number): whole for number in range(purchase_order.ORDERS)}
    assert set(states(box).values()) == {"CD"}
    assert invariants.broken(box) == []


def test_an_order_goes_on_when_all_four_have_answered(box):
    assert sorted(fan_out.main(box).values()) == [4] * 5
    assert invariants.broken(box) == []


def test_a_trigger_sends_and_a_rollback_takes_it_back(box):
    assert trigger.main(box) == [
        ("NewCustomer", b"Ada"), ("EndDialog", b""), ("NewCustomer", b"Grace"), ("EndDialog", b"")
    ]  # fmt: skip
    assert set(states(box).values()) == {"CD"}
    with box.session() as tx:
        tx.connection.execute("DROP TABLE customers CASCADE")


def test_a_monolog_reaches_all_in_order(box):
    assert monolog.main(box) == {name: [b"%d" % number for number in range(10)] for name in monolog.READERS}
    assert set(states(box).values()) == {"CD"}
