"""Connections after PostgreSQL was away: whoever waits for one gets it soon after it is back, however long that was."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from logging.handlers import QueueHandler
from pathlib import Path
from queue import SimpleQueue

import pytest
from psycopg.conninfo import conninfo_to_dict

PATIENCE_S = 60
#: More than are made in the time for which a session waits, if each comes twice as late as the one before.
TRIED = 7


@contextmanager
def away(box) -> Iterator[None]:
    """Within the block nobody can connect."""
    socket = Path(conninfo_to_dict(box.dsn)["host"]) / ".s.PGSQL.5432"
    hidden = socket.rename(socket.with_name("hidden"))
    try:
        yield
    finally:
        hidden.rename(socket)


@pytest.fixture
def failed_tries():
    """What pools tell of connections that couldn't be made, as it comes."""
    told = SimpleQueue()
    handler = QueueHandler(told)
    handler.addFilter(lambda record: "error connecting" in record.msg)
    logger = logging.getLogger("psycopg.pool")
    logger.addHandler(handler)
    yield told
    logger.removeHandler(handler)


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
