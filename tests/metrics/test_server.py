"""The address of metrics and health: what it answers, to whom, and that no client can hold it up."""

from __future__ import annotations

import json
import select
import socket
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack, closing

import pytest

import seriatim as sq
from seriatim.listening.limits import CONNECTIONS
from seriatim.metrics.collector import Collector
from seriatim.metrics.health import Readiness
from seriatim.metrics.server import MetricsServer
from seriatim.metrics.watched import Watched


@pytest.fixture
def server():
    state = {"ready": Readiness(True)}
    made = MetricsServer("127.0.0.1:0", Collector(watched=Watched()), lambda: state["ready"])
    made.state = state
    with closing(made):
        yield made


def place_of(server):
    """Its host and port."""
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    return host, int(port)


def got(server, path, **headers):
    request = urllib.request.Request(f"{server.address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["content-type"], error.read().decode()


def test_metrics_in_both_formats(server):
    status, kind, text = got(server, "/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert "# TYPE seriatim_processes_replaced_total counter" in text
    status, kind, text = got(server, "/metrics?x=1", accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    assert text.endswith("# EOF\n")


def test_health(server):
    assert got(server, "/healthz")[0] == 200
    assert json.loads(got(server, "/readyz")[2]) == {"status": "ready", "reasons": []}
    server.state["ready"] = Readiness(False, ["the box: it is away"])
    status, _, text = got(server, "/readyz")
    assert status == 503
    assert json.loads(text)["reasons"] == ["the box: it is away"]


def test_what_is_not_there_is_said(server):
    status, kind, text = got(server, "/<script>")
    assert (status, kind.split(";")[0]) == (404, "text/plain")
    assert text == "there are /metrics, /healthz and /readyz\n"


@pytest.mark.parametrize(
    "sent", [b"\x00\xff\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"GET " + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"]
)
def test_nonsense_is_refused_and_the_next_is_answered(server, sent):
    with socket.create_connection(place_of(server), timeout=120) as client:
        client.sendall(sent)
        assert b"200" not in client.recv(200)
    assert got(server, "/healthz")[0] == 200


def test_clients_that_never_finish_do_not_keep_health_from_anybody(server):
    """Each holds a connection, and sends a byte now and then: one of them goes for each that comes."""
    with ExitStack() as held:
        for _ in range(3 * CONNECTIONS):
            client = held.enter_context(socket.create_connection(place_of(server), timeout=120))
            client.sendall(b"G")
        assert got(server, "/healthz")[0] == 200
        assert got(server, "/readyz")[0] == 200


def test_a_scrape_that_hangs_does_not_keep_health_from_anybody():
    """Health has room of its own, also where all that is asked is being answered."""
    collecting, goes_on = threading.Semaphore(0), threading.Event()

    class Hanging:
        def collect(self):
            collecting.release()
            goes_on.wait(300)
            return []

    with closing(MetricsServer("127.0.0.1:0", Hanging(), lambda: Readiness(True))) as server, ExitStack() as held:
        try:
            asking = [held.enter_context(socket.create_connection(place_of(server), timeout=120)) for _ in range(12)]
            for one in asking:
                one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            assert collecting.acquire(timeout=120)
            assert got(server, "/healthz")[0] == 200
            assert got(server, "/readyz")[0] == 200
            # Two are collected at once and six wait; the others are told at once to come again.
            turned_away = 0
            while turned_away < 4:
                told = select.select(asking, [], [], 30)[0]
                for one in told:
                    answer = one.recv(4096)
                    assert answer.startswith(b"HTTP/1.1 503")
                    assert b"retry-after: 1" in answer
                    asking.remove(one)
                turned_away += len(told)
        finally:
            goes_on.set()


def test_head_has_no_content(server):
    request = urllib.request.Request(f"{server.address}/healthz", method="HEAD")
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert (answer.status, answer.read()) == (200, b"")


def test_an_address_in_use_is_said(server):
    _, port = place_of(server)
    with pytest.raises(sq.EnvironmentProblem, match=f"cannot listen at 127.0.0.1:{port}: Address already in use"):
        MetricsServer(f"127.0.0.1:{port}", Collector(), lambda: Readiness(True))
    with pytest.raises(sq.EnvironmentProblem, match="cannot listen at"):
        MetricsServer("no such host.invalid:0", Collector(), lambda: Readiness(True))
