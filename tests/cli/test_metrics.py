"""``--metrics`` of the commands: worker processes are told by their supervisor, also those that have died."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from tests.box.shop import define, publish
from tests.command import command, environment
from tests.databases import box_with

shop = box_with(define)


@pytest.fixture
def unused_port():
    """A port that is taken, and at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def got(address, path):
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(condition, told):
    deadline = time.monotonic() + 180
    while not (found := condition()):
        assert time.monotonic() < deadline, told()
        time.sleep(0.05)
    return found


def test_the_supervisor_tells_what_its_processes_measure(shop, tmp_path):
    publish(shop, 1, 2, 3)
    words = command(
        "work", "shop", "--handler", "tests.runtime.started:write", "--workers", "1", "--metrics", "127.0.0.1:0",
        "--log-format", "json", "--dsn", shop.dsn, "--schema", shop.schema,
    )  # fmt: skip
    with subprocess.Popen(words, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                if found := re.search(r"metrics are at (http://\S+)/metrics", line):
                    break
            address = found[1]
            value = re.compile(r'^seriatim_handled_total\{queue="shop"\} 3\.0$', re.MULTILINE)
            until(lambda: value.search(got(address, "/metrics")[1]), lambda: got(address, "/metrics")[1])
            until(lambda: got(address, "/readyz")[0] == 200, lambda: got(address, "/readyz")[1])
            text = got(address, "/metrics")[1]
            assert "seriatim_up 1.0" in text
            assert 'seriatim_turn_messages_count{queue="shop"}' in text
            result = CliRunner().invoke(main, ["health", address])
            assert (result.exit_code, result.output) == (0, "process: ready\n")
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=180)
    assert process.returncode == 0


@pytest.mark.parametrize("words", [["work", "shop", "--handler", "tests.runtime.started:step"], ["serve"]])
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(shop, words, address):
    result = CliRunner().invoke(main, [*words, "--metrics", address, "--dsn", shop.dsn, "--schema", shop.schema])
    assert result.exit_code == 2, result.output
    assert f"cannot listen at {address!r} (HOST:PORT, such as 127.0.0.1:9464)" in result.output


def test_health_of_a_box(shop):
    box = ["--dsn", shop.dsn, "--schema", shop.schema]
    found = CliRunner().invoke(main, ["health", *box, "--json"])
    assert found.exit_code == 0, found.output
    told = json.loads(found.output)
    assert (told["ok"], [one["name"] for one in told["findings"]]) == (True, ["box", "work"])
    publish(shop, 1)
    assert CliRunner().invoke(main, ["health", *box]).exit_code == 0
    late = CliRunner().invoke(main, ["health", *box, "--patience", "0s"])
    assert late.exit_code == 1
    assert re.search(r"work: queue 'shop': ready for \d+ s, and nobody is at work \(seriatim work shop", late.output)


def test_health_of_what_is_not_there(shop, unused_port):
    away = CliRunner().invoke(main, ["health", "--dsn", f"postgresql://127.0.0.1:{unused_port}/none"])
    assert away.exit_code == 1
    assert away.output.startswith("box: ")
    nobody = CliRunner().invoke(main, ["health", f"127.0.0.1:{unused_port}"])
    assert nobody.exit_code == 1
    assert "doesn't answer" in nobody.output
    wrong = CliRunner().invoke(main, ["health", "--patience", "soon", "--dsn", shop.dsn])
    assert wrong.exit_code == 2


@pytest.mark.parametrize("address", ["http://[", "host:port:x", "127.0.0.1:abc", "a b"])
def test_health_at_an_address_that_is_none_is_refused(address):
    refused = CliRunner().invoke(main, ["health", address])
    assert refused.exit_code == 2
    assert f"{address!r} is no address (HOST:PORT, such as 127.0.0.1:9464)" in refused.output


@pytest.mark.parametrize(
    "said",
    [b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{"],
    ids=["ssh", "cut"],
)
def test_health_of_another_service_is_a_finding(said):
    """One that speaks no HTTP, or ends in the middle of its answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with server.accept()[0] as connection:
                connection.sendall(said)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65_536):  # so that nothing is reset before it is read
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        found = CliRunner().invoke(main, ["health", f"127.0.0.1:{server.getsockname()[1]}"])
        thread.join()
    assert found.exit_code == 1
    assert "/readyz is no process of seriatim's (give the address of --metrics)" in found.output
