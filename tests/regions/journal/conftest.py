"""A journal in a database of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import QueueRules
from tests.databases import Databases
from tests.regions.journal.given import NAME, QUEUE


def _make(dsn: str) -> None:
    with Journal.open(dsn) as journal:
        journal.define(NAME, QUEUE, QueueRules(attempts=2, retry_delay="50s", hole_timeout="150s"))


@pytest.fixture
def journal_dsn(databases: Databases) -> Iterator[str]:
    """The database of a journal that knows one queue: two attempts, 50 s apart; a hole is skipped after 150 s."""
    with databases.clone(databases.template("journal", _make)) as dsn:
        yield dsn


@pytest.fixture
def journal(journal_dsn: str) -> Iterator[Journal]:
    """A journal that knows one queue."""
    with Journal.open(journal_dsn, create=False) as opened:
        yield opened
