"""Connections after PostgreSQL was away: whoever waits for one gets it soon after it is back, however long that was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from logging.handlers import QueueHandler
from pathlib import Path
from queue import Queue

import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from tests.box.pauses import short_pauses  # noqa: F401 -- a fixture

PATIENCE_S = 120
#: More than are made in the time for which a session waits, if each comes twice as late as the one before.
TRIED = 10
pytestmark = pytest.mark.usefixtures("short_pauses")


@contextmanager
def away(box) -> Iterator[None]:
    """Within the block nobody can connect."""
    socket = Path(conninfo_to_dict(box.dsn)["host"]) / ".s.PGSQL.5432"
    hidden = socket.rename(socket.with_name("hidden"))
    try:
        yield
    finally:
        hidden.rename(socket)


@contextmanager
def records(name):
    """What is logged there, as it comes."""
    told = Queue()
    handler, logger = QueueHandler(told), logging.getLogger(name)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield told
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


@pytest.fixture
def failed_tries():
    """What is told of connections that couldn't be made, as it comes."""
    with records("seriatim.box") as told:
        yield told


def test_a_session_that_waits_for_a_connection_tries_again_without_ever_longer_pauses(box, failed_tries):
    def first_ticket():
        with box.session() as tx:
            return tx.dispense("crm").first

    with ThreadPoolExecutor(1) as thread:
        with away(box):
            waiting = thread.submit(first_ticket)
            for _ in range(TRIED):
                failed_tries.get(timeout=PATIENCE_S)
                assert not waiting.done()
        assert waiting.result(PATIENCE_S) == 1


def test_that_a_server_is_away_is_told_once_and_so_is_that_it_is_back(box, failed_tries):
    def one_ticket():
        with box.session() as tx:
            return tx.dispense("crm").first

    with records("psycopg.pool") as theirs, ThreadPoolExecutor(1) as thread:
        for number in (1, 2):  # each time that it goes
            with away(box):
                box._connections._shared.pool.drain()
                waiting = thread.submit(one_ticket)
                tries = [failed_tries.get(timeout=PATIENCE_S) for _ in range(3)]
            assert waiting.result(PATIENCE_S) == number
            told = tries + [failed_tries.get(timeout=PATIENCE_S) for _ in range(failed_tries.qsize())]
            first, *others, last = [one for one in told if one.levelno >= logging.WARNING]
            assert first is tries[0]
            assert "no connection can be made, and it is tried again and again: " in first.getMessage()
            assert last.getMessage().endswith("connections can be made again")
            assert others == []
    while not theirs.empty():
        assert theirs.get().levelno < logging.WARNING


def test_what_pools_of_others_tell_is_left_alone(box, tmp_path):
    with (
        records("psycopg.pool") as theirs,
        ConnectionPool(f"host={tmp_path}", name="seriatim", open=False, num_workers=1) as pool,
    ):
        pool.open()
        while (record := theirs.get(timeout=PATIENCE_S)).levelno < logging.WARNING:
            pass
    assert record.getMessage().startswith("error connecting in 'seriatim': ")
