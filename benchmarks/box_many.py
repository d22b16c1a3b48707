"""What a box costs that has much of something: groups, queues and subscriptions, messages behind a hole, one large body.

Each is measured at two sizes in the same run, one after the other, and the ratio is that of their times: it says how the
cost grows, whatever the machine. The seconds are told beside it. Memory is that of a process which does nothing else, at
its peak, without what it had before; its ratio is that to the size of the body.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import psycopg
from psycopg import sql

from benchmarks.measure import Claim
from seriatim import Fifo, Message, MessageBox, MessageType, Queue, Standard, Subscription
from seriatim.box.server.embedded import serving
from seriatim.operations import groups, queues
from seriatim.operations.doctor import State, examine
from seriatim.operations.grants import grant

__all__ = ["many"]

_PAGE, _TIMES, _MORE = 50, 5, 3
_GROUPS = (2_000, 20_000)
_QUEUES = (100, 1_000)
_BEHIND = (10_000, 100_000)
_BODY = 100_000_000
_STOPPED_EVERY = 100
#: Not forked: see `benchmarks.race`.
_PROCESSES = get_context("spawn")


def many(root: Path, peers: bool) -> Iterator[Claim]:
    """Groups, definitions, a hole, and a body, each in a database of its own, about two minutes."""
    with serving(root / "postgres") as server:
        for part in (_of_groups, _of_definitions, _of_a_hole, _of_a_body):
            with _database(server.dsn, part.__name__.strip("_")) as dsn:
                yield from part(dsn)


@contextmanager
def _database(server: str, name: str) -> Iterator[str]:
    """A database of its own, gone afterwards."""
    identifier = sql.Identifier(f"many_{name}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
        try:
            yield urlsplit(server)._replace(path=f"/many_{name}").geturl()
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


def _seconds(do: Callable[[], object], times: int = _TIMES) -> float:
    """The median time of several rounds."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        do()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _told(what: str, small: float, large: float) -> float:
    """The ratio of two times; tells both."""
    click.echo(f"{what}: {small * 1e3:,.0f} ms, {large * 1e3:,.0f} ms (load {os.getloadavg()[0]:.1f})", err=True)
    return large / small


def _vacuum(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


# ---- groups: pages of a queue in which one of a hundred stands still


def _of_groups(dsn: str) -> Iterator[Claim]:
    with MessageBox.open(dsn) as box:
        taken = []
        for count in _GROUPS:
            name = f"orders-{count}"
            box.define(
                MessageType(name, properties={"customer": "string", "version": "long"}),
                Queue(name, policy=Standard(), group="customer", sequence="version"),
                Subscription(name, where=f"type = '{name}'", to=name),
            )
            _fill_groups(box, name, count)
            _vacuum(dsn)
            taken.append(_pages(box, name, count))
        for what, small in taken[0].items():
            ratio = _told(f"groups: {what}", small, taken[1][what])
            yield Claim(f"{what} of {_GROUPS[1]:,} groups ÷ of {_GROUPS[0]:,}", ratio, 3, False)
        yield from _of_a_role(box, dsn, name)


def _of_a_role(box: MessageBox, dsn: str, queue: str) -> Iterator[Claim]:
    """The looks of a role that sees one queue beside those of the owner."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE many_looker LOGIN")
        user = connection.info.user
    try:
        grant(box, "many_looker", see=[queue], see_bodies=[queue])
        with MessageBox.open(dsn.replace(f"//{user}@", "//many_looker@")) as own:
            for what, look in {
                "a page of messages": lambda one: one.peek(queue, limit=_PAGE),
                "a page of stopped groups": lambda one: groups.stopped(one, queue, limit=_PAGE),
            }.items():
                owners, its = (_seconds(partial(look, one)) for one in (box, own))
                yield Claim(f"{what}, a role's look ÷ the owner's", _told(f"a role: {what}", owners, its), 3, False)
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("DROP OWNED BY many_looker")
            connection.execute("DROP ROLE many_looker")


def _fill_groups(box: MessageBox, name: str, count: int) -> None:
    """One message for each group, handed in and judged; in one of a hundred a number is missing."""
    for first in range(0, count, 10_000):
        box.publish([
            Message(type=name, body=b"{}", context={"customer": f"g{at:06}", "version": 2 if at % _STOPPED_EVERY == 0 else 1})
            for at in range(first, min(count, first + 10_000))
        ])  # fmt: skip
    while True:
        with box.session() as tx:
            delivery = tx.receive(name, limit=100)
            if delivery is None:
                return
            list(delivery)


def _pages(box: MessageBox, name: str, count: int) -> dict[str, float]:
    middle = (name, f"g{count // 2:06}")
    one = f"g{count // 2 + 1:06}"
    return {
        "a page of stopped ones": _seconds(lambda: groups.stopped(box, name, limit=_PAGE)),
        "the next page of stopped ones": _seconds(lambda: groups.stopped(box, name, after=middle, limit=_PAGE)),
        "a page of all": _seconds(lambda: groups.groups(box, name, limit=_PAGE)),
        "a page from the middle": _seconds(lambda: groups.groups(box, name, after=middle, limit=_PAGE)),
        "a page by a pattern with a beginning": _seconds(
            lambda: groups.groups(box, name, key=f"{one[:-1]}*", limit=_PAGE)
        ),
        "one group": _seconds(lambda: groups.group_view(box, name, one)),
    }


# ---- definitions: queues, and two subscriptions for each


def _of_definitions(dsn: str) -> Iterator[Claim]:
    taken = []
    with MessageBox.open(dsn) as box:
        box.define(MessageType("order", properties={"customer": "string", "region": "long"}))
        there = 0
        for count in _QUEUES:
            _define(box, there, count)
            there = count + _MORE
            _vacuum(dsn)
            taken.append(_definitions(box, dsn, count))
    for what, small in taken[0].items():
        yield Claim(
            f"{what} of {_QUEUES[1]:,} ÷ of {_QUEUES[0]:,}", _told(f"queues: {what}", small, taken[1][what]), 15, False
        )


def _define(box: MessageBox, first: int, last: int) -> None:
    given: list[Any] = []
    for at in range(first, last):
        given += _queue(at)
    began = time.perf_counter()
    box.define(*given)
    click.echo(
        f"{last - first:,} queues and {2 * (last - first):,} subscriptions: {time.perf_counter() - began:.1f} s",
        err=True,
    )


def _queue(at: int) -> list[Any]:
    name = f"q{at:05}"
    return [
        Queue(name, policy=Fifo(), group="customer"),
        Subscription(f"{name}-a", where=f"type = 'order' AND region = {at}", to=name),
        Subscription(f"{name}-b", where=f"type = 'order' AND region = {at + 1_000_000}", to=name),
    ]


def _definitions(box: MessageBox, dsn: str, count: int) -> dict[str, float]:
    more = itertools.count(count)
    box.publish([Message(type="order", body=b"{}", context={"customer": "a", "region": at}) for at in range(count)])
    return {
        "one more queue, the definitions": _seconds(lambda: box.define(*_queue(next(more))), _MORE),
        "the definitions read": _seconds(lambda: _read(dsn), 3),
        "list of queues, the definitions": _seconds(lambda: queues.queues(box), 3),
        "list of stopped groups, the queues": _seconds(lambda: groups.stopped(box), 3),
        "page of groups, the queues": _seconds(lambda: groups.groups(box, limit=_PAGE), 3),
        "doctor, the queues": _seconds(lambda: _doctor(dsn), 3),
    }


def _read(dsn: str) -> None:
    with MessageBox.open(dsn) as box:
        box.definitions()


def _doctor(dsn: str) -> None:
    if any(finding.state is State.WRONG for finding in examine(dsn=dsn) if finding.name == "box"):
        raise click.ClickException("the box is wrong")


# ---- a hole, and what waits behind it


def _of_a_hole(dsn: str) -> Iterator[Claim]:
    taken = []
    with MessageBox.open(dsn) as box:
        box.define(MessageType("order", properties={"customer": "string", "version": "long", "queue": "string"}))
        for count in _BEHIND:
            queue = f"orders-{count}"
            box.define(
                Queue(queue, policy=Standard(), group="customer", sequence="version"),
                Subscription(queue, where=f"queue = '{queue}'", to=queue),
            )
            for first in range(2, count + 2, 10_000):
                last = min(first + 10_000, count + 2)
                box.publish([_order(queue, at) for at in range(first, last)])
            _vacuum(dsn)
            receives = [_seconds(partial(_receive, box, queue), 1) for _ in range(2)]
            taken.append([*receives, _seconds(partial(_fill_hole, box, queue), 1)])
    for what, small, large in zip(("first receive", "second receive", "hole filled, and receive"), *taken, strict=True):
        ratio = _told(f"hole: {what}", small, large)
        yield Claim(f"{what}, {_BEHIND[1]:,} messages behind a hole ÷ {_BEHIND[0]:,}", ratio, 15, False)


def _order(queue: str, version: int) -> Message:
    return Message(type="order", body=bytes(100), context={"customer": "a", "version": version, "queue": queue})


def _fill_hole(box: MessageBox, queue: str) -> None:
    box.publish([_order(queue, 1)])
    _receive(box, queue)


def _receive(box: MessageBox, queue: str) -> None:
    with box.session() as tx:
        list(tx.receive(queue, limit=_PAGE) or ())


# ---- one large body


def _of_a_body(dsn: str) -> Iterator[Claim]:
    with MessageBox.open(dsn) as box:
        box.define(
            MessageType("order", properties={"customer": "string"}),
            Queue("orders", policy=Fifo(), group="customer"),
            Subscription("orders", where="type = 'order'", to="orders"),
        )
    for what, do in (
        ("published", _publish_body),
        ("published beside another", _publish_body),
        ("received, two at once", _receive_bodies),
    ):
        seconds, peak = _apart(do, dsn)
        click.echo(f"a body of {_BODY:,} bytes {what}: {seconds:.1f} s, {peak / 1e6:,.0f} MB more in memory", err=True)
        yield Claim(f"peak of memory ÷ body of {_BODY:,} bytes, {what}", peak / _BODY)


def _apart(do: Callable[[MessageBox], None], dsn: str) -> tuple[float, int]:
    """Seconds, and bytes of memory at the peak, of a process of its own."""
    ours, its = _PROCESSES.Pipe()
    process = _PROCESSES.Process(target=_measured, args=(do, dsn, its))
    process.start()
    its.close()
    seconds, peak = ours.recv()
    process.join()
    return seconds, peak


def _measured(do: Callable[[MessageBox], None], dsn: str, answer: Any) -> None:
    with MessageBox.open(dsn) as box:
        box.definitions()
        before = _memory("VmRSS")
        began = time.perf_counter()
        do(box)
        answer.send((time.perf_counter() - began, _memory("VmHWM") - before))


def _memory(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise click.ClickException("this system doesn't tell the memory of a process")


def _publish_body(box: MessageBox) -> None:
    body = os.urandom(_BODY)  # its own copy counts
    box.publish([Message(type="order", body=body, context={"customer": "a"})])


def _receive_bodies(box: MessageBox) -> None:
    with box.session() as tx:
        received = list(tx.receive("orders", limit=2) or ())
        if [len(one.body) for one in received] != [_BODY, _BODY]:
            raise click.ClickException("two bodies were expected")
