"""Callers over HTTP and in SQL, and workers in Python, while the server over HTTP and PostgreSQL are killed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.migrate import LEAST_POSTGRESQL
from seriatim.box.server.binaries import find_binaries
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import grants, invariants
from seriatim.operations.queues import not_done
from seriatim.operations.tokens import create_token
from tests.box.leases.test_psql import script
from tests.box.roles import dsn_of, make
from tests.command import command, environment
from tests.faults.crew import Crew
from tests.free_port import free_port
from tests.http.test_clients import CLIENTS, client
from tests.soak import seed, sized

EACH, GROUPS = sized(10_000, 120), sized(300, 8)
CALLERS, WORKERS, DEATHS = sized(1000, 40), 2, sized(9, 3)
DEADLINE_S = 1800.0


class Killed:
    """A box on a PostgreSQL of its own, and the server over HTTP: both are killed. The role `app` asks, `srv` serves."""

    def __init__(self, folder: Path) -> None:
        self.chance = random.Random(seed())
        self.postgres = EmbeddedServer(folder / "server")
        self.box = sq.MessageBox.open(self.postgres.dsn)
        self.kills = dict.fromkeys(("PostgreSQL", "the server over HTTP", "its connections"), 0)
        self._note = folder / "server" / "data" / "postmaster.pid"
        self._log = (folder / "serve.log").open("ab")
        self._port = free_port()
        self.address = f"http://127.0.0.1:{self._port}"
        self._served: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        """Start the server over HTTP, on three connections."""
        words = ["serve", "--http", f"127.0.0.1:{self._port}", "--no-readers", "--http-connections", "3"]
        self._served = subprocess.Popen(
            command(*words, "--dsn", dsn_of(self.box, "srv")), env=environment(), stdout=self._log, stderr=self._log, start_new_session=True
        )  # fmt: skip
        until = time.monotonic() + DEADLINE_S
        while self._served.poll() is None and time.monotonic() < until:
            with suppress(httpx.TransportError):
                if httpx.get(f"{self.address}/healthz").status_code == 200:
                    return
            time.sleep(0.05)
        pytest.fail("the server over HTTP doesn't answer")

    def end_server(self) -> None:
        """Kill the server over HTTP."""
        if self._served is not None:
            os.killpg(self._served.pid, signal.SIGKILL)
            self._served.wait()

    def kill(self) -> None:
        """Kill what was killed least."""
        least = min(self.kills.values())
        what = self.chance.choice([name for name, times in self.kills.items() if times == least])
        self.kills[what] += 1
        if what == "PostgreSQL":
            with suppress(OSError, ValueError, IndexError):  # it is about to come back
                os.kill(int(self._note.read_text().split()[0]), self.chance.choice((signal.SIGKILL, signal.SIGQUIT)))
        elif what == "its connections":
            with suppress(psycopg.OperationalError), psycopg.connect(self.box.dsn, autocommit=True) as connection:
                connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'srv'")
        else:
            self.end_server()
            self.serve()

    def in_sql(self, statement: str) -> list[Any]:
        """Rows, as the owner of the box."""
        with psycopg.connect(self.box.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def told(self) -> str:
        """How often what was killed."""
        return ", ".join(f"{name} {times} times" for name, times in self.kills.items())

    def close(self) -> None:
        """End all."""
        self.end_server()
        self._log.close()
        self.box.close()
        self.postgres.close()


@contextmanager
def crew(killed: Killed, folder: Path, *words: str) -> Iterator[Crew]:
    """Worker processes of one command."""
    workers = Crew(lambda _: command("work", *words, "--dsn", killed.box.dsn), folder / "workers")
    try:
        yield workers
    finally:
        workers.kill_all()


@pytest.fixture
def killed(tmp_path) -> Iterator[Killed]:
    """All that is killed."""
    for program in ("node", "jq", "curl"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} isn't installed")
    found = Killed(tmp_path)
    make(found.box, "app", "srv")
    yield found
    found.close()


def defined(box: sq.MessageBox) -> str:
    """A queue for each kind of client, and one for all results; return a token."""
    properties = {"customer_id": "string", "client": "string", "n": "long"}
    box.define(
        sq.MessageType("order", properties=properties),
        sq.MessageType("done", properties=properties),
        sq.Queue("done", policy=sq.Fifo(), group="customer_id"),
        sq.Subscription("done", "type = 'done'", "done"),
    )
    for name in ("js", "sh", "sql"):
        box.define(
            sq.Queue(f"orders-{name}", policy=sq.Fifo(), group="customer_id", retry=sq.Retry(1000, delay="0s")),
            sq.Subscription(f"orders-{name}", f"type = 'order' AND client = '{name}'", f"orders-{name}"),
        )
        for begin in range(0, EACH, 500):
            box.publish([order(name, n) for n in range(begin, min(begin + 500, EACH))])
    queues = ["orders-js", "orders-sh", "orders-sql"]
    grants.grant(box, "app", publish=["done"], receive=queues)
    return create_token(box, "app", role="app", publish=["done"], receive=queues, server="srv")


def order(name: str, n: int) -> sq.Message:
    """The nth message of a kind of client."""
    context = {"customer_id": f"{name}-{n % GROUPS}", "client": name, "n": n}
    return sq.Message(type="order", message_id=f"{name}-{n}", body=b"%d" % n, context=context)


def psql(killed: Killed, errors: Path) -> subprocess.Popen[bytes]:
    """The script of the how-to, which ends when its connection breaks: then it is started again. What it says goes to a file."""
    path = find_binaries(LEAST_POSTGRESQL).root / "bin" / "psql"
    words = [str(path), dsn_of(killed.box, "app"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c"]
    text = script("work.sql").replace("'orders'", "'orders-sql'")
    libraries = {**os.environ, "LD_LIBRARY_PATH": str(path.parents[1] / "lib")}
    with errors.open("wb") as told:
        return subprocess.Popen([*words, text], stdout=subprocess.DEVNULL, stderr=told, env=libraries)


def working(killed: Killed, folder: Path, token: str) -> dict[str, Callable[[], subprocess.Popen[bytes]]]:
    """How each kind of client is started; it ends when its queue is empty. What it says goes to the file `NAME.err`."""

    def over_http(language: str, program: str, file: Path) -> Callable[[], subprocess.Popen[bytes]]:
        def start() -> subprocess.Popen[bytes]:
            words = [program, file, killed.address, token, f"orders-{language}"]
            with (folder / f"{language}.err").open("wb") as told:  # a pipe that nobody reads would stop the client
                return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=told)

        return start

    found: dict[str, Callable[[], subprocess.Popen[bytes]]] = {"sql": lambda: psql(killed, folder / "sql.err")}
    for language, (name, program) in CLIENTS.items():
        (folder / name).write_text(client(language))
        found[language] = over_http(language, program, folder / name)
    return found


@pytest.mark.soak
@pytest.mark.proves("callers over HTTP and in SQL lose nothing and publish each result once, whatever is killed")
def test_each_kind_of_caller_works_off_a_queue_beside_workers_whatever_is_killed(killed, tmp_path, figures):
    token = defined(killed.box)
    killed.in_sql("CREATE TABLE handled (message_id text PRIMARY KEY); GRANT INSERT ON handled TO app")
    began = time.monotonic()
    psql(killed, tmp_path / "sql.err").wait()
    assert "nobody judges this box: start seriatim serve" in (tmp_path / "sql.err").read_text()
    figures(f"without a judge psql is told in {time.monotonic() - began:.2f} s, its start included")
    killed.serve()
    starts = working(killed, tmp_path, token)
    queues = [f"orders-{name}" for name in starts]
    beside = (*queues, "--handler", "tests.faults.http_handlers:done", "--rate", "40", "--run-length", "5")
    kills, until = sized(45, 3), time.monotonic() + DEADLINE_S
    with crew(killed, tmp_path, *beside) as workers:
        workers.start("beside")
        running = {name: start() for name, start in starts.items()}
        while running and time.monotonic() < until:
            workers.look()
            for name, process in list(running.items()):
                if process.poll() is None:
                    continue
                if name == "sql" and process.returncode != 0:  # its connection broke, or nobody judges for a moment
                    running[name] = starts[name]()
                else:
                    told = [(tmp_path / one).read_text()[-5000:] for one in (f"{name}.err", "serve.log")]
                    assert process.returncode == 0, "\n".join(told)
                    del running[name]
            time.sleep(0.3 + killed.chance.random())
            if running and sum(killed.kills.values()) < kills:
                killed.kill()
        for process in running.values():
            process.kill()
        assert not running
        while not_done(killed.box, *queues) and time.monotonic() < until:
            time.sleep(0.2)  # what a worker has in hand, or a lease that nobody has ended
    figures(f"{EACH:,} messages of {GROUPS} groups for each kind of caller; {killed.told()}")
    killed.box.tick()
    found: dict[str, list[int]] = {}
    for delivery in deliveries(killed.box):
        found.setdefault(delivery.group, []).extend(one.context["n"] for one in delivery)
    assert found == {
        f"{name}-{group}": list(range(group, EACH, GROUPS)) for name in starts for group in range(min(GROUPS, EACH))
    }
    assert killed.in_sql("SELECT count(*) FROM handled") == [(EACH,)]
    assert invariants.broken(killed.box) == []


def deliveries(box: sq.MessageBox) -> Iterator[sq.Delivery]:
    """All results, each run in a transaction."""
    while True:
        with box.session() as tx:
            if (delivery := tx.receive("done", limit=1000)) is None:
                return
            yield delivery


class Askers:
    """Callers that wait over HTTP, half of them with another token of the same role."""

    def __init__(self, killed: Killed) -> None:
        box = killed.box
        box.define(
            sq.Queue("asked", sq.Unordered(), retry=sq.Retry(attempts=1000, delay=0.1)),
            sq.Subscription("asked", where="type = 'question'", to="asked"),
        )
        grants.grant(box, "app", publish=["asked"])
        self._address = killed.address
        self._tokens = [create_token(box, name, role="app", publish=["asked"], server="srv") for name in ("a", "b")]
        self.replied = 0
        #: How often something was killed: three callers ask only after each time.
        self.deaths = 0
        self._died = [asyncio.Event() for _ in range(DEATHS)]

    @property
    def is_time(self) -> bool:
        """Whether a part of the callers has its replies, or all that have asked."""
        part, asking = CALLERS * self.deaths // (DEATHS + 1), CALLERS - 3 * (DEATHS - self.deaths)
        return self.deaths < DEATHS and self.replied >= min(part, asking)

    def headers(self, number: int) -> dict[str, str]:
        """The token of a caller, and for how long it waits."""
        return {"Authorization": f"Bearer {self._tokens[number % 2]}", "Prefer": "wait=20"}

    async def ask(self, http: httpx.AsyncClient, number: int) -> tuple[str, bytes]:
        """Ask until there is a reply: the same key is one request. Return where the reply is, and its bytes."""
        headers = {**self.headers(number), "Idempotency-Key": f"q{number}"}
        path = None
        if number < 3 * DEATHS:
            await self._died[number // 3].wait()
        while True:
            with suppress(httpx.TransportError):
                if path is None:
                    question = {"type": "question", "body": f"{number}"}
                    answer = await http.post("/v1/messages?reply=answer", headers=headers, json=question)
                else:
                    answer = await http.get(path, headers=headers)
                if answer.status_code == 200:
                    self.replied += 1
                    return answer.headers["Content-Location"], answer.content
                assert answer.status_code in (202, 503), answer.text
                path = answer.headers.get("Location", path)
            await asyncio.sleep(0.05)  # while there is no server

    async def again(self, http: httpx.AsyncClient, number: int, place: str) -> tuple[bytes, int]:
        """The reply once more; and what the other token gets."""
        mine = await http.get(place, headers=self.headers(number))
        other = await http.get(place, headers=self.headers(number + 1))
        return mine.content, other.status_code

    async def all(self, disturb: Callable[[], None]) -> None:
        """All callers at once; then each reads its reply again, and tries to read it as somebody else."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        async with (
            asyncio.timeout(DEADLINE_S),
            httpx.AsyncClient(base_url=self._address, timeout=180, limits=limits) as http,
        ):
            asked = [asyncio.ensure_future(self.ask(http, number)) for number in range(CALLERS)]
            while not all(one.done() for one in asked):
                await asyncio.to_thread(disturb)
                for died in self._died[: self.deaths]:
                    died.set()
                await asyncio.sleep(0.2)
            replies = [one.result() for one in asked]
            for number, (place, content) in enumerate(replies):
                assert base64.b64decode(json.loads(content)["data_base64"]) == b"to %d" % number
                assert await self.again(http, number, place) == (content, 404)


@pytest.mark.soak
@pytest.mark.proves("each caller over HTTP gets its own reply, and each request is handled once, whatever is killed")
def test_callers_that_wait_get_their_replies_whatever_is_killed(killed, tmp_path, figures):
    killed.in_sql("CREATE TABLE handled (message_id text)")
    askers = Askers(killed)
    killed.serve()
    # So slow that something is killed many times before all have their replies.
    slow = ("--rate", f"{CALLERS // 25 + 2}", "--run-length", "3")
    with crew(killed, tmp_path, "asked", "--handler", "tests.faults.request_handlers:answer", *slow) as workers:
        for number in range(WORKERS):
            workers.start(f"w{number}")

        def disturb() -> None:
            workers.look()
            if askers.is_time:
                workers.start(workers.kill(killed.chance))
                killed.kill()
                askers.deaths += 1

        asyncio.run(askers.all(disturb))
        killed_workers = workers.killed
    figures(f"{CALLERS:,} callers over HTTP; workers {killed_workers} times, {killed.told()}")
    assert killed.in_sql("SELECT count(*), count(DISTINCT message_id) FROM handled") == [(CALLERS, CALLERS)]
    assert all(killed.kills.values())
    assert invariants.broken(killed.box) == []
