"""Strangers without a password or a token can't keep others from the console, nor from its health."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from seriatim.console import who
from seriatim.console.app import create_app
from seriatim.console.serving import Server
from seriatim.console.who import by_password, line_of, read_users
from seriatim.listening.address import listening
from seriatim.listening.limits import OF_ADDRESS, ListenLimits
from tests.console.browser import served
from tests.console.conftest import SAME, Client, fill
from tests.console.test_guard import form_of
from tests.databases import box_with

pytestmark = pytest.mark.dear

filled = box_with(fill, scope="module")
LIMITS = ListenLimits(connections=8, of_address=6, head_s=60, idle_s=60, silent_s=60)


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users"
    file.write_text(line_of("ann", ["mend"], "correct horse"))
    file.chmod(0o600)
    return file


@contextmanager
def serving(box, users, limits=LIMITS):
    """A console with a user, and its host and port."""
    app = create_app(box, identify=by_password(read_users(users)))
    server = Server(app, listening("127.0.0.1", 0, "--listen"), limits=limits)
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    try:
        yield server.address, ("127.0.0.1", int(server.address.rpartition(":")[2]))
    finally:
        server.handle_exit(15, None)
        thread.join(120)
    assert not thread.is_alive()


def test_wrong_passwords_are_tried_in_threads_of_their_own(filled, users, monkeypatch):
    """More than may wait: the others are told at once to come again. Whom it knows, and health, wait for none of them."""
    goes_on, trying, hashed = threading.Event(), threading.Semaphore(0), who._hashed

    def hanging(password, salt):
        if password.startswith("wrong"):
            trying.release()
            goes_on.wait(300)
        return hashed(password, salt)

    monkeypatch.setattr(who, "_hashed", hanging)
    with (
        serving(filled, users, ListenLimits()) as (address, _),
        ThreadPoolExecutor(40) as strangers,
        ExitStack() as last,
    ):
        last.callback(goes_on.set)
        assert httpx.get(f"{address}/", auth=("ann", "correct horse")).status_code == 200
        asking = [
            strangers.submit(httpx.get, f"{address}/", auth=("ann", f"wrong {n}"), timeout=300) for n in range(40)
        ]
        for _ in range(who._TRIED):
            assert trying.acquire(timeout=120)
        refused = 0
        while refused < 40 - who._TRIED - who._TRIES:
            refused = sum(one.done() for one in asking)
        assert {one.result().status_code for one in asking if one.done()} == {503}
        assert {one.result().headers["retry-after"] for one in asking if one.done()} == {"1"}
        for path in ("/healthz", "/readyz"):
            assert httpx.get(f"{address}{path}").status_code == 200
        assert httpx.get(f"{address}/groups", auth=("ann", "correct horse")).status_code == 200
        goes_on.set()
        assert sorted({one.result().status_code for one in asking}) == [401, 503]


def test_open_pages_of_one_address_shut_out_nobody(filled):
    """A proxy has the pages of all."""
    with served(filled) as address, ExitStack() as held:
        for _ in range(2 * OF_ADDRESS):
            page = held.enter_context(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 120))
            page.sendall(b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert page.recv(12) == b"HTTP/1.1 200"
        assert httpx.get(f"{address}/groups", timeout=120).status_code == 200


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"G",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 1000\r\n\r\naction=",
        b"GET /static/console.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 50,
    ],
    ids=["nothing", "a byte", "half a head", "half a form", "nothing is read"],
)
def test_connections_that_never_finish_make_room_for_others(filled, users, begun):
    """No deadline is over: the connection that came first goes for each that comes."""
    with serving(filled, users) as (address, place), ExitStack() as held:
        for _ in range(5 * LIMITS.connections):
            one = held.enter_context(socket.create_connection(place, 120))
            one.sendall(begun)
        assert httpx.get(f"{address}/healthz", timeout=120).status_code == 200
        until = time.monotonic() + 120
        while (answer := httpx.get(f"{address}/groups", auth=("ann", "correct horse"), timeout=120)).status_code == 503:
            assert time.monotonic() < until  # on a busy machine the strangers' requests take all turns for a while
        assert answer.status_code == 200


def test_each_part_of_a_request_has_its_time(filled, users):
    limits = ListenLimits(head_s=2, idle_s=2, silent_s=2)
    with serving(filled, users, limits) as (_, place), ExitStack() as held:
        answers = []
        for begun, told in (
            (b"", b""),
            (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", b"HTTP/1.1 408 "),
            (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"HTTP/1.1 200 "),
            (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nG", b"HTTP/1.1 200 "),
            (b"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nx", b"HTTP/1.1 403 "),
        ):
            one = held.enter_context(socket.create_connection(place, 120))
            one.sendall(begun)
            answers.append((one, begun, told))
        for one, begun, told in answers:
            answer = b""
            while piece := one.recv(65_536):  # until it is closed
                answer += piece
            assert answer.startswith(told), begun


def test_a_head_that_is_too_large_is_refused(filled, users):
    with (
        serving(filled, users, ListenLimits(largest_head=4096)) as (_, place),
        socket.create_connection(place, 120) as one,
    ):
        one.sendall(b"GET / HTTP/1.1\r\nX: " + b"a" * 10_000)
        assert one.recv(100).startswith(b"HTTP/1.1 431 ")


def test_a_form_that_stops_is_refused(filled, monkeypatch):
    """Also in an application whose server has no deadline for it."""
    import asyncio

    from seriatim.console.who import everybody

    monkeypatch.setattr("seriatim.console.app.SILENT_S", 0.1)
    app, told = create_app(filled, identify=everybody()), []
    asked = iter([{"type": "http.request", "body": b"action=", "more_body": True}])

    async def receive():
        found = next(asked, None)
        return found if found is not None else await asyncio.Event().wait()

    async def send(event):
        told.append(event)

    headers = {"host": "127.0.0.1", "content-type": "application/x-www-form-urlencoded", "content-length": "100"} | SAME
    scope = {
        "type": "http", "method": "POST", "path": "/act", "raw_path": b"/act", "query_string": b"", "scheme": "http", "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1), "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))
    assert told[0]["status"] == 408


def test_half_requests_do_not_use_up_the_files_of_the_process(filled):
    """A process that may have 256 files open, and 300 connections that send half a request."""
    words = [
        sys.executable,
        "-m",
        "seriatim",
        "console",
        "--listen",
        "127.0.0.1:0",
        "--dsn",
        filled.dsn,
        "--schema",
        filled.schema,
    ]
    words = ["sh", "-c", 'ulimit -n 256; exec "$@"', "sh", *words]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process, ExitStack() as held:
        try:
            address = process.stderr.readline().split()[4].partition("/?token=")[0]
            for _ in range(300):
                one = held.enter_context(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 30))
                one.sendall(b"GET / HTTP/1.1\r\n")
            assert httpx.get(f"{address}/readyz", timeout=120).status_code == 200
        finally:
            process.terminate()


def test_where_json_is_asked_for_json_is_answered_whatever_refuses(filled):
    client = Client(filled)
    form = form_of(client)
    for headers in ({"sec-fetch-site": "cross-site"}, {"host": "evil.example"} | SAME):
        answer = client.post("/act.json", form, headers=headers)
        assert answer.status_code in (403, 421)
        assert answer.headers["content-type"] == "application/json"
        assert set(json.loads(answer.text)) == {"error", "remedy"}
    for path in ("/groups.json", "/%ff.json", "/groups.json?limit=1&limit=2"):
        answer = client.request("PUT" if path == "/groups.json" else "GET", path)
        assert answer.headers["content-type"] == "application/json", path
    strange = Client(filled, identify=by_password({}))
    answer = strange.get("/groups", headers={"accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (401, "log in with your name and password")
