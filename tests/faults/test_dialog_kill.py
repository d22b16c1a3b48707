"""Senders, receivers and PostgreSQL are killed in turn: every message of a dialog comes once and in order, every dialog ends."""

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
from seriatim.box.embedded import EmbeddedServer
from tests.faults import talkers
from tests.faults.crew import Crew, wait_for_an_end

DIALOGS = int(os.environ.get("SERIATIM_TEST_DIALOGS", "5000"))
SENDERS, RECEIVERS = 2, 4
DEADLINE_S = 900.0


def heard_of(dsn):
    """How much was heard, and how many dialogs are closed; None while there is no server."""
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
            return connection.execute(
                "SELECT (SELECT count(*) FROM heard), "
                "(SELECT count(*) FROM seriatim.endpoints WHERE state = 'CD' AND is_initiator)"
            ).fetchone()
    except psycopg.OperationalError:
        return None


@pytest.mark.faults
def test_killed_in_turn_they_lose_repeat_and_reorder_nothing(tmp_path):
    folder, chance = tmp_path / "server", random.Random(7)
    note = folder / "data" / "postmaster.pid"
    server = EmbeddedServer(folder)
    crews = [
        Crew(lambda name: talkers.words("sender", name, server.dsn), tmp_path / "senders"),
        Crew(lambda name: talkers.words("receiver", name, server.dsn), tmp_path / "receivers"),
    ]
    senders, receivers = crews
    servers_killed, born = 0, 0
    try:
        with sq.MessageBox.open(server.dsn) as box:
            box.define(
                sq.Service("Orders", queue="orders"),
                sq.Service("Inventory", queue="inventory", contracts=["DEFAULT"]),
            )
            with box.session() as tx:
                talkers.make(tx.connection, DIALOGS)
        total, step, due = DIALOGS * (talkers.MESSAGES + 1), DIALOGS * (talkers.MESSAGES + 1) / 20, 0.0
        for crew, many in ((senders, SENDERS), (receivers, RECEIVERS)):
            for _ in range(many):
                born += 1
                crew.start(f"p{born}")
        begun = time.monotonic()
        while (told := heard_of(server.dsn)) is None or told[0] < total or told[1] < DIALOGS:
            assert time.monotonic() - begun < DEADLINE_S, told
            wait_for_an_end(*crews)
            for crew in crews:
                crew.look()
            if told is None or told[0] < due:
                continue
            due = told[0] + step * chance.uniform(0.5, 1.5)
            for crew in crews:
                if crew.running:
                    crew.kill(chance)
                    born += 1
                    crew.start(f"p{born}")
            if servers_killed < 3 and told[0] > total * (servers_killed + 1) / 5:
                with suppress(FileNotFoundError, ProcessLookupError):
                    os.kill(int(note.read_text().splitlines()[0]), signal.SIGKILL)
                    servers_killed += 1
        for crew in crews:
            crew.kill_all()
        assert servers_killed == 3
        assert receivers.killed >= 10
        assert senders.killed >= 1
        by_handle = defaultdict(list)
        with psycopg.connect(server.dsn) as connection:
            for handle, kind, body in connection.execute("SELECT handle, type, body FROM heard ORDER BY id"):
                by_handle[handle].append((kind, body))
        assert len(by_handle) == DIALOGS
        seen = set()
        for found in by_handle.values():
            dialog = found[0][1].split()[0]
            seen.add(dialog)
            assert found == [*(("DEFAULT", f"{dialog} {n}") for n in range(talkers.MESSAGES)), ("EndDialog", "")]
        assert len(seen) == DIALOGS
        with sq.MessageBox.open(server.dsn) as box:
            with box.session() as tx:
                states = tx.connection.execute("SELECT DISTINCT state FROM seriatim.endpoints").fetchall()
            assert states == [("CD",)]
            assert box.broken() == []
    finally:
        for crew in crews:
            crew.kill_all()
        server.close()
