"""Two boxes and a journal, in databases of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.regions.journal.journal import Journal
from tests.databases import Databases, fresh_box
from tests.regions.two import NAME, STATUS, Two


def _make(dsn: str) -> None:
    Journal.open(dsn).close()


@contextmanager
def _regions(databases: Databases) -> Iterator[Two]:
    """Two boxes and a journal, with the queue "status" of both regions."""
    with (
        fresh_box(databases) as first,
        fresh_box(databases) as second,
        databases.clone(databases.template("empty journal", _make)) as dsn,
        Journal.open(dsn, create=False) as journal,
        sq.Regions(first, second, journal, name=NAME, patience="30s", retry_after=0) as regions,
    ):
        regions.define(*STATUS)
        yield Two(regions, first, second, journal, dsn)


@pytest.fixture
def two(databases: Databases) -> Iterator[Two]:
    """Two regions."""
    with _regions(databases) as found:
        yield found


@pytest.fixture
def both_at_once(two: Two) -> Iterator[Two]:
    """Two regions that hand copies out at once."""
    with sq.Regions(two.first, two.second, two.journal, name=NAME, prefer=0, patience="30s", retry_after=0) as regions:
        yield replace(two, regions=regions)


@pytest.fixture(scope="module")
def two_to_refuse(databases: Databases) -> Iterator[Two]:
    """Two regions that only refuse, for all tests of a module."""
    with _regions(databases) as found:
        yield found
