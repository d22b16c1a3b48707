"""A shop on a bad day, for the pictures of the documents and for the tests in a browser."""

from __future__ import annotations

import seriatim as sq
from seriatim.box.faults.faults import Fault, fail
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import groups, queues

ADDRESS = Fault(
    FaultKind.BUSINESS, "ValueError", "order 4711 has no postcode", "shop-1:4242",
    'Traceback (most recent call last):\n  File "handlers.py", line 14, in ship\n    raise ValueError(f"order {number} has no postcode")\nValueError: order 4711 has no postcode',
)  # fmt: skip
PAYMENT = Fault(FaultKind.BUSINESS, "PaymentRefused", "card expired", "shop-2:4243", "Traceback …")
ORDER = sq.MessageType(
    "order", properties={"customer": "string", "version": "long"}, validation="valid_json",
    schema='{"type": "object", "required": ["item", "amount"], "properties": {"amount": {"type": "integer"}}}',
)  # fmt: skip


def orders(box, customer, *versions, amount=1):
    with box.session() as tx:
        return tx.publish(
            [
                sq.Message(
                    type="order", content_type="application/json", context={"customer": customer, "version": one},
                    body=f'{{"item": "teapot", "amount": {amount}, "address": {{"city": "Bern", "postcode": null}}}}'.encode(),
                )
                for one in versions
            ]
        )  # fmt: skip


def stop(box, customer, fault, done=0, queue="fulfilment"):
    with box.session() as tx:
        fail(tx.transaction, tx.receive(queue, limit=10, group=customer), done, 1, fault)


def take(box, customer, queue="fulfilment", limit=10):
    with box.session() as tx:
        tx.receive(queue, limit=limit, group=customer)


def shop(box, faulted=12, refused=3):
    """Queues with groups that stand still in each way, and some that don't."""
    box.define(
        ORDER,
        sq.Queue("fulfilment", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("billing", policy=sq.Fifo(), group="customer"),
        sq.Queue("audit", policy=sq.Unordered()),
        sq.Subscription("fulfilment", where="type = 'order'", to="fulfilment"),
        sq.Subscription("billing", where="type = 'order' AND version > 3", to="billing"),
        sq.Subscription("audit", where="type = 'order' AND version > 8", to="audit"),
    )
    for number in range(1, faulted + 1):
        orders(box, f"c{number}", 1, 2, 3)
        stop(box, f"c{number}", ADDRESS)
    for number in range(1, refused + 1):
        orders(box, f"p{number}", 1, 2)
        stop(box, f"p{number}", PAYMENT)
    orders(box, "hole", 1, 2, 5, 6, 9)
    take(box, "hole")
    orders(box, "vendor", 1, 2, 3)
    groups.suspend(box, "fulfilment", "vendor", actor="ann", reason="vendor looks at it, ticket 4711")
    orders(box, "busy", *range(1, 12))
    take(box, "busy", limit=3)
    for number in range(min(2, refused)):
        groups.skip_message(box, "fulfilment", f"p{number + 1}", actor="bob", reason="the customer has cancelled")
    with box.session() as tx:
        tx.publish(sq.Message(type="return", body=b'{"order": 12}'))
    queues.turn_off(box, "audit", actor="ann", reason="the archive is full")
