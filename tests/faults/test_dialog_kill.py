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
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import invariants
from tests.faults import talkers
from tests.faults.crew import Crew, wait_for_an_end
from tests.soak import seed, sized

DIALOGS = sized(1000, 300)
TOTAL = DIALOGS * (talkers.MESSAGES + 1)
SENDERS, RECEIVERS, SERVER_KILLS = 2, 4, sized(3, 1)
#: In the mean so many senders and receivers are killed.
ROUNDS = sized(20, 15)
DEADLINE_S = 900.0


def heard_of(dsn):
    """How much was heard, and how many dialogs are closed; None while there is no server."""
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=60) as connection:
            return connection.execute(
                "SELECT (SELECT count(*) FROM heard), "
                "(SELECT count(*) FROM seriatim.endpoints WHERE state = 'CD' AND is_initiator)"
            ).fetchone()
    except psycopg.OperationalError:
        return None


class Killer:
    """SIGKILL to a sender and a receiver whenever some more was heard, and to PostgreSQL: three times, or once where little is said.

    Args:
        crews: the senders and the receivers.
        note: where the server's process id stands.
        total: how much will have been heard.
    """

    def __init__(self, crews, note, total):
        self._crews, self._note, self._total = crews, note, total
        self._chance, self._due, self._born = random.Random(seed()), 0.0, 0
        self.servers = 0

    def add(self, crew):
        self._born += 1
        crew.start(f"p{self._born}")

    def __call__(self, heard):
        if heard < self._due:
            return
        self._due += self._total / ROUNDS * self._chance.uniform(0.5, 1.5)  # however seldom it looks, there are as many
        for crew in self._crews:
            if crew.running:
                crew.kill(self._chance)
                self.add(crew)
        if self.servers < SERVER_KILLS and heard > self._total * (self.servers + 1) / 5:
            with suppress(FileNotFoundError, ProcessLookupError, IndexError):  # it is about to come back
                os.kill(int(self._note.read_text().splitlines()[0]), signal.SIGKILL)
                self.servers += 1


@pytest.mark.proves("dialogs end with every message once though senders, receivers and the server are killed")
@pytest.mark.soak
def test_killed_in_turn_they_lose_repeat_and_reorder_nothing(tmp_path, figures):
    folder = tmp_path / "server"
    server = EmbeddedServer(folder)
    senders = Crew(lambda name: talkers.words("sender", name, server.dsn), tmp_path / "senders")
    receivers = Crew(lambda name: talkers.words("receiver", name, server.dsn), tmp_path / "receivers")
    killer = Killer((senders, receivers), folder / "data" / "postmaster.pid", TOTAL)
    try:
        prepare(server.dsn)
        for crew in [senders] * SENDERS + [receivers] * RECEIVERS:
            killer.add(crew)
        begun = time.monotonic()
        while (told := heard_of(server.dsn)) is None or told < (TOTAL, DIALOGS):
            assert time.monotonic() - begun < DEADLINE_S, told
            wait_for_an_end(senders, receivers)
            for crew in (senders, receivers):
                crew.look()
            if told is not None:
                killer(told[0])
        receivers.kill_all()
        assert killer.servers == SERVER_KILLS
        assert receivers.killed >= 10
        assert senders.killed >= 1
        check(server.dsn)
        figures(
            f"{DIALOGS:,} dialogs, {TOTAL:,} messages, {senders.killed} senders, {receivers.killed} receivers and "
            f"{killer.servers} servers killed, {time.monotonic() - begun:.0f} s"
        )
    finally:
        senders.kill_all()
        receivers.kill_all()
        server.close()


def prepare(dsn):
    """Two services, the plan of the senders, and the log of the receivers."""
    with sq.MessageBox.open(dsn) as box:
        box.define(
            sq.Service("Orders", queue="orders"), sq.Service("Inventory", queue="inventory", contracts=["DEFAULT"])
        )
        with box.session() as tx:
            talkers.make(tx.connection, DIALOGS)


def check(dsn):
    """Every dialog was heard whole and in order, and is closed on both sides."""
    by_handle = defaultdict(list)
    with psycopg.connect(dsn) as connection:
        for handle, kind, body in connection.execute("SELECT handle, type, body FROM heard ORDER BY id"):
            by_handle[handle].append((kind, body))
    assert len(by_handle) == DIALOGS
    dialogs = set()
    for found in by_handle.values():
        dialog = found[0][1].split()[0]
        dialogs.add(dialog)
        assert found == [*(("DEFAULT", f"{dialog} {n}") for n in range(talkers.MESSAGES)), ("EndDialog", "")]
    assert len(dialogs) == DIALOGS
    with sq.MessageBox.open(dsn) as box:
        with box.session() as tx:
            states = tx.connection.execute("SELECT DISTINCT state FROM seriatim.endpoints").fetchall()
        assert states == [("CD",)]
        assert invariants.broken(box) == []
