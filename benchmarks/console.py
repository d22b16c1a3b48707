"""How long a server computes each page of the console, of a box with five million messages in 100,000 groups; and what the console
costs the box.

The box is made from groups of each kind, which are published, received, and stopped through the box; SQL then copies their rows under
further keys and numbers. Each page is read several times by a program that asks the console as a browser does; the median counts.

The console's cost: processes publish and receive in the same box, a few seconds with the console's overview open and a few without, in turn. The
ratio is the median of those of neighbouring periods. Where other work uses the machine, that ratio says little: so the processor time of the
console and of its connections while the page is open is told as well.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import httpx
import psycopg
from psycopg import sql

from benchmarks.measure import Claim
from seriatim import Fifo, Message, MessageBox, MessageType, Queue, Standard, Subscription
from seriatim.box.faults.faults import Fault, fail
from seriatim.box.server.embedded import serving
from seriatim.console.app import create_app
from seriatim.console.pages import pages
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import groups, messages, retention
from seriatim.operations.looking import open_to_look

__all__ = ["consoles"]

_BOX, _QUEUE, _LOAD = "seriatim", "orders", "load"
#: A page must be computed within a second; the aim is 0.3.
_MUST_S, _TIMES = 1.0, 5
#: Numbers of a copy are those of its original, and this for each copy.
_STRIDE = 1_000
_BY = {"actor": "bench", "reason": "made for the measurement"}
_PROCESSES = get_context("spawn")
_PERIOD_S, _PAIRS, _START_S = 4.0, 12, 60
#: After a page was loaded, the browser waits 100 times as long as the loading took, and 5 s at most, as console.js does.
_SHARE, _LONGEST_S = 100, 5.0
#: The console may cost a box that is at its limit so much.
_LEAST, _MOST = 0.95, 0.05
_COPIED = ("spool", "entries", "known_groups", "tickets", "message_ids", "history", "aside", "faults", "operator_log")


def consoles(root: Path, peers: bool, count: int = 100_000, pairs: int = _PAIRS) -> Iterator[Claim]:
    """Fill a box with GROUPS groups of 50 messages each, read every page, and load the box beside the console."""
    with serving(root / "console") as server, open_box(server.dsn) as box:
        fill(box, count)
        yield from _pages(box)
        yield from _cost(box, pairs)


def open_box(dsn: str) -> MessageBox:
    """The box to be filled."""
    return MessageBox.open(dsn)


def fill(box: MessageBox, count: int) -> None:
    """Fill a box with groups of each kind: of a thousand six are faulted for one of two reasons, four wait for a number, one is suspended."""
    began = time.perf_counter()
    box.define(
        MessageType("order", properties={"customer": "string", "version": "long"}),
        Queue(_QUEUE, policy=Standard(), group="customer", sequence="version", keep="everything"),
        Queue(_LOAD, policy=Fifo(), group="customer"),
        Subscription("orders", where="customer NOT LIKE 'load%'", to=_QUEUE),
        Subscription("load", where="customer LIKE 'load%'", to=_LOAD),
    )
    retention.purge(box)  # makes the days of the history
    kinds = {"ready": 989, "address": 3, "card": 3, "hole": 4, "vendor": 1}
    _originals(box)
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(_BOX)))
        connection.execute("SET session_replication_role = replica")
        connection.execute("SET synchronous_commit = off")
        copies, first = {}, 1
        for kind, share in kinds.items():
            copies[kind] = (first, first + count * share // 1000 - 1)
            first = copies[kind][1] + 1
        past = "SELECT add_history_day((now() AT TIME ZONE 'UTC')::date - ago) FROM generate_series(1, 8) AS ago"
        connection.execute(past)
        for table in _COPIED:
            _copy(connection, table, copies)
        for sequence in ("arrival_ids", "entry_ids", "stamps"):
            connection.execute("SELECT setval(%s, %s)", [sequence, (count + 1) * _STRIDE])
        connection.execute("SELECT setval(pg_get_serial_sequence('faults', 'fault_id'), %s)", [(count + 1) * _STRIDE])
        connection.execute(
            "SELECT setval(pg_get_serial_sequence('operator_log', 'operation_id'), %s)", [(count + 1) * _STRIDE]
        )
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
        told = [
            f"{connection.execute(sql.SQL('SELECT count(*) FROM {}').format(sql.Identifier(one))).fetchall()[0][0]:,} in {one}"
            for one in _COPIED
        ]
    click.echo(f"filled in {time.perf_counter() - began:,.0f} s: {', '.join(told)}", err=True)


def _originals(box: MessageBox) -> None:
    """A group of each kind."""
    for kind, versions in (("ready", range(1, 51)), ("address", range(1, 51)), ("card", range(1, 51)), ("hole", [1, *range(3, 52)]), ("vendor", range(1, 51))):  # fmt: skip
        with box.session() as tx:
            tx.publish(
                [
                    Message(type="order", body=b'{"item": "teapot", "amount": 1}', context={"customer": kind, "version": one})
                    for one in versions
                ]
            )  # fmt: skip
        with box.session() as tx:
            list(tx.receive(_QUEUE, limit=9, group=kind))
    (one, *_) = messages.messages(box, queue=_QUEUE, group="ready", status="queued", limit=1)
    messages.take_out(box, one.message_id, queue=_QUEUE, **_BY)
    groups.suspend(box, _QUEUE, "vendor", **_BY)
    for kind, error, text in (
        ("address", "ValueError", "the order has no postcode"),
        ("card", "PaymentRefused", "card expired"),
    ):
        fault = Fault(FaultKind.BUSINESS, error, text, "shop-1:4242", f"Traceback …\n{error}: {text}")
        with box.session() as tx:
            fail(tx.transaction, tx.receive(_QUEUE, limit=5, group=kind), 0, 1, fault)


def _copy(connection: Any, table: str, copies: dict[str, tuple[int, int]]) -> None:
    """Copy the rows of each original group, in one statement."""
    columns = [
        row[0]
        for row in connection.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attgenerated = '' ORDER BY attnum",
            [table],
        )
    ]
    changed = {
        **dict.fromkeys(("arrival_id", "entry_id", "stamp", "serial", "number", "fault_id", "operation_id"), "one.{} + n * %(stride)s"),
        **{
            name: f"one.{{}} - make_interval(secs => 60.0 * ({max(last for _, last in copies.values())} - n) / 10)"
            for name in ("received_at", "published_at", "done_at", "aside_at")
        },
        "group_key": "one.{} || '-' || n", "message_id": "one.{} || '-' || n",
        "context": "one.{} || jsonb_build_object('customer', (one.{} ->> 'customer') || '-' || n)",
    }  # fmt: skip
    if table == "operator_log":
        changed.pop("message_id")
    of_group = {
        "spool": "one.context ->> 'customer'",
        "tickets": "(SELECT its.context ->> 'customer' FROM originals AS its WHERE its.arrival_id = one.arrival_id LIMIT 1)",
        "message_ids": "(SELECT its.context ->> 'customer' FROM originals AS its WHERE its.message_id = one.message_id LIMIT 1)",
    }.get(table, "one.group_key")
    if table == "spool":
        connection.execute("CREATE TEMPORARY TABLE originals AS SELECT arrival_id, message_id, context FROM spool")
    selected = ", ".join(
        changed.get(name, "one.{}").replace("{}", psycopg.sql.Identifier(name).as_string(connection))
        for name in columns
    )
    named = ", ".join(psycopg.sql.Identifier(name).as_string(connection) for name in columns)
    overriding = "OVERRIDING SYSTEM VALUE" if table in ("faults", "operator_log") else ""
    statement = (
        f"INSERT INTO {table} ({named}) {overriding} SELECT {selected} FROM (SELECT * FROM {table}) AS one "
        f"JOIN (VALUES {', '.join(f'({kind!r}, {first}, {last})' for kind, (first, last) in copies.items())})"
        f" AS kind (name, first, last) ON kind.name = {of_group} CROSS JOIN LATERAL generate_series(kind.first, kind.last) AS n"
    )
    connection.execute(statement, {"stride": _STRIDE})


# ---- pages

#: Pages beside those of the menu; the first of a group is found in the box.
_FURTHER = (
    "group-that-failed", "group-with-a-hole", "queues/orders", "groups?error=ValueError", "groups?error_class=ValueError", "groups?state=ready", "groups?state=all",
    "groups?state=faulted&key=card*", "groups?by=error", "messages?queue=orders", "messages?queue=orders&group=ready-7",
    "messages?status=held", "messages?error=postcode", "messages?type=order&status=dead", "messages?status=queued&since=1h",
    "messages/MESSAGE", "faults?error=postcode", "faults?by=error",
    "dead-letters?by=error", "dead-letters?error=nothing", "faults/FAULT", "search?text=ready-77", "search?text=MESSAGE", "search?text=nothing",
    "bulk?what=groups&action=retry", "bulk?what=groups&action=retry&error=ValueError", "bulk?what=groups&action=suspend&state=ready",
    "bulk?what=dead-letters&action=requeue", "groups?key=*77*&state=ready", "log?queue=orders", "log?group=vendor", "log?actor=bench&action=suspend", "events?queue=orders",
    "set-aside?status=late", "set-aside?status=duplicate",
)  # fmt: skip


def addresses(box: MessageBox) -> list[str]:
    """The addresses that are measured."""
    with psycopg.connect(box.dsn) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(_BOX)))
        hole, failed = (
            connection.execute(
                "SELECT group_key FROM known_groups WHERE group_key LIKE %s LIMIT 1", [f"{kind}-%"]
            ).fetchall()[0][0]
            for kind in ("hole", "address")
        )
        ((message, fault),) = connection.execute(
            "SELECT message_id, fault_id FROM faults ORDER BY fault_id DESC LIMIT 1"
        ).fetchall()
    named = {
        "MESSAGE": message, "FAULT": str(fault), "group-with-a-hole": f"groups/orders/{hole}", "group-that-failed": f"groups/orders/{failed}",
    }  # fmt: skip
    found = [page.paths[0] for page in pages() if page.section] + list(_FURTHER)
    for name, value in named.items():
        found = [one.replace(name, value) for one in found]
    return found


def _pages(box: MessageBox) -> Iterator[Claim]:
    there, took = _messages(box), timed(box)
    worst = max(took.values())
    yield Claim(f"console, {there:,} messages: seconds of the slowest page", worst, _MUST_S, False)
    yield Claim("the same, median of all pages", statistics.median(took.values()), 0.3, False)


def _messages(box: MessageBox) -> int:
    with psycopg.connect(box.dsn) as connection:
        counted = sql.SQL("SELECT count(*) FROM {}.spool").format(sql.Identifier(_BOX))
        return int(connection.execute(counted).fetchall()[0][0])


def timed(box: MessageBox, times: int = _TIMES) -> dict[str, float]:
    """The median of the seconds of each page; each that isn't answered counts as a minute."""

    async def read() -> dict[str, float]:
        found = {}
        with open_to_look(box.dsn, schema=_BOX) as looking:
            transport = httpx.ASGITransport(create_app(looking))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client:
                for one in addresses(box):
                    seconds = []
                    for _ in range(times):
                        began = time.perf_counter()
                        answer = await client.get(f"/{one}")
                        seconds.append(time.perf_counter() - began if answer.status_code == 200 else 60.0)
                        if seconds[-1] > 2:
                            break
                    found[one] = statistics.median(seconds)
                    text = (
                        f"{found[one] * 1000:9,.0f} ms" if answer.status_code == 200 else f"status {answer.status_code}"
                    )
                    click.echo(f"{text}  /{one}", err=True)
        return found

    return asyncio.run(read())


# ---- cost


def _cost(box: MessageBox, pairs: int) -> Iterator[Claim]:
    periods = 2 * (pairs + 1)
    ready: Any = _PROCESSES.Barrier(3)
    begin: Any = _PROCESSES.RawValue("d", 0)
    counts: Any = _PROCESSES.RawArray("q", 2 * periods)
    used: Any = _PROCESSES.RawArray("d", 2)
    loaders = [
        _PROCESSES.Process(target=_load, args=(box.dsn, place, periods, ready, begin, counts)) for place in range(2)
    ]
    looker = _PROCESSES.Process(target=_look, args=(box.dsn, periods, ready, begin, used))
    for process in (*loaders, looker):
        process.start()
    for process in (*loaders, looker):
        process.join()
    if any(process.exitcode for process in (*loaders, looker)):
        raise click.ClickException("a process of the load has failed")
    rates = [(counts[at] + counts[periods + at]) / _PERIOD_S for at in range(2, periods)]
    ratio = statistics.median(looked / alone for alone, looked in zip(rates[::2], rates[1::2], strict=True))
    click.echo(
        f"alone {statistics.median(rates[::2]):,.0f}/s, with the console {statistics.median(rates[1::2]):,.0f}/s",
        err=True,
    )
    yield Claim("messages in and out at full load: beside an open console ÷ without it", ratio, _LEAST)
    opened_s = pairs * _PERIOD_S
    click.echo(
        f"of one core, while the page is open: the console {used[0] / opened_s:.1%}, its connections {used[1] / opened_s:.1%}",
        err=True,
    )
    yield Claim(
        "an open page: processor time of the console's connections, of one core", used[1] / opened_s, _MOST, False
    )


def _load(dsn: str, place: int, periods: int, ready: Any, begin: Any, counts: Any) -> None:
    """One process: publish ten messages, receive them, again and again."""
    keys = itertools.cycle(range(place, 1000, 2))
    with MessageBox.open(dsn) as box:
        _once(box, f"load{next(keys):04}")
        if ready.wait(_START_S) == 0:
            begin.value = time.monotonic() + 0.2
        while not begin.value:
            time.sleep(0.001)
        while (at := int((time.monotonic() - begin.value) / _PERIOD_S)) < periods:
            counts[place * periods + max(at, 0)] += _once(box, f"load{next(keys):04}")


def _once(box: MessageBox, group: str) -> int:
    with box.session() as tx:
        tx.publish(
            [Message(type="order", body=os.urandom(256), context={"customer": group, "version": 1}) for _ in range(10)]
        )
    with box.session() as tx:
        return len(list(tx.receive(_LOAD, limit=10)))


def _look(dsn: str, periods: int, ready: Any, begin: Any, used: Any) -> None:
    """The console, with its overview open in every other period, which loads anew as in a browser."""

    async def look() -> None:
        with open_to_look(dsn, schema=_BOX) as box:
            app = create_app(box)
            client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1", timeout=60)
            next_at = 0.0
            is_warm = False
            while (at := int((time.monotonic() - begin.value) / _PERIOD_S)) < periods:
                if at >= 2 and not is_warm:  # the first pair of periods doesn't count
                    is_warm = True
                    used[0], used[1] = -time.process_time(), -_of_connections(box)
                left = begin.value + (at + 1) * _PERIOD_S - time.monotonic()
                if at % 2 == 0 or left <= 0:
                    await asyncio.sleep(max(left, 0.001))
                    continue
                stream = app.state.poller.stream()
                try:
                    async with asyncio.timeout(left):
                        async for event in stream:
                            if event.startswith("event: changed") and time.monotonic() >= next_at:
                                asked = time.monotonic()
                                await client.get("/")
                                next_at = time.monotonic() + min((time.monotonic() - asked) * _SHARE, _LONGEST_S)
                except TimeoutError:
                    await stream.aclose()
            used[1] += _of_connections(box)

    if ready.wait(_START_S) == 0:
        begin.value = time.monotonic() + 0.2
    while not begin.value:
        time.sleep(0.001)
    asyncio.run(look())
    used[0] += time.process_time()


def _of_connections(box: MessageBox) -> float:
    """The seconds of processor time of this process's connections, whose server is on this machine."""
    with box.session() as tx:
        (name,) = tx.connection.execute("SELECT current_setting('application_name')").fetchall()[0]
        rows = tx.connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", [name]).fetchall()
    ticks = 0
    for (pid,) in rows:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
