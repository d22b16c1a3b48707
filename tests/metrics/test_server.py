"""The address of metrics and health: what it answers, to whom, and that no client can hold it up."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

import seriatim as sq
from seriatim.metrics.collector import Collector
from seriatim.metrics.health import Readiness
from seriatim.metrics.server import MetricsServer, address_of
from seriatim.metrics.watched import Watched


@pytest.fixture
def server():
    state = {"ready": Readiness(True)}
    made = MetricsServer("127.0.0.1", 0, Collector(watched=Watched()), lambda: state["ready"])
    made.state = state
    with closing(made):
        yield made


def got(server, path, **headers):
    request = urllib.request.Request(f"{server.address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
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
    assert text == "404 there are /metrics, /healthz and /readyz\n"


@pytest.mark.parametrize(
    "sent", [b"\x00\xff\r\n\r\n", b"POST /metrics HTTP/1.1\r\n\r\n", b"GET " + b"x" * 100_000 + b" HTTP/1.1\r\n\r\n"]
)
def test_nonsense_is_refused_and_the_next_is_answered(server, sent):
    with socket.create_connection(server.server_address[:2], timeout=30) as client:
        client.sendall(sent)
        assert b"200" not in client.recv(200)
    assert got(server, "/healthz")[0] == 200


@pytest.mark.dear
def test_clients_that_say_nothing_hold_up_nobody_for_long(server, monkeypatch):
    monkeypatch.setattr("seriatim.metrics.server._Handler.timeout", 0.2)
    held = [socket.create_connection(server.server_address[:2], timeout=30) for _ in range(40)]
    # Those above the most are turned away at once, and the rest after some seconds.
    for one in held:
        assert one.recv(10) == b""
        one.close()
    assert got(server, "/healthz")[0] == 200


def test_head_has_no_content(server):
    request = urllib.request.Request(f"{server.address}/healthz", method="HEAD")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert (answer.status, answer.read()) == (200, b"")


def test_an_address_in_use_is_said(server):
    host, port = server.server_address[:2]
    with pytest.raises(
        sq.EnvironmentProblem, match=f"metrics can't be told at 127.0.0.1:{port}: Address already in use"
    ):
        MetricsServer(host, port, Collector(), lambda: Readiness(True))
    with pytest.raises(sq.EnvironmentProblem, match="can't be told at"):
        MetricsServer("no such host.invalid", 0, Collector(), lambda: Readiness(True))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        (":9464", ("", 9464)),
        ("[::1]:0", ("::1", 0)),
        ("box.local:80", ("box.local", 80)),
    ],
)
def test_addresses(text, found):
    assert address_of(text) == found


@pytest.mark.parametrize("text", ["9464", "", "host:", "host:99999", "::1:9464", "host:-1", "host:x", "host:\u0663"])
def test_what_is_no_address(text):
    with pytest.raises(sq.UsageError, match="is no address for metrics"):
        address_of(text)
