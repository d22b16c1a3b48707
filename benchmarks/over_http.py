"""Callers over HTTP and receivers in SQL, beside the same work in Python."""

from __future__ import annotations

import os
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import httpx
import psycopg

from benchmarks.measure import Claim
from benchmarks.race import fresh_database
from seriatim import Fifo, Message, MessageBox, MessageType, Pace, Queue, Subscription, Unordered, Worker
from seriatim.box.server.embedded import serving
from seriatim.operations.grants import grant
from seriatim.operations.tokens import create_token

__all__ = ["over_http"]

_MESSAGES, _GROUPS, _BATCH, _RUN, _PAIRS, _ASKS = 10_000, 100, 500, 50, 3, 300
_QUEUE = "orders"
_BODY = "x" * 1000


def over_http(root: Path, peers: bool) -> Iterator[Claim]:
    """All of it, about three minutes."""
    with serving(root / "postgres") as server:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        with fresh_database(server.dsn) as dsn, MessageBox.open(dsn) as box:
            box.define(
                MessageType("order", properties={"customer": "string"}),
                Queue(_QUEUE, policy=Fifo(), group="customer"),
                Subscription("all-orders", where="type = 'order'", to=_QUEUE),
                Queue("asked", policy=Unordered()),
                Subscription("questions", where="type IN ('question', 'told')", to="asked"),
            )
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute("DROP ROLE IF EXISTS seriatim_bench")
                connection.execute("CREATE ROLE seriatim_bench")
            grant(box, "seriatim_bench", publish=[_QUEUE, "asked"], receive=[_QUEUE])
            token = create_token(box, "bench", role="seriatim_bench", publish=[_QUEUE, "asked"], receive=[_QUEUE])
            headers = {"Authorization": f"Bearer {token}"}
            with _served(dsn) as address, httpx.Client(base_url=address, headers=headers, timeout=120) as client:
                yield from _asked(box, client)
                yield from _measured(box, client)


@contextmanager
def _served(dsn: str) -> Iterator[str]:
    """The address of a server in a process of its own."""
    words = [sys.executable, "-m", "seriatim", "serve", "--http", "127.0.0.1:0", "--no-readers", "--dsn", dsn]
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"}
    ) as process:
        assert process.stderr is not None
        try:
            yield next(line.split()[-1] for line in process.stderr if "callers over HTTP find it at" in line)
        finally:
            process.terminate()
            process.communicate()


def _measured(box: MessageBox, client: httpx.Client) -> Iterator[Claim]:
    published, leased, in_sql, rates = [], [], [], []
    for pair in range(_PAIRS + 1):  # the first makes plans and connections
        seconds = {}
        seconds["box.publish"] = _timed(lambda: _publish(box))
        seconds["leased worker"] = _timed(lambda: _work(box, "leased"))
        seconds["publish"] = _timed(lambda: _publish_over(client))
        seconds["run"] = _timed(lambda: _work_over(client))
        _publish(box)
        seconds["worker"] = _timed(lambda: _work(box, "transactional"))
        _publish(box)
        seconds["receive"] = _timed(lambda: _work_in_sql(box))
        if pair:
            published.append(seconds["box.publish"] / seconds["publish"])
            leased.append(seconds["leased worker"] / seconds["run"])
            in_sql.append(seconds["worker"] / seconds["receive"])
            rates.append((_MESSAGES / seconds["publish"], _MESSAGES / seconds["run"], _MESSAGES / seconds["receive"]))
    amounts = [statistics.median(rate) for rate in zip(*rates, strict=True)]
    n = f"median of {_PAIRS}"
    yield Claim(
        f"published over HTTP, {_BATCH} a request ÷ box.publish, {n}",
        statistics.median(published),
        0.5,
        amount=amounts[0],
    )
    yield Claim(
        f"runs of {_RUN} over HTTP ÷ a worker with leases of one thread, {n}",
        statistics.median(leased),
        0.5,
        amount=amounts[1],
    )
    yield Claim(
        f"runs of {_RUN} received in SQL ÷ a worker of one thread, {n}",
        statistics.median(in_sql),
        0.9,
        amount=amounts[2],
    )


def _asked(box: MessageBox, client: httpx.Client) -> Iterator[Claim]:
    """How long a request takes, beside its message's way to a handler, twice: there, and back."""
    handled: queue.Queue[float] = queue.Queue()

    def handle(message: Message, tx: Any) -> Message | None:
        handled.put(time.perf_counter())
        return Message(type="price", body=message.body) if message.type == "question" else None

    def publish() -> float:
        began = time.perf_counter()
        box.publish(Message(type="told"))
        return handled.get() - began

    def request() -> float:
        taken = _timed(lambda: box.request(Message(type="question"), reply="price", wait=60))
        handled.get()
        return taken

    def over_http(path: str, kind: str) -> float:
        began = time.perf_counter()
        answer = client.post(path, json={"type": kind}, headers={"Prefer": "wait=60"})
        taken, at = time.perf_counter() - began, handled.get()
        assert answer.is_success, answer.text
        return taken if kind == "question" else at - began

    worker = Worker(box, "asked", handle, workers=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    calls: dict[str, Callable[[], float]] = {
        "publish": publish, "request": request,
        "publish over HTTP": lambda: over_http("/v1/messages", "told"),
        "request over HTTP": lambda: over_http("/v1/messages?reply=price", "question"),
    }  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(
        _ASKS + 20
    ):  # in turn, so that the machine is the same for all; the first make plans and connections
        for name, call in calls.items():
            taken = call()
            if turn >= 20:
                seconds[name].append(taken)
    worker.stop()
    thread.join()
    median = {name: statistics.median(taken) for name, taken in seconds.items()}
    for door in ("", " over HTTP"):
        ratio = median[f"request{door}"] / (2 * median[f"publish{door}"])
        what = f"request to reply{door} ÷ twice from publish to handler, median of {_ASKS}"
        yield Claim(what, ratio, 1.2, least=False, amount=1000 * median[f"request{door}"], unit="ms a request")


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _publish(box: MessageBox) -> None:
    for begin in range(0, _MESSAGES, _BATCH):
        box.publish(
            [
                Message(type="order", body=_BODY.encode(), context={"customer": f"c{n % _GROUPS}"})
                for n in range(begin, begin + _BATCH)
            ]
        )


def _publish_over(client: httpx.Client) -> None:
    for begin in range(0, _MESSAGES, _BATCH):
        messages = [
            {"type": "order", "body": _BODY, "context": {"customer": f"c{n % _GROUPS}"}}
            for n in range(begin, begin + _BATCH)
        ]
        answer = client.post("/v1/messages", json=messages)
        assert answer.status_code == 201, answer.text


def _work(box: MessageBox, mode: str) -> None:
    left, over = [_MESSAGES], threading.Event()

    def handle(delivery: Any, tx: Any) -> None:
        left[0] -= len(delivery)
        if left[0] <= 0:
            over.set()

    worker = Worker(box, _QUEUE, handle, batch=True, mode=mode, workers=1, pace=Pace(run_length=_RUN))
    thread = threading.Thread(target=worker.run)
    thread.start()
    over.wait()
    worker.stop()
    thread.join()


def _work_over(client: httpx.Client) -> None:
    left = _MESSAGES
    while left > 0:
        answer = client.post(f"/v1/queues/{_QUEUE}/deliveries", json={"limit": _RUN})
        assert answer.status_code == 200, answer.text
        delivery = answer.json()
        done = client.post(f"/v1/queues/{_QUEUE}/deliveries/{delivery['delivery']}/complete", json={})
        assert done.status_code == 200, done.text
        left -= len(delivery["messages"])


def _work_in_sql(box: MessageBox) -> None:
    left = _MESSAGES
    with psycopg.connect(box.dsn) as connection:
        while left > 0:
            rows = connection.execute(f"SELECT delivery FROM {box.schema}.receive(%s, %s)", [_QUEUE, _RUN]).fetchall()
            if rows[0][0] is not None:
                connection.execute(f"SELECT {box.schema}.complete(%s)", rows[0])
                left -= len(rows)
            connection.commit()
