"""Callers that wait: hundreds cost sockets and no connections, and one that has gone away gets nothing."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest

import seriatim as sq
from seriatim.listening.limits import ListenLimits
from tests.http.conftest import connections, serving, waiting
from tests.http.test_deliveries import ORDERS, order
from tests.http.test_requests import ask, serve
from tests.soak import seed, sized

CALLERS = 500


def waiters(face):
    """How many coroutines wait in lines."""
    return sum(len(line.places) for line in face.server._box.lines._lines.values())


async def until(holds):
    """Return when something holds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + 300
    while not holds():
        assert loop.time() < end
        await asyncio.sleep(0.02)


@pytest.mark.dear
def test_hundreds_wait_on_three_connections_and_those_that_leave_get_nothing(face, figures):
    async def main():
        limits = httpx.Limits(max_connections=CALLERS, max_keepalive_connections=0)
        headers = {"Authorization": f"Bearer {face.token}"}
        async with httpx.AsyncClient(
            base_url=face.server.address, headers=headers, limits=limits, timeout=120
        ) as client:
            calls = [asyncio.create_task(client.post(ORDERS, json={"wait": 60})) for _ in range(CALLERS)]
            await until(lambda: waiters(face) == CALLERS or any(call.done() for call in calls))
            assert [call.result().text for call in calls if call.done()] == []
            used = await asyncio.to_thread(connections, face.box)
            await asyncio.to_thread(face.box.publish, [order(1, f"c{n}") for n in range(20)])
            await until(lambda: sum(call.done() for call in calls) >= 20)
            answers = [call.result() for call in calls if call.done()]
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: waiters(face) == 0)
        return used, answers

    used, answers = asyncio.run(main())
    figures(f"{CALLERS} callers wait on {used} connections to PostgreSQL")
    assert used <= 3
    assert {answer.status_code for answer in answers} == {200}
    groups = [answer.json()["group"] for answer in answers]
    assert sorted(groups) == sorted({f"c{n}" for n in range(20)})
    face.box.publish([order(2, f"d{n}") for n in range(5)])
    leased = face.box.access.transaction
    with leased() as transaction:
        assert transaction.connection.execute(f"SELECT count(*) FROM {face.box.schema}.leases").fetchone()[0] == 20


def test_callers_that_wait_without_a_body_take_no_room_in_memory(face):
    """Twenty would fill it if each kept room for the largest body."""
    pending = ask(face, headers={}).headers["location"]

    async def main():
        headers = {"Authorization": f"Bearer {face.token}", "Prefer": "wait=60"}
        async with httpx.AsyncClient(base_url=face.server.address, headers=headers, timeout=120) as client:
            calls = [asyncio.create_task(client.get(pending)) for _ in range(20)]
            await until(lambda: len(face.server._box._replies._callers) == len(calls))
            published = await asyncio.to_thread(face.post, "/v1/messages", json={"type": "few"})
            await asyncio.to_thread(serve, face)
            return published, [await call for call in calls]

    published, replies = asyncio.run(main())
    assert published.status_code == 201, published.text
    assert [reply.status_code for reply in replies] == [200] * 20


def sent(face, body):
    """A connection with a request on it."""
    place = urlsplit(face.server.address)
    raw = socket.create_connection((place.hostname, place.port))
    content = json.dumps(body).encode()
    raw.sendall(
        b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % (ORDERS.encode(), face.token.encode(), len(content))
        + content
    )
    return raw


@pytest.mark.soak
def test_a_client_that_goes_away_at_any_moment_loses_nothing(face):
    # A lease that nobody ends counts as an attempt.
    face.box.define(sq.Queue("orders", policy=sq.Fifo(), group="customer_id", retry=sq.Retry(1000, delay=0)))
    chance, count = random.Random(seed()), sized(300, 60, 25)
    publisher = threading.Thread(
        target=lambda: [face.box.publish(order(n, "c1")) and time.sleep(chance.random() / 200) for n in range(count)]
    )
    publisher.start()
    for _ in range(count):
        raw = sent(face, {"wait": 1, "lease": "1s", "limit": 3})
        raw.settimeout(chance.random() / 20)
        with suppress(TimeoutError):
            raw.recv(1)
        raw.close()
    publisher.join()
    found = []
    while len(found) < count:
        answer = face.post(ORDERS, json={"wait": 60, "limit": 100})
        assert answer.status_code == 200
        delivery = answer.json()
        found += [one["id"] for one in delivery["messages"]]
        face.post(f"{ORDERS}/{delivery['delivery']}/complete", json={})
    assert found == [f"c1-{n}" for n in range(count)]


def test_a_caller_that_left_before_the_hand_out_is_committed_gets_no_lease(face):
    raw = sent(face, {"wait": 30})
    waiting(face.box, 1)
    raw.close()
    face.box.publish(order(1))
    assert [one.message_id for one in face.received()] == ["c1-1"]


@pytest.mark.dear
def test_a_slow_sender_is_told_and_keeps_nobody(filled):
    """Half a head, and a body that stops: each ends by itself, and nothing is published."""
    limits = ListenLimits(head_s=2, silent_s=2)
    with serving(filled, limits=limits) as face:
        place = urlsplit(face.server.address)
        head = (
            f"POST /v1/messages HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {face.token}\r\n"
            "Content-Type: application/json\r\n"
        )
        begun = [(head, b"HTTP/1.1 408 "), (head + 'Content-Length: 99\r\n\r\n{"type": "order"', b"HTTP/1.1 408 ")]
        for text, told in begun:
            with socket.create_connection((place.hostname, place.port), 30) as one:
                one.sendall(text.encode())
                assert face.get("/healthz").status_code == 200
                answer = b""
                while piece := one.recv(65_536):  # until it is closed
                    answer += piece
                assert answer.startswith(told), text
        assert face.received() == []
