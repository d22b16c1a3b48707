"""Transmitters and PostgreSQL are killed in turn, with an asynchronous commit in its configuration: each message comes once and in order.

Both boxes are on the server that is killed, so each loses its unflushed tail at the same moment as the other.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import defaultdict
from contextlib import suppress

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import invariants, links
from seriatim.operations.operator_log import operator_log
from tests.faults import transmitters
from tests.faults.crew import Crew
from tests.soak import seed, sized

MESSAGES, GROUPS = sized(20_000, 1_500), sized(500, 40)
SERVER_KILLS = sized(12, 3)
TRANSMITTERS = 2
DEADLINE_S = 600.0
ORDER = sq.MessageType("order", properties={"customer": "string"})


@pytest.mark.soak
def test_killed_in_turn_they_lose_repeat_and_reorder_nothing(tmp_path, figures):
    chance, begun = random.Random(seed()), time.monotonic()
    server = EmbeddedServer(tmp_path / "server")
    crew = Crew(lambda name: transmitters.words(name, near), tmp_path / "transmitters")
    kills = 0
    try:
        near, far = _prepare(server.dsn)
        for nth in range(TRANSMITTERS):
            crew.start(f"t{nth}")
        sent = {
            side: [_message(side, nth, queue) for nth in range(MESSAGES // 2)]
            for side, queue in ((near, "orders"), (far, "answers"))
        }
        steps = SERVER_KILLS * 6
        for step in range(steps):
            for dsn, messages in sent.items():
                _publish(dsn, messages[step * len(messages) // steps : (step + 1) * len(messages) // steps])
            crew.kill(chance)
            crew.start(f"s{step}")
            if step % 6 == 5:
                with suppress(FileNotFoundError, ProcessLookupError):
                    note = tmp_path / "server" / "data" / "postmaster.pid"
                    os.kill(int(note.read_text().splitlines()[0]), chance.choice((signal.SIGKILL, signal.SIGQUIT)))
                    kills += 1
            crew.look()
        # What a crash has taken before it was on disk was never sent: its publisher publishes it again.
        for dsn, messages in sent.items():
            _publish(dsn, messages)
        while not _is_carried(near, far):
            assert time.monotonic() - begun < DEADLINE_S
            crew.look()
            for name in set(map(str, range(TRANSMITTERS))) - crew.running.keys() if not crew.running else ():
                crew.start(name)
        crew.kill_all()
        _check(far, "orders", sent[near])
        _check(near, "answers", sent[far])
        assert kills == SERVER_KILLS
        figures(
            f"{MESSAGES:,} messages over {GROUPS} groups, {crew.killed} transmitters and {kills} servers killed, "
            f"{time.monotonic() - begun:.0f} s"
        )
    finally:
        crew.kill_all()
        server.close()


def _prepare(dsn):
    """Two boxes on one server, which commits asynchronously, and a link between them. Returns their DSNs."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_commit = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute("CREATE ROLE road LOGIN")
        connection.execute("CREATE DATABASE far")
    far = psycopg.conninfo.make_conninfo(dsn, dbname="far")
    with sq.MessageBox.open(dsn) as here, sq.MessageBox.open(far) as there:
        there.define(ORDER, sq.Queue("orders", group="customer"))
        links.accept(there, "near", role="road", other=str(here.id), queues=["orders"], actor="test", reason="a test")
        road = psycopg.conninfo.make_conninfo(far, user="road")
        here.define(
            ORDER,
            sq.Link("far", dsn=road, queues=["answers"]),
            sq.Queue("orders", at="far", group="customer"),
            sq.Queue("answers", group="customer"),
        )
        there.define(sq.Queue("answers", at="near", group="customer"))
    return dsn, far


def _message(side, nth, queue):
    return sq.Message(
        type="order",
        message_id=f"{queue}-{nth}",
        body=b"x" * 200,
        context={"to": queue, "customer": f"c{nth % GROUPS}"},
    )


def _publish(dsn, messages):
    """Publish; again, until it is done."""
    while True:
        with suppress(sq.Unavailable, sq.EnvironmentProblem), sq.MessageBox.open(dsn) as box:
            box.publish(messages)
            return


def _is_carried(near, far):
    with (
        suppress(sq.Unavailable, sq.EnvironmentProblem),
        sq.MessageBox.open(near) as here,
        sq.MessageBox.open(far) as there,
    ):
        found = [*links.status(here), *links.status(there)]
        return not any(one.waiting or one.unacknowledged for one in found)
    return False


def _check(dsn, queue, sent):
    """Each message is there once, those of a group in the order in which they were committed at home."""
    with sq.MessageBox.open(dsn) as box:
        box.tick()
        handled = defaultdict(list)
        while True:
            with box.session() as tx:
                if (delivery := tx.receive(queue, limit=1000)) is None:
                    break
                for message in delivery:
                    assert not message.replayed
                    handled[message.group].append((message.sent_by.number, message.message_id))
        every = [one for group in handled.values() for _, one in group]
        assert len(every) == len(set(every))
        assert set(every) == {one.message_id for one in sent}
        for group in handled.values():
            assert group == sorted(group)
        assert [one for one in operator_log(box) if one.action == "stream restored"] == []
        assert invariants.broken(box) == []
