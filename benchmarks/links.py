"""A link between two boxes beside publishing inside one: messages a second, the latency of a single one, and many streams at once;
and dialogs whose services are in two boxes beside those in one.

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
from seriatim import Contract, Link, Message, MessageBox, MessageType, Queue, Service
from seriatim.box.dialogs.clock import forget_closed
from seriatim.box.links.transmission import Roads, transmit
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import links
from seriatim.operations.links import transmit as transmit_of_box

__all__ = ["linking"]

_BODY = os.urandom(1_000)
_RUN = 50
_MESSAGES = int(os.environ.get("SERIATIM_BENCH_LINKS", "20000"))
_SINGLES = 100
#: Dialogs of five messages that are begun and ended; and those that are open meanwhile, a tenth of 100,000 at a time.
_DIALOGS = int(os.environ.get("SERIATIM_BENCH_FAR_DIALOGS", "2000"))
_OPEN = int(os.environ.get("SERIATIM_BENCH_OPEN_DIALOGS", "100000"))
_FEW = 100
_TALK = Contract("Talk", {"Message": "any"})
_ORDER = MessageType("order", properties={"customer": "string"})


def linking(root: Path, peers: bool) -> Iterator[Claim]:
    """A minute."""
    del peers
    server = EmbeddedServer(root / "postgres-links")
    try:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        far_dsn = _databases(server.dsn)
        with MessageBox.open(server.dsn) as near, MessageBox.open(far_dsn) as far:
            there = Service("There", queue="there", contracts=["Talk"])
            far.define(_ORDER, _TALK, Queue("orders", group="customer"), there)
            links.accept(
                far, "near", role="road", other=str(near.id), queues=["orders"], services=["Here"], actor="bench", reason="bench"
            )  # fmt: skip
            near.define(
                _ORDER,
                Link("far", dsn=make_conninfo(far_dsn, user="road")),
                Queue("orders", at="far", group="customer"),
                Queue("local", group="customer"),
                _TALK,
                Service("Here", queue="here"),
                Service("There", at="far"),
                Service("Local", queue="local there", contracts=["Talk"]),
            )
            transmit_of_box(near)
            note = (root / "postgres-links" / "data" / "postmaster.pid").read_text()
            pid = int(note.splitlines()[0])
            if os.environ.get("SERIATIM_BENCH_ONLY") != "dialogs":
                yield from _rates(near, pid)
                yield _latency(near)
            yield from _dialogs(near, far, pid)
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


def _dialogs(near: MessageBox, far: MessageBox, server: int) -> Iterator[Claim]:
    """Dialogs of five messages from begin to end, and a message beside few and beside many open ones."""
    local, local_cpu = _costs(server, lambda: _talked(near, near, "Local", "local there"))
    linked, linked_cpu = _costs(server, lambda: _talked(near, far, "There", "there"))
    for what, seconds, cpu in (("in one box", local, local_cpu), ("over a link", linked, linked_cpu)):
        click.echo(
            f"begin, 5 messages and both ends {what}: {_DIALOGS / seconds:,.0f} dialogs/s, {1e6 * cpu / _DIALOGS:,.0f} µs of processors "
            f"a dialog",
            err=True,
        )
    yield Claim("begin + 5 messages + end over a link ÷ in one box", local / linked, 0.3)
    yield Claim("begin + 5 messages + end in one box ÷ over a link, processor time", local_cpu / linked_cpu, None)
    _kept(near, far, "after all of them are forgotten")
    cpu_of = {}
    for dialogs in (_FEW, _OPEN):
        opened, opened_cpu = _costs(server, lambda dialogs=dialogs: _opened(near, far, dialogs))  # type: ignore[misc]
        cpu_of[dialogs] = min(_costs(server, lambda: _told_once(near, far))[1] for _ in range(3))
        _kept(
            near,
            far,
            f"with {dialogs:,} open dialogs, opened in {opened:,.0f} s with {opened_cpu:,.0f} s of processors",
        )
    yield Claim(
        f"a message beside {_OPEN:,} open dialogs ÷ beside {_FEW}, processor time",
        cpu_of[_OPEN] / cpu_of[_FEW],
        1.5,
        False,
    )


def _talked(near: MessageBox, far: MessageBox, service: str, queue: str) -> None:
    """Begin, say five messages and end; the other side receives them, and ends."""
    for _ in range(_DIALOGS):
        with near.session() as tx:
            handle = tx.begin_dialog("Here", service, contract="Talk")
            tx.send_many([(handle, "Message", _BODY)] * 5)
            tx.end(handle)
    _carried(near, far)
    ended = 0
    while ended < _DIALOGS:
        with far.session() as tx:
            for message in tx.receive(queue, limit=10) or ():
                if message.type == "EndDialog":
                    assert message.dialog is not None
                    tx.end(message.dialog.handle)
                    ended += 1
    _carried(near, far)
    for box in {near.dsn: near, far.dsn: far}.values():
        with box.access.transaction() as transaction:
            assert forget_closed(transaction, 0) in (_DIALOGS, 2 * _DIALOGS)


def _opened(near: MessageBox, far: MessageBox, dialogs: int) -> None:
    """Begin dialogs with one message each, which is received."""
    begun = 0
    while begun < dialogs:
        with near.session() as tx:
            handles = [tx.begin_dialog("Here", "There", contract="Talk") for _ in range(min(500, dialogs - begun))]
            tx.send_many([(handle, "Message", _BODY) for handle in handles])
        begun += len(handles)
        if begun % 10_000 == 0 or begun == dialogs:
            _carried(near, far)
    received = 0
    while received < dialogs:
        with far.session() as tx:
            for _ in range(200):
                received += sum(1 for _ in tx.receive("there", limit=10) or ())


def _told_once(near: MessageBox, far: MessageBox) -> None:
    """Say a message in each of a few dialogs, and receive it, many times."""
    with near.session() as tx:
        rows = tx.connection.execute(
            f"SELECT handle FROM {near.schema}.endpoints WHERE state = 'CO' ORDER BY began_at LIMIT {_FEW}"
        )
        handles = [handle for (handle,) in rows]
    for _ in range(10):
        with near.session() as tx:
            tx.send_many([(handle, "Message", _BODY) for handle in handles])
        _carried(near, far)
        received = 0
        while received < len(handles):
            with far.session() as tx:
                received += sum(1 for _ in tx.receive("there", limit=10) or ())


def _carried(near: MessageBox, far: MessageBox) -> None:
    """Carry both ways all that dialogs have said, and let both boxes obey it."""
    if near is far:
        return
    while True:
        (done,) = transmit_of_box(near, at_once=True)
        assert done.error is None, done.error
        for box in (near, far):
            with box.access.transaction() as transaction:
                while transaction.value("obey_waiting", at_most=1000) == 1000:
                    transaction.commit()
        with near.session() as tx, far.session() as other:
            waits = [
                one.connection.execute(f"SELECT FROM {near.schema}.unanswered_dialogs('0')").fetchone()
                for one in (tx, other)
            ]
        if not done.more and waits == [None, None]:
            return


def _kept(near: MessageBox, far: MessageBox, when: str) -> None:
    """Tell what both boxes keep of dialogs: rows, and bytes."""
    told = []
    for box in (near, far):
        with box.session() as tx:
            rows = [
                tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()
                for table in ("endpoints", "link_streams_out", "link_streams_in")
            ]
            ranges = tx.connection.execute(
                f"SELECT sum(pg_column_size(over)), sum((SELECT count(*) FROM unnest(over))) FROM {box.schema}.conversations"
            ).fetchone()
            numbers = tx.connection.execute(
                f"SELECT sum(pg_column_size(over)), sum((SELECT count(*) FROM unnest(over))) FROM {box.schema}.link_numbers"
            ).fetchone()
        told.append(
            f"sides, streams out and in {[one for (one,) in rows]}; bytes and ranges of numbers {ranges}, {numbers}"
        )
    click.echo(f"kept {when}: {' | '.join(told)}", err=True)
