"""What a scrape of a large box costs, beside the counts that `seriatim queues` shows.

The rows are made by SQL, in the tables that publishing and turns write, once as they come and once vacuumed. The ratio is that of the
median times of `operations.figures` and `operations.queues` on the same box.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import psycopg

from benchmarks.measure import Claim
from seriatim import Message, MessageBox, MessageType, Queue, Standard, Subscription
from seriatim.box.server.embedded import serving
from seriatim.operations import queues
from seriatim.operations.figures import figures

__all__ = ["monitored"]

_MESSAGES, _GROUPS, _TIMES = 1_000_000, 100_000, 7
_ENTRIES = """
    INSERT INTO seriatim.entries (queue_id, group_key, status, rank, arrival_id, position, serial, sequence, ordinal)
    SELECT queue_id, 'g' || n %% %(groups)s, (CASE n %% 4 WHEN 0 THEN 'held' WHEN 1 THEN 'arrived' ELSE 'queued' END), n, 1, 1, n, n, n
    FROM seriatim.queues, generate_series(1, %(messages)s) AS n WHERE queue = 'orders'
"""
_KNOWN = """
    INSERT INTO seriatim.known_groups SELECT (made).* FROM (
        SELECT jsonb_populate_record(one, jsonb_build_object('group_key', 'g' || n)) AS made
        FROM seriatim.known_groups AS one, generate_series(1, %(groups)s) AS n WHERE one.group_key = 'c1'
    ) AS all_of_them
"""


def monitored(root: Path, peers: bool) -> Iterator[Claim]:
    """Fill a box and read its figures, about a minute."""
    with serving(root / "postgres") as server, MessageBox.open(server.dsn) as box:
        box.define(
            MessageType("order", properties={"customer": "string", "version": "long"}),
            Queue("orders", policy=Standard(), group="customer", sequence="version"),
            Subscription("orders", where="TRUE", to="orders"),
        )
        with box.session() as tx:
            tx.publish(Message(type="order", context={"customer": "c1", "version": 2}))
        with box.session() as tx:
            tx.receive("orders")
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(_ENTRIES, {"messages": _MESSAGES, "groups": _GROUPS})
            connection.execute(_KNOWN, {"groups": _GROUPS})
            fresh = _median(lambda: figures(box))
            connection.execute("VACUUM ANALYZE")
            vacuumed, counted = _median(lambda: figures(box)), _median(lambda: queues.queues(box))
        click.echo(
            f"figures: {fresh * 1000:.0f} ms, vacuumed {vacuumed * 1000:.0f} ms; queues: {counted * 1000:.0f} ms"
        )
        yield Claim("figures of a monitor, against the counts of queues", counted / vacuumed, 2.0)


def _median(does: Callable[[], object]) -> float:
    times = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        does()
        times.append(time.perf_counter() - began)
    return statistics.median(times)
