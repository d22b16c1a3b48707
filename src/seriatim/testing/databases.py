"""Databases for tests: each is a clone of a template, and is dropped when its test has ended.

To make a message box takes a server 0.1 s of its processor and 263 files; to clone a database that has one takes a third of
that. The data of tests needn't survive a crash, so a server that is started for them doesn't wait for the disk, and keeps its
files in memory if there is enough.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import scalar_row

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import DEFAULT_SCHEMA
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.statements import Statements
from seriatim.errors import EnvironmentProblem
from seriatim.testing.clock import SEARCH_PATH, make_movable

__all__ = ["Databases", "Define", "fresh_box", "in_memory"]

#: Defines the content of the tests' boxes.
Define = Callable[[MessageBox], object]
_HURRIED = {
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "max_wal_size": "128MB",  # it is in memory, too
}
_MEMORY, _MUCH = Path("/dev/shm"), 2 * 2**30  # noqa: S108 -- its folders are made for this user alone
#: The part before the name of the database in a URI, and the name.
_PATH = re.compile(r"^(\w+://[^/?]*)(/[^?]*)?")
#: PostgreSQL waits 100 ms for a connection that is just ending before it drops a database; so often it is asked first.
_LOOKS = 100


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder whose files are in memory, and gone at the end; `otherwise` on a machine that has no such place.

    The next run's start removes the remains of a killed run.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _MUCH:
        yield otherwise
        return
    own = f"seriatim-tests-{os.getuid()}-"
    with ExitStack() as stack:
        with (_MEMORY / f"{own}lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            for left in _MEMORY.glob(f"{own}*/"):
                with suppress(BlockingIOError), _locked(left):
                    shutil.rmtree(left)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=own, dir=_MEMORY)))
            stack.enter_context(_locked(folder))
        yield folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder for this process while the block runs, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def fresh_box(databases: Databases, define: Define) -> Iterator[MessageBox]:
    """A message box in a database of its own, as `define` left it when the first of its kind was made; its clock can be moved."""

    def make(dsn: str) -> None:
        MessageBox.migrate(dsn)
        make_movable(dsn, DEFAULT_SCHEMA)

    def prepare(dsn: str) -> None:
        with MessageBox.open(dsn) as opened:
            define(opened)

    template = databases.template(define, prepare, databases.template("box", make), search_path=SEARCH_PATH)
    with databases.clone(template, search_path=SEARCH_PATH) as dsn, MessageBox.open(dsn) as opened:
        yield opened


def _forget_identities(dsn: str) -> None:
    """Remove the ids of the boxes in a template, so that each clone has its own box, and no disabled copy of one."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "SELECT space.nspname FROM pg_proc AS known JOIN pg_namespace AS space ON space.oid = known.pronamespace"
            " WHERE known.proname = 'forget_identity'"
        ).fetchall()
        for (schema,) in rows:
            Statements(connection, schema).do("forget_identity")


class Databases:
    """Makes databases on a server, and drops them at the end of its ``with``.

    Args:
        dsn: the server, of a role that may make databases.
        is_own: whether the server is for these databases alone. Then it may lose what it has when it crashes, and the roles
            that a test makes go with its database.
        durable: leave such a server as safe as it is, for tests that crash it.
    """

    def __init__(self, dsn: str, *, is_own: bool, durable: bool = False) -> None:
        self.dsn = dsn
        self._is_own = is_own
        self._prefix = "" if is_own else f"seriatim_{secrets.token_hex(4)}_"
        self._numbers = itertools.count(1)
        self._templates: dict[Hashable, str] = {}
        self._connection = psycopg.connect(dsn, autocommit=True, row_factory=scalar_row)
        if is_own and not durable:
            for name, value in _HURRIED.items():
                self._execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
            self._execute(sql.SQL("SELECT pg_reload_conf()"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the templates from a server that has other databases, too, and end the connection."""
        if not self._is_own:
            for database in self._templates.values():
                self._drop(database)
        self._connection.close()

    def template(
        self, name: Hashable, make: Callable[[str], object], of: str | None = None, *, search_path: str | None = None
    ) -> str:
        """The database of that name, made once: a clone of `of`, to which `make` has done its work, given its DSN.

        Its message boxes have no id; each clone of one takes an id when it is first opened.
        """
        if name not in self._templates:
            database = f"{self._prefix}template_{len(self._templates)}"
            self._create(database, of, search_path)
            self._templates[name] = database
            make(self._dsn_of(database))
            _forget_identities(self._dsn_of(database))
        return self._templates[name]

    @contextmanager
    def clone(self, template: str | None = None, *, search_path: str | None = None) -> Iterator[str]:
        """The DSN of a fresh database like `template` (empty without one); it and its roles go at the end."""
        database = f"{self._prefix}test_{next(self._numbers)}"
        roles = self._roles()
        self._create(database, template, search_path)
        try:
            yield self._dsn_of(database)
        finally:
            self._drop(database)
            for role in sorted(self._roles() - roles):
                self._execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))

    def _create(self, database: str, template: str | None, search_path: str | None) -> None:
        words = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        try:
            self._execute(words.format(sql.Identifier(database), sql.Identifier(template or "template0")))
        except psycopg.errors.InsufficientPrivilege as error:
            raise EnvironmentProblem(
                "the role of the tests' server can't create databases",
                where=place_of(self.dsn, DEFAULT_SCHEMA),
                remedy='ALTER ROLE … CREATEDB; or name a server in SERIATIM_TEST_DSN; or pip install "seriatim[embedded]"',
            ) from error
        if search_path is not None:  # a clone doesn't have the settings of its template
            self._execute(
                sql.SQL("ALTER DATABASE {} SET search_path = {}").format(sql.Identifier(database), sql.SQL(search_path))
            )

    def _drop(self, database: str) -> None:
        users = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = %s)"
        for _ in range(_LOOKS):
            if not self._connection.execute(users, [database]).fetchone():
                break
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))

    def _dsn_of(self, database: str) -> str:
        if "://" in self.dsn:
            return _PATH.sub(rf"\g<1>/{database}", self.dsn, count=1)
        return make_conninfo(self.dsn, dbname=database)

    def _roles(self) -> set[str]:
        """The roles of the server, if they are the tests' own."""
        if not self._is_own:
            return set()
        return set(self._connection.execute("SELECT rolname FROM pg_roles").fetchall())

    def _execute(self, words: sql.SQL | sql.Composed) -> Any:
        return self._connection.execute(words)
