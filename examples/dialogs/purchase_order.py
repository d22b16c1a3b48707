"""Purchase orders in pieces (header, lines, footer), worked on by eight readers: never a line before its header.

python -m examples.dialogs.purchase_order [DSN]
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import seriatim as sq

ORDERS, LINES, READERS = 40, 6, 8


def main(box: sq.MessageBox) -> list[tuple[str, str]]:
    """Send the orders, work on them, and end all dialogs; what was worked on, as (order, piece)."""
    pieces = {"Header": "initiator", "Line": "initiator", "Footer": "initiator", "Accepted": "target"}
    box.define(
        sq.Contract("Purchase", pieces),
        sq.Service("Shop", queue="shop"),
        sq.Service("Supplier", queue="supplier", contracts=["Purchase"]),
    )
    with box.session() as tx:
        tx.connection.execute("CREATE TABLE IF NOT EXISTS order_pieces (id serial, order_no text, piece text)")
        tx.connection.execute("TRUNCATE order_pieces")
    with ThreadPoolExecutor(READERS) as threads:
        readers = [threads.submit(read, box) for _ in range(READERS)]
        handles = []
        for number in range(ORDERS):  # a transaction each, so that the pieces of many orders come mixed
            with box.session() as tx:
                handles.append(tx.begin_dialog("Shop", "Supplier", contract="Purchase"))
                tx.send(handles[-1], "Header", str(number).encode())
        for line in range(LINES):
            with box.session() as tx:
                tx.send_many([(handle, "Line", b"%d %d" % (number, line)) for number, handle in enumerate(handles)])
        with box.session() as tx:
            tx.send_many([(handle, "Footer", str(number).encode()) for number, handle in enumerate(handles)])
        answered = 0
        while answered < ORDERS:
            with box.session() as tx:
                for message in tx.receive("shop", limit=10, wait=5.0) or ():
                    if message.type == "EndDialog":
                        tx.end(message.dialog.handle)
                        answered += 1
        for reader in readers:
            reader.result()
    with box.session() as tx:
        return tx.connection.execute("SELECT order_no, piece FROM order_pieces ORDER BY id").fetchall()


def read(box: sq.MessageBox) -> None:
    """Work on what comes, one conversation group a transaction, until nothing has come for a while."""
    while True:
        with box.session() as tx:
            delivery = tx.receive("supplier", limit=3, wait=3.0)
            if delivery is None:
                return
            for message in delivery:
                order_no = message.body.split()[0].decode() if message.body else ""
                tx.connection.execute(
                    "INSERT INTO order_pieces (order_no, piece) VALUES (%s, %s)", [order_no, message.type]
                )
                if message.type == "Footer":
                    tx.send(message.dialog.handle, "Accepted", message.body)
                    tx.end(message.dialog.handle)


if __name__ == "__main__":
    with sq.MessageBox.open(*sys.argv[1:]) as opened:
        print(f"{len(main(opened))} pieces of {ORDERS} orders")
