"""The databases of a run's tests: each is a clone of a template, and is dropped when its test has ended.

To make a message box takes a server 0.1 s of its processor and 263 files; to clone a database that has one takes a third of
that, and to drop it leaves nothing behind. What tests write need not outlive a crash, so the server doesn't wait for the disk,
and has its files in memory where there is enough.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import scalar_row

from seriatim import MessageBox
from seriatim.box.server.binaries import NEWEST
from seriatim.box.server.embedded import EmbeddedServer

__all__ = ["SCHEMA", "Databases", "box_with", "fresh_box", "in_memory", "serving"]

#: The schema of every box that is cloned: another than the default, which has tests of its own.
SCHEMA = "test"
Prepare = Callable[[MessageBox], object]
_DATABASE = "/postgres?"
_HURRIED = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_wal_size": "128MB",  # it is in memory, too
}
_MEMORY, _MUCH = Path("/dev/shm"), 2 * 2**30
#: PostgreSQL waits 100 ms for a connection that is just ending before it drops a database; it is asked first, so often.
_LOOKS = 100


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder whose files are in memory, and gone at the end; `otherwise` on a machine that has no such place.

    What a run that was killed has left there goes at the next one's start.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MUCH:
        yield otherwise
        return
    mine = f"seriatim-tests-{os.getuid()}-"
    with ExitStack() as stack:
        with (_MEMORY / f"{mine}lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            for left in _MEMORY.glob(f"{mine}*/"):
                with suppress(BlockingIOError), _locked(left):
                    shutil.rmtree(left)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=mine, dir=_MEMORY)))
            stack.enter_context(_locked(folder))
        yield folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Nobody else's as long as this process is in the block, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def serving(folder: Path, *, durable: bool = False) -> Iterator[Databases]:
    """The databases of a server of its own, with its data in `folder`."""
    server = EmbeddedServer(folder / "server", int(os.environ.get("SERIATIM_TEST_POSTGRESQL", NEWEST)))
    try:
        with closing(Databases(server.dsn, durable=durable)) as found:
            yield found
    finally:
        server.close()


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


class Databases:
    """Makes databases on the server behind a DSN of its database ``postgres``.

    Args:
        dsn: of a superuser.
        durable: leave it as safe as it is, for tests that crash it.
    """

    def __init__(self, dsn: str, *, durable: bool = False) -> None:
        self.dsn = dsn
        self._numbers = itertools.count(1)
        self._templates: dict[str, str] = {}
        self._connection = psycopg.connect(dsn, autocommit=True, row_factory=scalar_row)
        if not durable:
            for name, value in _HURRIED.items():
                self._execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            self._execute(sql.SQL("SELECT pg_reload_conf()"))

    def close(self) -> None:
        """End its connection."""
        self._connection.close()

    def template(self, name: str, make: Callable[[str], object], of: str | None = None) -> str:
        """The database of that name, made once: a clone of `of`, to which `make` has done its work, given its DSN."""
        if name not in self._templates:
            database = f"template_{len(self._templates)}"
            self._create(database, of)
            make(self._dsn_of(database))
            self._templates[name] = database
        return self._templates[name]

    @contextmanager
    def clone(self, template: str | None = None) -> Iterator[str]:
        """The DSN of a fresh database like `template` (empty without one); it and its roles go at the end."""
        database = f"test_{next(self._numbers)}"
        roles = self._roles()
        self._create(database, template)
        try:
            yield self._dsn_of(database)
        finally:
            self._look_until_left(database)
            self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
            for role in sorted(self._roles() - roles):
                self._execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))

    def _create(self, database: str, template: str | None) -> None:
        words = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self._execute(words.format(sql.Identifier(database), sql.Identifier(template or "template0")))

    def _look_until_left(self, database: str) -> None:
        users = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = %s)"
        for _ in range(_LOOKS):
            if not self._connection.execute(users, [database]).fetchone():
                return

    def _dsn_of(self, database: str) -> str:
        return self.dsn.replace(_DATABASE, f"/{database}?")

    def _roles(self) -> set[str]:
        return set(self._connection.execute("SELECT rolname FROM pg_roles").fetchall())

    def _execute(self, words: sql.SQL | sql.Composed) -> None:
        self._connection.execute(words)
