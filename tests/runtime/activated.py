"""Handlers of readers; what they did is in tables beside the box."""

from __future__ import annotations

import os


def note(message, tx):
    """Write down which process had the message."""
    tx.connection.execute(
        f"INSERT INTO {tx.access.schema}_seen (customer, version) VALUES (%s, %s)",
        [message.context["customer"], message.context["version"]],
    )


def hold(message, tx):
    """Tell who is at work, and wait until there is something in a table, or the connection ends."""
    note(message, tx)
    gate = f"SELECT count(*) FROM {tx.access.schema}_gate"
    tx.connection.execute(f"SELECT pg_notify('{tx.access.schema}', %s)", [str(os.getpid())])
    while tx.connection.execute(gate).fetchone()[0] == 0:
        tx.connection.execute("SELECT pg_sleep(0.02)")


def together(delivery, tx):
    """All messages of a run."""
    for message in delivery:
        note(message, tx)
