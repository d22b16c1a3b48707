"""``seriatim serve --http`` and ``seriatim token``: as commands, with TLS, and alone."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import psycopg
import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from tests.certificates import Authority
from tests.command import command, environment
from tests.http.test_deliveries import ORDERS, order
from tests.soak import sized


def invoked(box, *words):
    return CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])


@contextmanager
def served(box, *words):
    """The address at which the command answers."""
    started = command("serve", "--http", "127.0.0.1:0", *words, "--dsn", box.dsn, "--schema", box.schema)
    with subprocess.Popen(
        started, stderr=subprocess.PIPE, text=True, env=environment() | {"PYTHONUNBUFFERED": "1"}
    ) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if "callers over HTTP find it at" in line:
                break
        else:
            pytest.fail("".join(said))
        try:
            yield line.split()[-1], process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=180)
        assert process.returncode == 0


def test_a_token_is_created_listed_and_revoked_by_the_command(filled):
    made = invoked(filled, "token", "create", "shop", "--role", "app", "--publish", "orders", "--expires", "90d")
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("sq_")
    assert "shop" in invoked(filled, "token", "list").stdout
    assert '"publish": [' in invoked(filled, "token", "list", "--json").stdout
    assert invoked(filled, "token", "create", "mighty", "--role", "seriatim", "--publish", "orders").exit_code == 2
    assert invoked(filled, "token", "revoke", "shop").exit_code == 0
    assert invoked(filled, "token", "revoke", "shop").exit_code == 2


def test_the_command_answers_alone_with_tls_and_a_prefix(filled, tmp_path):
    token = invoked(
        filled, "token", "create", "shop", "--role", "app", "--publish", "orders", "--receive", "orders"
    ).stdout.strip()
    authority = Authority(tmp_path)
    files = authority.issued("server")
    with served(
        filled,
        "--no-readers",
        "--http-prefix",
        "/seriatim",
        "--http-certificate",
        files.certificate,
        "--http-key",
        files.key,
    ) as (address, _):
        assert address.startswith("https://")
        assert address.endswith("/seriatim")
        trust = ssl.create_default_context(cafile=authority.certificate)
        with httpx.Client(
            base_url=address, verify=trust, headers={"Authorization": f"Bearer {token}"}, timeout=180
        ) as client:
            filled.publish(order(1))
            assert client.post(ORDERS, json={"wait": 5}).json()["messages"][0]["id"] == "c1-1"
            answer = client.post("/v1/messages", json={"type": "order", "message_id": "m"})
            assert answer.status_code in (201, 202)
            assert client.get(str(client.base_url.copy_with(path="/v1/messages/m"))).status_code == 404


@pytest.mark.parametrize(
    "words", [["--no-readers"], ["--http-key", "x"], ["--http", ":0", "--no-readers", "--queue", "orders"], ["--http", "nowhere"], ["--http", ":0", "--http-key", "x"], ["--http", ":0", "--http-prefix", "x"]]
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(filled, words):
    assert invoked(filled, "serve", *words).exit_code == 2


def held_mib(pid):
    """The most memory that a process has held so far."""
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) // 1024


def test_large_bodies_that_arent_handed_out_take_no_room_in_memory(filled):
    """Sixteen bodies of 16 MiB in one group: none is read by the calls on a lease, and only pieces by the request for it."""
    token = invoked(filled, "token", "create", "shop", "--role", "app", "--receive", "orders", "--publish", "few")
    with psycopg.connect(filled.dsn) as connection:
        connection.execute(
            f"""SELECT {filled.schema}.publish('order', convert_to(repeat('x', 16777216), 'UTF8'), '{{"customer_id": "c1"}}')
            FROM generate_series(1, 16)"""
        )
    filled.tick()
    headers = {"Authorization": f"Bearer {token.stdout.strip()}"}
    with (
        served(filled, "--no-readers") as (address, pid),
        httpx.Client(base_url=address, headers=headers, timeout=600) as client,
    ):
        assert client.get("/v1/messages/unknown").status_code == 404
        before = held_mib(pid)
        for _ in range(2):
            delivery = client.post(ORDERS, json={"lease": "600s"}).json()
            (one,) = delivery["messages"]
            assert len(client.get(one["dataref"]).content) == 2**24
            calls = f"{ORDERS}/{delivery['delivery']}"
            assert client.post(f"{calls}/complete", json={"publish": [{"type": "few"}]}).status_code == 200
        delivery = client.post(ORDERS, json={"lease": "600s"}).json()
        assert client.post(f"{ORDERS}/{delivery['delivery']}/fail", json={"at": 1}).status_code == 200
        assert held_mib(pid) - before < 100


@pytest.mark.soak
def test_what_all_callers_get_takes_limited_room_in_memory(filled, figures):
    callers, each = sized(500, 60, 25), sized(50, 9, 8)
    token = invoked(filled, "token", "create", "shop", "--role", "app", "--receive", "orders").stdout.strip()
    with psycopg.connect(filled.dsn) as connection:  # bodies of 1 MiB, which needn't come from here
        connection.execute(
            f"""SELECT {filled.schema}.publish(
                'order', convert_to(repeat('x', 1048576), 'UTF8'), jsonb_build_object('customer_id', 'c' || n)
            ) FROM generate_series(1, {callers}) AS n, generate_series(1, {each})"""
        )
    filled.tick()
    with served(filled, "--no-readers") as (address, pid):
        before, done = held_mib(pid), []

        def take():
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=600) as client:
                while True:
                    answer = client.post(ORDERS, json={"wait": 30, "lease": "600s"})
                    if answer.status_code != 503:
                        break
                done.append(len(answer.json()["messages"]))

        with ThreadPoolExecutor(callers) as pool:
            for one in [pool.submit(take) for _ in range(callers)]:
                one.result()
        grown = held_mib(pid) - before
    figures(f"{callers} callers get {sum(done)} MiB of bodies together; the server grows by {grown} MiB at most")
    assert set(done) == {8}  # a run ends before it is larger
    assert grown < 300
