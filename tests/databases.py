"""The databases of a run's tests: each is a clone of a template, and is dropped when its test has ended.

Users get the same for their tests: see `seriatim.testing.databases`. Here the clock is PostgreSQL's own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from seriatim import MessageBox
from seriatim.box.server.binaries import NEWEST
from seriatim.box.server.embedded import serving as embedded
from seriatim.testing.databases import Databases, in_memory

__all__ = ["SCHEMA", "Databases", "box_with", "fresh_box", "in_memory", "serving"]

#: The schema of every box that is cloned: another than the default, which has tests of its own.
SCHEMA = "test"
Prepare = Callable[[MessageBox], object]


@contextmanager
def serving(folder: Path, *, durable: bool = False) -> Iterator[Databases]:
    """The databases of a server of its own, with its data in `folder`."""
    major = int(os.environ.get("SERIATIM_TEST_POSTGRESQL", NEWEST))
    with embedded(folder / "server", major) as server, Databases(server.dsn, is_own=True, durable=durable) as found:
        yield found


@contextmanager
def fresh_box(databases: Databases, prepare: Prepare | None = None) -> Iterator[MessageBox]:
    """A message box in a database of its own, on which `prepare` was called when the first of its kind was made."""
    template = databases.template("box", lambda dsn: MessageBox.migrate(dsn, schema=SCHEMA))
    if prepare is not None:
        template = databases.template(
            f"{prepare.__module__}.{prepare.__qualname__}", partial(_prepare, prepare), template
        )
    with databases.clone(template) as dsn, MessageBox.open(dsn, schema=SCHEMA) as opened:
        yield opened


def box_with(prepare: Prepare, scope: Literal["function", "module"] = "function") -> Any:
    """A fixture: a message box as `prepare` leaves it, for each test or, where they only read or are refused, for a module."""

    @pytest.fixture(scope=scope)
    def box_as_prepared(databases: Databases) -> Iterator[MessageBox]:
        with fresh_box(databases, prepare) as opened:
            yield opened

    return box_as_prepared


def _prepare(prepare: Prepare, dsn: str) -> None:
    with MessageBox.open(dsn, schema=SCHEMA) as opened:
        prepare(opened)
