"""A link between two boxes beside publishing inside one: messages a second, the latency of a single one, and many streams at once.

Both boxes are on one server, fsync on, so a message over a link is written four times as often there as one that stays.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import click
import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.measure import Claim
from seriatim import Link, Message, MessageBox, MessageType, Queue
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import links

__all__ = ["linking"]

_BODY = os.urandom(1_000)
_RUN = 50
_MESSAGES = int(os.environ.get("SERIATIM_BENCH_LINKS", "20000"))
_SINGLES = 100
_ORDER = MessageType("order", properties={"customer": "string"})


def linking(root: Path, peers: bool) -> Iterator[Claim]:
    """A minute."""
    del peers
    server = EmbeddedServer(root / "postgres-links")
    try:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        far_dsn = _databases(server.dsn)
        with MessageBox.open(server.dsn) as near, MessageBox.open(far_dsn) as far:
            far.define(_ORDER, Queue("orders", group="customer"))
            links.accept(far, "near", role="road", other=str(near.id), queues=["orders"], actor="bench", reason="bench")
            near.define(
                _ORDER,
                Link("far", dsn=make_conninfo(far_dsn, user="road")),
                Queue("orders", at="far", group="customer"),
                Queue("local", group="customer"),
            )
            near.transmit()
            yield from _rates(near)
            yield _latency(near)
    finally:
        server.close()


def _databases(dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS far WITH (FORCE)")
        connection.execute("CREATE DATABASE far")
        if connection.execute("SELECT FROM pg_roles WHERE rolname = 'road'").fetchone() is None:
            connection.execute("CREATE ROLE road LOGIN")
    return make_conninfo(dsn, dbname="far")


def _rates(near: MessageBox) -> Iterator[Claim]:
    """Publishing inside one box, and over the link, by the number of streams."""
    local = _MESSAGES / _published(near, "local", 500)
    click.echo(f"published inside one box, {_RUN} a call: {local:,.0f} messages/s", err=True)
    per_stream: dict[int, float] = {}
    for groups in (100, 10_000):
        begun = time.perf_counter()
        _published(near, "orders", groups)
        _drained(near)
        per_stream[groups] = (time.perf_counter() - begun) / _MESSAGES
        click.echo(f"published and sent over {groups:,} streams: {1 / per_stream[groups]:,.0f} messages/s", err=True)
    yield Claim("published and sent over a link ÷ published inside one box", 1 / per_stream[100] / local, None)
    yield Claim("a message over 100 streams ÷ one over 10,000, by time", per_stream[100] / per_stream[10_000], None)


def _latency(near: MessageBox) -> Claim:
    """One message from its publishing to its acknowledgement, beside one that stays."""
    local, linked = [], []
    for nth in range(_SINGLES):
        begun = time.perf_counter()
        near.publish(_message("local", nth))
        local.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        near.publish(_message("orders", nth))
        near.transmit()
        linked.append(time.perf_counter() - begun)
    told = [1_000 * statistics.median(one) for one in (local, linked)]
    click.echo(
        f"a single message: {told[0]:.1f} ms published, {told[1]:.1f} ms published and acknowledged, with a new connection",
        err=True,
    )
    return Claim(
        "latency of a single message published ÷ published and acknowledged over a link", told[0] / told[1], None
    )


def _published(box: MessageBox, queue: str, groups: int) -> float:
    begun = time.perf_counter()
    for first in range(0, _MESSAGES, _RUN):
        box.publish([_message(queue, nth % groups) for nth in range(first, first + _RUN)])
    return time.perf_counter() - begun


def _drained(box: MessageBox) -> None:
    while True:
        (done,) = box.transmit()
        assert done.error is None
        (link,) = links.status(box)
        if not (done.more or link.waiting or link.unacknowledged):
            return


def _message(queue: str, customer: int) -> Message:
    return Message(type="order", body=_BODY, context={"to": queue, "customer": f"c{customer}"})
