"""Workers and PostgreSQL are killed while many callers wait: each gets its own reply, and each request is handled once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from tests.command import command
from tests.faults.crew import Crew
from tests.soak import seed, sized

CALLERS, KILLS, WORKERS, DEADLINE_S = sized(1000, 60), 5, 3, 900.0


class Disturbance:
    """Kills a worker whenever a part of the callers has its reply, and the server in the middle."""

    def __init__(self, workers: Crew, folder: Path) -> None:
        self._workers = workers
        self._note = folder / "data" / "postmaster.pid"
        self._chance = random.Random(seed())
        self._replies = 0
        self.servers = 0

    def begin(self) -> None:
        """Start the workers."""
        for number in range(WORKERS):
            self._workers.start(f"w{number}")

    def replied(self) -> None:
        """A caller has its reply."""
        self._replies += 1
        if self._replies % (CALLERS // KILLS) == 0:
            self._workers.start(self._workers.kill(self._chance))
        if self._replies == CALLERS // 2:
            os.kill(int(self._note.read_text().split()[0]), signal.SIGKILL)
            self.servers += 1


async def ask(box: sq.AsyncMessageBox, number: int, disturbance: Disturbance) -> sq.Reply:
    """Ask until there is a reply: the same message is one request, whatever was killed when."""
    message = sq.Message(type="question", body=b"%d" % number, message_id=f"q{number}")
    while True:
        with suppress(sq.Unavailable):
            answer = await box.request(message, reply="answer", wait=30)
            if isinstance(answer, sq.Reply):
                disturbance.replied()
                return answer
        await asyncio.sleep(0.05)  # while there is no server


async def ask_all(box: sq.MessageBox, disturbance: Disturbance) -> list[sq.Reply]:
    """All callers at once, on the few connections of the box."""
    async with asyncio.timeout(DEADLINE_S), sq.AsyncMessageBox(box) as many:
        return await asyncio.gather(*(ask(many, number, disturbance) for number in range(CALLERS)))


@pytest.mark.proves("each caller gets its own reply, and each request is handled once, whatever is killed")
@pytest.mark.soak
def test_callers_get_their_replies_while_workers_and_the_server_are_killed(tmp_path, figures):
    folder = tmp_path / "server"
    server = EmbeddedServer(folder)
    workers = Crew(lambda _: command("work", "asked", "--handler", "tests.faults.request_handlers:answer", "--dsn", server.dsn),
                   tmp_path / "workers")  # fmt: skip
    try:
        with sq.MessageBox.open(server.dsn, connections=5) as box:
            box.define(
                sq.Queue("asked", sq.Unordered(), retry=sq.Retry(attempts=1000, delay=0.1)),
                sq.Subscription("asked", where="type = 'question'", to="asked"),
            )
            with psycopg.connect(server.dsn) as connection:
                connection.execute("CREATE TABLE handled (message_id text)")
            disturbance = Disturbance(workers, folder)
            disturbance.begin()
            replies = asyncio.run(ask_all(box, disturbance))
            assert [one.body for one in replies] == [b"to %d" % number for number in range(CALLERS)]
            assert [box.reply(one.id) for one in replies] == replies
            with psycopg.connect(server.dsn) as connection:
                handled = connection.execute("SELECT count(*), count(DISTINCT message_id) FROM handled").fetchone()
            assert handled == (CALLERS, CALLERS)
            assert disturbance.servers == 1
            assert workers.killed >= KILLS - 1
            figures(f"{CALLERS:,} callers, {workers.killed} workers and the server killed")
    finally:
        workers.kill_all()
        server.close()
