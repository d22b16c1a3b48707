"""The two boxes of the tutorials: orders go from the north to the south."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.operations import links

__all__ = ["copied", "handled", "linked", "order"]

ROLE = "north_road"


def linked(server: sq.MessageBox, **fields: Any) -> tuple[sq.MessageBox, sq.MessageBox]:
    """The boxes as the tutorial "two boxes" leaves them, in two databases of a server: north and south.

    Args:
        server: a box on the server.
        fields: more of the link.
    """
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        for name in ("north", "south"):
            connection.execute(f"CREATE DATABASE {name}")
        connection.execute(f"CREATE ROLE {ROLE} LOGIN")
    north, south = (sq.MessageBox.open(make_conninfo(server.dsn, dbname=name)) for name in ("north", "south"))
    kind = sq.MessageType("order", properties={"customer": "string", "version": "long"})
    south.define(kind, sq.Queue("orders", group="customer"))
    links.accept(
        south, "north", role=ROLE, other=str(north.id), queues=["orders"], actor="ann", reason="orders come from the shop"
    )  # fmt: skip
    north.define(
        kind,
        sq.Link("south", dsn=make_conninfo(south.dsn, user=ROLE), **fields),
        sq.Queue("orders", at="south", group="customer"),
    )
    return north, south


def copied(server: sq.MessageBox, name: str, copy: str) -> str:
    """Copy a database of the server, to which nobody is connected, over an older copy; returns the DSN of the copy."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {copy}")
        connection.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
    return make_conninfo(server.dsn, dbname=copy)


def order(version: int) -> sq.Message:
    """An order of the customer c1."""
    return sq.Message(
        type="order", body=b"%d" % version, context={"to": "orders", "customer": "c1", "version": version}
    )


def handled(box: sq.MessageBox) -> list[tuple[int, bool]]:
    """Handle all that waits in the queue: the version of each order, and whether it is marked as replayed."""
    box.tick()
    with box.session() as tx:
        return [(one.context["version"], one.replayed) for one in tx.receive("orders", limit=100) or ()]
