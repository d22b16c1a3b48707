"""Fixtures for pytest: ``pytest_plugins = ["seriatim.testing.pytest"]`` in the ``conftest.py`` of your tests' root.

`seriatim_box` is a message box for one test. Override `seriatim_define` to say what all boxes have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import VARIABLE
from seriatim.box.connection.dsn import resolve
from seriatim.box.server.embedded import serving
from seriatim.extras import is_chosen
from seriatim.testing.clock import Clock
from seriatim.testing.databases import Databases, Define, fresh_box, in_memory

__all__ = ["seriatim_box", "seriatim_clock", "seriatim_databases", "seriatim_define"]

#: Names the PostgreSQL in which the tests' databases are made.
_VARIABLE = "SERIATIM_TEST_DSN"


@pytest.fixture(scope="session")
def seriatim_databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """Where the tests' databases are: ``SERIATIM_TEST_DSN``, or else a private server, which stops at the end of the run.

    Without the extra ``embedded`` there is no private server, and they are in the server of ``SERIATIM_DSN``.
    """
    if address := os.environ.get(_VARIABLE) or (None if is_chosen("embedded") else os.environ.get(VARIABLE)):
        with Databases(resolve(address), is_own=False) as databases:
            yield databases
        return
    with (
        in_memory(tmp_path_factory.mktemp("postgresql")) as folder,
        serving(folder / "server") as server,
        Databases(server.dsn, is_own=True) as databases,
    ):
        yield databases


@pytest.fixture(scope="session")
def seriatim_define() -> Define:
    """Override it: a function of a box that defines what all boxes of the run have, called once a run."""
    return _nothing


@pytest.fixture
def seriatim_box(seriatim_databases: Databases, seriatim_define: Define) -> Iterator[MessageBox]:
    """A message box in a fresh database, as `seriatim_define` leaves it."""
    with fresh_box(seriatim_databases, seriatim_define) as box:
        yield box


@pytest.fixture
def seriatim_clock(seriatim_box: MessageBox) -> Clock:
    """The clock of `seriatim_box`."""
    return Clock(seriatim_box)


def _nothing(_box: MessageBox) -> None:
    """Define nothing."""
