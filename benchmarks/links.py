"""A link between two boxes beside publishing inside one: messages a second, the latency of a single one, and many streams at once.

Both boxes are on one server, fsync on, so a message over a link is written four times as often there as one that stays.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import click
import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.measure import Claim
from seriatim import Link, Message, MessageBox, MessageType, Queue
from seriatim.box.links.transmission import Roads, transmit
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import links
from seriatim.operations.links import transmit as transmit_of_box

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
            transmit_of_box(near)
            note = (root / "postgres-links" / "data" / "postmaster.pid").read_text()
            yield from _rates(near, int(note.splitlines()[0]))
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


def _rates(near: MessageBox, server: int) -> Iterator[Claim]:
    """Publishing inside one box, and over the link, by the number of streams; with the processor time of this process and of the server."""
    local, local_cpu = _costs(server, lambda: _published(near, "local", 500))
    click.echo(_told(f"published inside one box, {_RUN} a call", local, local_cpu), err=True)
    time_of: dict[int, float] = {}
    cpu_of: dict[int, float] = {}
    for groups in (100, 10_000):
        published = _costs(server, lambda groups=groups: _published(near, "orders", groups))  # type: ignore[misc]
        sent = _costs(server, lambda: _drained(near))
        time_of[groups], cpu_of[groups] = published[0] + sent[0], sent[1]
        click.echo(
            _told(f"published and sent over {groups:,} streams", time_of[groups], published[1] + sent[1])
            + f", of which {1e6 * sent[1] / _MESSAGES:.0f} µs to send it",
            err=True,
        )
    yield Claim("published and sent over a link ÷ published inside one box", local / time_of[100], None)
    yield Claim(
        "to send a message over 10,000 streams ÷ over 100, processor time", cpu_of[10_000] / cpu_of[100], 1.5, False
    )


def _costs(server: int, work: Callable[[], object]) -> tuple[float, float]:
    """The seconds of a piece of work, and its processor time here and in the server with all backends."""
    before, begun = _cpu(server), time.perf_counter()
    work()
    return time.perf_counter() - begun, _cpu(server) - before


def _cpu(server: int) -> float:
    """The processor time so far of this process, of a server, and of its backends, the ended ones too."""
    ticks = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(FileNotFoundError, ProcessLookupError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(folder.name) == server:
                    ticks += sum(map(int, fields[11:15]))
                elif int(fields[1]) == server:
                    ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def _told(what: str, seconds: float, cpu: float) -> str:
    return f"{what}: {_MESSAGES / seconds:,.0f} messages/s, {1e6 * cpu / _MESSAGES:.0f} µs of processors a message"


def _latency(near: MessageBox) -> Claim:
    """One message from its publishing to its acknowledgement over a connection that stands, beside one that stays."""
    roads = Roads()
    local, linked = [], []
    for nth in range(_SINGLES):
        begun = time.perf_counter()
        near.publish(_message("local", nth))
        local.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        near.publish(_message("orders", nth))
        (done,) = transmit(near.access, roads)
        linked.append(time.perf_counter() - begun)
        assert done.acknowledged == 1
    roads.close()
    told = [1_000 * statistics.median(one) for one in (local, linked)]
    click.echo(
        f"a single message: {told[0]:.1f} ms published, {told[1]:.1f} ms published, acknowledged and the answers fetched",
        err=True,
    )
    return Claim("latency of a single message over a link ÷ published inside one box", told[1] / told[0], None, False)


def _published(box: MessageBox, queue: str, groups: int) -> float:
    begun = time.perf_counter()
    for first in range(0, _MESSAGES, _RUN):
        box.publish([_message(queue, nth % groups) for nth in range(first, first + _RUN)])
    return time.perf_counter() - begun


def _drained(box: MessageBox) -> None:
    while True:
        (done,) = transmit_of_box(box)
        assert done.error is None
        (link,) = links.status(box)
        if not (done.more or link.waiting or link.unacknowledged):
            return


def _message(queue: str, customer: int) -> Message:
    return Message(type="order", body=_BODY, context={"to": queue, "customer": f"c{customer}"})
