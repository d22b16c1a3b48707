"""Callers over HTTP and a worker in Python work off one queue, while the server is killed and its connections are cut."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
import time

import httpx
import psycopg
import pytest

import seriatim as sq
from seriatim.operations import grants, invariants
from seriatim.operations.tokens import create_token
from tests.box.roles import make
from tests.command import command, environment
from tests.http.test_clients import CLIENTS, client
from tests.soak import seed, sized

GROUPS = 300


def defined(box):
    box.define(
        sq.MessageType("order", properties={"customer_id": "string"}),
        sq.MessageType("done", properties={"customer_id": "string"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer_id", retry=sq.Retry(1000, delay="0s")),
        sq.Queue("done", policy=sq.Fifo(), group="customer_id"),
        sq.Subscription("orders", "type = 'order'", "orders"),
        sq.Subscription("done", "type = 'done'", "done"),
    )
    make(box, "app", "srv")
    grants.grant(box, "app", publish=["done"], receive=["orders"])
    return create_token(box, "app", role="app", publish=["done"], receive=["orders"], server="srv")


def serve(box, port):
    dsn = box.dsn.replace("seriatim@", "srv@")
    words = ["serve", "--http", f"127.0.0.1:{port}", "--no-readers", "--http-connections", "3"]
    return subprocess.Popen(
        command(*words, "--dsn", dsn, "--schema", box.schema), env=environment(), stderr=subprocess.DEVNULL, start_new_session=True
    )  # fmt: skip


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def work(box, over):
    """As a worker does that is written with leases."""
    while not over.is_set():
        try:
            if (lease := box.lease("orders", lease="30s", wait=1)) is not None:
                done = [
                    (
                        one.position,
                        sq.Message(type="done", message_id=f"{one.message_id} done", context=dict(one.context)),
                    )
                    for one in lease.messages
                ]
                lease.complete(publish=done)
        except sq.Unavailable:
            pass


@pytest.mark.soak
@pytest.mark.proves("callers over HTTP lose nothing and publish each result once, while their server is killed")
def test_three_kinds_of_callers_work_off_a_queue_while_the_server_is_killed(box, tmp_path, figures):
    if shutil.which("node") is None or shutil.which("jq") is None or shutil.which("curl") is None:
        pytest.skip("node, curl or jq isn't installed")
    chance, count = random.Random(seed()), sized(10_000, 900)
    token, port = defined(box), free_port()
    for begin in range(0, count, 500):
        box.publish(
            [
                sq.Message(type="order", message_id=f"{n}", body=b"%d" % n, context={"customer_id": f"c{n % GROUPS}"})
                for n in range(begin, min(begin + 500, count))
            ]
        )
    over, server = threading.Event(), serve(box, port)
    address = f"http://127.0.0.1:{port}"
    callers, kills = [], 0
    worker = threading.Thread(target=work, args=(box, over))
    try:
        await_health(address)
        for name, program in CLIENTS.values():
            (tmp_path / name).write_text(client(name.split(".")[1].replace("mjs", "js")))
            callers.append(
                subprocess.Popen([program, tmp_path / name, address, token, "orders"], stdout=subprocess.DEVNULL)
            )
        worker.start()
        while any(one.poll() is None for one in callers):
            time.sleep(0.2 + chance.random())
            if kills < sized(40, 6):
                kills += 1
                if chance.random() < 0.5:
                    os.killpg(server.pid, signal.SIGKILL)
                    server.wait()
                    server = serve(box, port)
                    await_health(address)
                else:
                    cut(box)
    finally:
        over.set()
        worker.join()
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        for one in callers:
            one.kill()
    assert [one.returncode for one in callers] == [0, 0]
    figures(f"{count:,} messages of {GROUPS} groups; {kills} times the server was killed, or its connections were cut")
    rest = {}
    with box.session() as tx:
        while (delivery := tx.receive("done", limit=1000)) is not None:
            rest.setdefault(delivery.group, []).extend(one.message_id for one in delivery)
    assert rest == {
        f"c{group}": [f"{n} done" for n in range(group, count, GROUPS)] for group in range(min(GROUPS, count))
    }
    assert invariants.broken(box) == []


def await_health(address):
    end = time.monotonic() + 120
    while time.monotonic() < end:
        try:
            if httpx.get(f"{address}/healthz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    pytest.fail("the server doesn't answer")


def cut(box):
    """End all connections of the server."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'srv'")
