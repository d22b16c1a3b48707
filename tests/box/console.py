"""What the tests of the operator's hand share: a queue, handlers that fail, and what comes out."""

from __future__ import annotations

import seriatim as sq
from seriatim.box.faults.faults import Fault, fail
from seriatim.kernel.operators.fault import FaultKind

BY = {"actor": "ann", "reason": "ticket 4711"}
ORDER = sq.MessageType(
    "order",
    properties={"customer": "string", "version": "long", "size": "long"},
    validation="valid_json",
    schema='{"type": "object"}',
)
BUSINESS = Fault(FaultKind.BUSINESS, "ValueError", "no such customer", "w1", "Traceback …")
TRANSIENT = Fault(FaultKind.TRANSIENT, "TimeoutError", "try later", "w1")


def define(box, policy=None, **options):
    given = {"policy": policy or sq.Standard(), "group": "customer", "sequence": "version"} | options
    if isinstance(given["policy"], sq.Fifo):
        del given["sequence"]
    box.define(ORDER, sq.Queue("shop", **given), sq.Subscription("shop", where="type = 'order'", to="shop"))


def publish(box, *numbers, group="c1", **properties):
    with box.session() as tx:
        return tx.publish(
            [
                sq.Message(type="order", body=b"{}", context={"customer": group, "version": one, **properties})
                for one in numbers
            ]
        )


def failing(box, what=BUSINESS, *, group="c1", done=0, size=1, limit=10):
    """A turn of which the first messages are done, and the next ones fail."""
    with box.session() as tx:
        return fail(tx.transaction, tx.receive("shop", limit=limit, group=group), done, size, what)


def received(box, group="c1", limit=10):
    """The sequences of one delivery, which is completed."""
    with box.session() as tx:
        delivery = tx.receive("shop", limit=limit, group=group)
        return [] if delivery is None else [one.sequence for one in delivery]


def deliveries(box, group="c1"):
    """Sequence, ordinal, flag and body of all that a group has to hand out."""
    found = []
    with box.session() as tx:
        while (delivery := tx.receive("shop", limit=3, group=group)) is not None:
            found += [(one.sequence, one.ordinal, one.late, one.body) for one in delivery]
    return found


def rows(box, query, *arguments):
    with box.session() as tx:
        return tx.connection.execute(query.replace("{schema}", box.schema), arguments).fetchall()


def logged(box):
    return [row[0] for row in rows(box, "SELECT action FROM {schema}.operator_log ORDER BY operation_id")]
