"""The handler of the queue `orders`: it gets the updates of each customer in order, one at a time."""

from __future__ import annotations

import json

import seriatim as sq

TABLE = "CREATE TABLE IF NOT EXISTS order_updates (customer text, version bigint, status text)"
STATUSES = ("ordered", "paid", "packed", "shipped")


def handle(message: sq.Received, tx: sq.Session) -> None:
    """Write an update into a table, in the transaction that completes the message.

    `sq.Business` stops the customer until an operator has looked; nobody else waits. After any other exception the message is
    tried again, five times within 15 seconds, before that happens.
    """
    update = json.loads(message.body)
    if update["status"] not in STATUSES:
        raise sq.Business(f"unknown status {update['status']!r}")
    customer, version = message.text("customer"), message.whole("version")
    tx.connection.execute("INSERT INTO order_updates VALUES (%s, %s, %s)", [customer, version, update["status"]])
    print(f"handled: {customer} number {version}: {update['status']}", flush=True)
