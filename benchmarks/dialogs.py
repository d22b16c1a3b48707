"""Dialogs beside a plain table in the same PostgreSQL: send, receive and delete, a message or a run of them a call.

One connection each, one transaction to send and one to receive, fsync on: what is compared is how much is done in them.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psycopg

from benchmarks.measure import Claim
from seriatim import Contract, MessageBox, Service
from seriatim.box.server.embedded import EmbeddedServer

__all__ = ["talking"]

_BODY = os.urandom(400)
_ROUNDS, _CALLS = 3, 600
#: Dialogs from begin to end.
_DIALOGS = int(os.environ.get("SERIATIM_BENCH_DIALOGS", "10000"))
_INSERT = "INSERT INTO bare (body) SELECT unnest(%(bodies)b::bytea[])"
_TAKE = """
DELETE FROM bare WHERE id IN (SELECT id FROM bare ORDER BY id LIMIT %(limit)s FOR UPDATE SKIP LOCKED) RETURNING body
"""


def talking(root: Path, peers: bool) -> Iterator[Claim]:
    """Some minutes."""
    server = EmbeddedServer(root / "postgres-dialogs")
    try:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        with MessageBox.open(server.dsn) as box, psycopg.connect(server.dsn) as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea)"
            )
            connection.commit()
            box.define(
                Contract("Talk", {"Message": "any"}),
                Service("Here", queue="here"),
                Service("There", queue="there", contracts=["Talk"]),
            )
            yield from _beside(box, connection)
            _whole(box)
    finally:
        server.close()


def _beside(box: MessageBox, connection: psycopg.Connection) -> Iterator[Claim]:
    with box.session() as tx:
        handle = tx.begin_dialog("Here", "There", contract="Talk")

    def bare(run: int) -> None:
        connection.execute(_INSERT, {"bodies": [_BODY] * run})
        connection.commit()
        taken = connection.execute(_TAKE, {"limit": run}).fetchall()
        assert len(taken) == run
        connection.commit()

    def ours(run: int) -> None:
        with box.session() as tx:
            tx.send_many([(handle, "Message", _BODY)] * run)
        with box.session() as tx:
            assert sum(1 for _ in tx.receive("there", limit=run) or ()) == run

    for run, calls, least in ((1, _CALLS, 0.4), (50, _CALLS // 10, None)):
        rates: dict[str, list[float]] = {"bare table": [], "dialog": []}
        for _ in range(_ROUNDS):
            for name, call in (("bare table", bare), ("dialog", ours)):
                rates[name].append(_rate(call, run, calls))
        for name, found in rates.items():
            click.echo(f"{name}, {run} a call: {statistics.median(found):,.0f} messages/s", err=True)
        ratio = statistics.median(rates["dialog"]) / statistics.median(rates["bare table"])
        yield Claim(f"send + receive in a dialog ÷ bare table with SKIP LOCKED, {run} a call", ratio, least)


def _rate(call: Callable[[int], None], run: int, calls: int) -> float:
    for _ in range(10):
        call(run)
    begun = time.perf_counter()
    for _ in range(calls):
        call(run)
    return run * calls / (time.perf_counter() - begun)


def _whole(box: MessageBox, dialogs: int = _DIALOGS) -> None:
    """Begin, five messages and the end in one transaction; all of it received, and ended, in another."""
    begun = time.perf_counter()
    for _ in range(dialogs):
        with box.session() as tx:
            handle = tx.begin_dialog("Here", "There", contract="Talk")
            tx.send_many([(handle, "Message", _BODY)] * 5)
            tx.end(handle)
    sent = time.perf_counter()
    ended = 0
    while ended < dialogs:
        with box.session() as tx:
            for message in tx.receive("there", limit=10) or ():
                if message.type == "EndDialog":
                    assert message.dialog is not None
                    tx.end(message.dialog.handle)
                    ended += 1
    click.echo(
        f"begin + 5 messages + end: {dialogs / (sent - begun):,.0f} dialogs/s; "
        f"received and ended: {dialogs / (time.perf_counter() - sent):,.0f} dialogs/s",
        err=True,
    )
