"""Two boxes whose services talk to each other: the north buys, the south sells."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import sql

import seriatim as sq
from seriatim.operations import links
from seriatim.runtime.processes.link_server import LinkServer
from tests.box import roles
from tests.certificates import Authority
from tests.databases import fresh_box

__all__ = ["ORDER", "begun", "exchange", "received", "road", "two_boxes"]

ORDER = sq.Contract(
    "PurchaseOrder",
    {"Header": "initiator", "Line": "initiator", "Footer": "initiator", "Answer": "target", "Note": "any"},
)


@contextmanager
def two_boxes(
    databases: Any, *, https: Path | None = None, keep_sent: str = "0s", **queue: Any
) -> Iterator[tuple[sq.MessageBox, sq.MessageBox]]:
    """The north with the service Buyer, and the south with the service Seller, in two databases of a server; the north calls.

    Args:
        databases: the server.
        https: a folder for certificates: it calls over HTTPS.
        keep_sent: of the link.
        queue: more of the queue of the Seller.
    """
    with fresh_box(databases) as north, fresh_box(databases) as south:
        south.define(
            ORDER,
            sq.Queue("sales", policy=sq.Fifo(), group="conversation_group", **queue),
            sq.Service("Seller", queue="sales", contracts=["PurchaseOrder"]),
        )
        with road(north, south, https, ["Buyer"]) as address:
            north.define(
                ORDER,
                sq.Link("south", keep_sent=keep_sent, **address),
                sq.Service("Buyer", queue="bought"),
                sq.Service("Seller", at="south"),
            )
            yield north, south


def begun(north: sq.MessageBox, *kinds: str, **options: Any) -> UUID:
    """Begin a dialog of the Buyer with the Seller, whose first messages have these types; return its handle."""
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder", **options)
        for kind in kinds:
            tx.send(handle, kind, kind.encode())
    return handle


@contextmanager
def road(
    north: sq.MessageBox, south: sq.MessageBox, https: Path | None, services: list[str]
) -> Iterator[dict[str, Any]]:
    """The south accepts the north, with these services; the address of the south, for a `Link` of the north.

    Args:
        north: the box that calls.
        south: the box that is called.
        https: a folder for certificates; None: it calls by PostgreSQL.
        services: as which the north may speak.
    """
    told = {"other": str(north.id), "services": services, "actor": "ann", "reason": "they buy"}
    if https is not None:
        authority = Authority(https)
        mine, its = authority.issued("north"), authority.issued("south")
        server = LinkServer(south, "127.0.0.1:0", certificate=its.certificate, key=its.key, authority=its.authority)
        server.start()
        try:
            links.accept(south, "north", certificate=mine.certificate, **told)
            yield {"url": server.address, **mine.as_link()}
        finally:
            server.close()
        return
    role = f"road_{uuid4().hex[:12]}"
    roles.make(south, role)
    links.accept(south, "north", role=role, **told)
    try:
        yield {"dsn": roles.dsn_of(south, role), "schema": south.schema}
    finally:
        with psycopg.connect(south.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def exchange(north: sq.MessageBox, times: int = 2) -> None:
    """Carry all that waits both ways."""
    for _ in range(times):
        (done,) = links.transmit(north, at_once=True)
        assert done.error is None, done.error


def received(box: sq.MessageBox, queue: str, **options: Any) -> list[tuple[str, int | None, bytes]]:
    """Receive and complete what a queue gives next: type, number and body of each."""
    with box.session() as tx:
        return [(one.type, one.dialog.sequence, one.body) for one in tx.receive(queue, limit=100, **options) or ()]
