"""An order asks inventory, shipping, credit and accounts, in one conversation group, and goes on when all four have answered.

python -m examples.dialogs.fan_out [DSN]
"""

from __future__ import annotations

import sys

import seriatim as sq

DEPARTMENTS = ("Inventory", "Shipping", "Credit", "Accounts")


def main(box: sq.MessageBox, orders: int = 5) -> dict[str, int]:
    """Place orders, let the departments answer, and collect the answers; by order how many came."""
    box.define(
        sq.Contract("Ask", {"Question": "initiator", "Answer": "target"}),
        sq.Service("Orders", queue="orders"),
        *(sq.Service(name, queue=name.lower(), contracts=["Ask"]) for name in DEPARTMENTS),
    )
    with box.session() as tx:
        # The state of an order is kept under the id of its conversation group, whose lock is all the lock it needs.
        tx.connection.execute(
            "CREATE TABLE IF NOT EXISTS order_states (conversation_group text PRIMARY KEY, answers int DEFAULT 0)"
        )
        tx.connection.execute("TRUNCATE order_states")
    for number in range(orders):
        with box.session() as tx:
            first = None
            for name in DEPARTMENTS:
                handle = tx.begin_dialog("Orders", name, contract="Ask", related_to=first)
                tx.send(handle, "Question", b"order %d" % number)
                first = first or handle
    for name in DEPARTMENTS:
        for _ in range(orders):
            with box.session() as tx:
                for message in tx.receive(name.lower()) or ():
                    tx.send(message.dialog.handle, "Answer", b"yes to " + message.body)
                    tx.end(message.dialog.handle)
    done = 0
    while done < orders:
        with box.session() as tx:
            delivery = tx.receive("orders", limit=3, wait=5.0)
            if delivery is not None:
                done += collect(tx, delivery)
    with box.session() as tx:
        return dict(tx.connection.execute("SELECT conversation_group, answers FROM order_states").fetchall())


def collect(tx: sq.Session, delivery: sq.Delivery) -> bool:
    """Count the answers of one order; whether it has all of them now, and so goes on."""
    complete = False
    for message in delivery:
        if message.type == "Answer":
            (answers,) = tx.connection.execute(
                "INSERT INTO order_states VALUES (%s, 1) ON CONFLICT (conversation_group) "
                "DO UPDATE SET answers = order_states.answers + 1 RETURNING answers",
                [delivery.group],
            ).fetchall()[0]
            complete |= answers == len(DEPARTMENTS)
        else:  # EndDialog, or Error
            tx.end(message.dialog.handle)
    return complete


if __name__ == "__main__":
    with sq.MessageBox.open(*sys.argv[1:]) as opened:
        print(main(opened))
