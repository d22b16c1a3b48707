"""Run the SQL statements of the box: functions of its schema, called by their names, and files of SQL.

A statement is called by a name, with named parameters. If there is a file of that name in ``sql/``, it is the statement.
Otherwise the name is a function of the schema, and the parameters are its arguments. The test of the project compares all
calls in the source with PostgreSQL's catalogue.

A text that several files share is a part, a file in ``sql/parts/``: see `template.with_parts`.
"""

from __future__ import annotations

import inspect
import re
from collections import namedtuple
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, ClassVar, NoReturn, TypeVar, overload

import psycopg
from psycopg import errors, generators, sql
from psycopg.abc import Buffer, PQGen
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import class_row, dict_row, no_result, scalar_row
from psycopg.waiting import Wait

from seriatim.box.postgres.array_text import written
from seriatim.box.postgres.template import checked_schema, for_schema, template, with_parts
from seriatim.box.postgres.translate import ChangedResult

_Row = TypeVar("_Row")

#: Arguments with bytes, or lists of bytes, have such names; no others do. They are sent in the binary format.
_BYTES = re.compile(r"(.*_)?(bod(y|ies)|frame|public_key)", re.ASCII)

#: Tables with a view ``seen_…``, which has the rows of the queues that a role sees.
SEEN = (
    *("entries", "known_groups", "queues", "aside", "history", "known_subscriptions", "leases", "requests", "faults"),
    *("operator_log", "queue_counts", "message_places", "spool", "stored_messages", "tickets", "message_parts"),
    *("unrouted", "to_route", "message_ids", "keeping", "instances", "stopped_groups", "not_done", "waiters"),
    *("workers", "known_workers", "edits", "events", "ways", "bulk_operations", "bulk_groups", "replies"),
    "open_requests",
)
_SEEN_TABLE = re.compile(rf"\{{schema\}}\.({'|'.join(SEEN)})\b(?!\()")
_ROOMS_OF_LOOKS = ("views", "operators", "faults")
_PACKAGE = "seriatim.box.postgres"
_PARTS = "parts"
#: A filter that may be left out. A plan for any values uses no index of those that are given: a list took an hour in place of a moment.
_OPTIONAL = re.compile(r"%\(\w+\)s(?:::[\w\[\]]+)? IS NULL OR")
_WRITES = re.compile(r"\b(INSERT INTO|DELETE FROM|UPDATE)\b")


class Statements:
    """The statements of a box, executed on one connection; each is called by its name with named parameters. A name is a file ``NAME.sql``,
    or a function of the schema, whose arguments are the parameters. `value` and `do` call a function that returns one value or none, the
    others a function that returns a row or rows. Rows are named tuples after the columns, or of a class whose fields have the names of the
    columns, or dictionaries. Lists of numbers, booleans or texts are sent as the text of an array, of which the file or the function says
    the type.
    """

    __slots__ = ("connection", "schema")
    #: The package that has the files.
    package: ClassVar[str] = _PACKAGE

    def __init__(self, connection: psycopg.Connection, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    @overload
    def rows(self, name: str, of: None = None, /, **parameters: Any) -> list[Any]: ...
    @overload
    def rows(self, name: str, of: type[_Row], /, **parameters: Any) -> list[_Row]: ...
    def rows(self, name: str, of: type | None = None, /, **parameters: Any) -> list[Any]:
        with self.connection.cursor(row_factory=_factory(of), binary=True) as cursor:
            query, prepare = self._of_rows(name, parameters), _is_prepared(name, self.package)
            return cursor.execute(query, written(parameters), prepare=prepare).fetchall()

    @overload
    def one(self, name: str, of: None = None, /, **parameters: Any) -> Any: ...
    @overload
    def one(self, name: str, of: type[_Row], /, **parameters: Any) -> _Row: ...
    def one(self, name: str, of: type | None = None, /, **parameters: Any) -> Any:
        """The first row of a statement that always has one."""
        return self.rows(name, of, **parameters)[0]

    @overload
    def maybe(self, name: str, of: None = None, /, **parameters: Any) -> Any | None: ...
    @overload
    def maybe(self, name: str, of: type[_Row], /, **parameters: Any) -> _Row | None: ...
    def maybe(self, name: str, of: type | None = None, /, **parameters: Any) -> Any | None:
        """The first row of a statement's result; None if it has none."""
        return next(iter(self.rows(name, of, **parameters)), None)

    def value(self, name: str, /, **parameters: Any) -> Any:
        with self.connection.cursor(row_factory=scalar_row, binary=True) as cursor:
            query, prepare = self._of_value(name, parameters), _is_prepared(name, self.package)
            return cursor.execute(query, written(parameters), prepare=prepare).fetchone()

    def portions(self, name: str, size: int, /, **parameters: Any) -> Iterator[list[Any]]:
        """The rows of a large result, at most `size` at once; a cursor that is planned for all of them, not for its first tenth."""
        self.do("plan_for_all_rows")
        with self.connection.cursor(name, row_factory=_named_row, binary=True) as cursor:
            cursor.execute(self._of_rows(name, parameters), written(parameters))
            while rows := cursor.fetchmany(size):
                yield rows

    def copied(self, name: str, /, **parameters: Any) -> Generator[list[Buffer], None, None]:
        """The rows of a large result, as binary COPY writes them, as they come. Close it before the transaction ends."""
        query = b"COPY (" + self._of_rows(name, parameters) + b") TO STDOUT (FORMAT binary)"
        with self.connection.cursor() as cursor, cursor.copy(query, written(parameters)):
            yield from received(self.connection)

    def do(self, name: str, /, **parameters: Any) -> int:
        """Execute a statement for its effect; returns the number of rows that it has changed, or found."""
        return self.connection.execute(self._of_value(name, parameters), written(parameters)).rowcount

    def _of_rows(self, name: str, parameters: Mapping[str, Any]) -> bytes:
        return statement(name, self.schema, *parameters, of_rows=True, package=self.package)

    def _of_value(self, name: str, parameters: Mapping[str, Any]) -> bytes:
        return statement(name, self.schema, *parameters, package=self.package)


def received(connection: psycopg.Connection) -> Iterator[list[Buffer]]:
    """The rows of a COPY that the connection has begun. The driver would wait for each row by itself."""
    rows: list[Buffer] = []
    while True:
        size, row = connection.pgconn.get_copy_data(1)
        if size > 0:
            rows.append(row)
            continue
        if rows:
            yield rows
            rows = []
        if size < 0:
            break
        connection.wait(_more(connection.pgconn))
    *_, result = connection.wait(generators.fetch_many(connection.pgconn))
    if result.status != ExecStatus.COMMAND_OK:
        raise errors.error_from_result(result, connection.info.encoding)


def _more(pgconn: PGconn) -> PQGen[None]:
    """Wait until more has come."""
    while not (yield Wait.R):
        pass
    pgconn.consume_input()


def _factory(of: type | None) -> Any:
    if of is None:
        return _named_row
    return dict_row if of is dict else partial(_class_row, of)


def _named_row(cursor: psycopg.Cursor[Any]) -> Any:
    names = _column_names(cursor)
    return no_result if names is None else _row_class(names)._make


@lru_cache(512)
def _row_class(names: tuple[bytes, ...]) -> Any:
    fields = namedtuple("Row", [name.decode() for name in names])  # type: ignore[misc] # noqa: PYI024 -- known at run time only
    return type("Row", (fields,), {"__slots__": (), "__getattr__": _no_such_column})


def _no_such_column(row: Any, name: str) -> NoReturn:
    if name.startswith("_"):
        raise AttributeError(name)
    raise ChangedResult(f"the result has no column {name}, but {', '.join(row._fields)}")


def _class_row(of: type, cursor: psycopg.Cursor[Any]) -> Any:
    """Make rows of a class whose fields have the names of the columns."""
    names = _column_names(cursor)
    if names is not None:
        _check_fits(of, names)
    return class_row(of)(cursor)


@cache
def _check_fits(of: type, names: tuple[bytes, ...]) -> None:
    named = [name.decode() for name in names]
    try:
        inspect.signature(of).bind(**dict.fromkeys(named))
    except TypeError as error:
        raise ChangedResult(
            f"the result has the columns {', '.join(named)}, and {of.__name__} others: {error}"
        ) from None


def _column_names(cursor: psycopg.Cursor[Any]) -> tuple[bytes, ...] | None:
    result = cursor.pgresult
    if result is None or not result.nfields:
        return None
    return tuple(result.fname(place) or b"" for place in range(result.nfields))


@cache
def statement(name: str, schema: str, *arguments: str, of_rows: bool = False, package: str = _PACKAGE) -> bytes:
    if (file := files(package).get(name)) is None:
        return _call(name, schema, arguments, of_rows=of_rows).as_bytes(None)
    return for_schema(_text(file, package), schema)


@cache
def seen_statement(name: str, schema: str) -> bytes:
    """Return the statement of a look for a role that sees some queues: it reads the views of these."""
    return for_schema(_SEEN_TABLE.sub(r"{schema}.seen_\1", _text(files()[name])), schema)


@cache
def right_of_look(name: str) -> str | None:
    """Return ``see`` or ``see_bodies`` for a look, which is a file that only reads what operators see; None: it is none."""
    if (file := files().get(name)) is None or file.split("/")[1] not in _ROOMS_OF_LOOKS:
        return None
    text = _text(file)
    if _WRITES.search(text) or not _SEEN_TABLE.search(text):
        return None
    return "see_bodies" if "\n-- Right: see_bodies.\n" in template(_PACKAGE, file) else "see"


@cache
def _is_prepared(name: str, package: str) -> bool | None:
    """False: it is planned for the values of each call; None: it is prepared after some calls, as the driver does."""
    file = files(package).get(name)
    return False if file is not None and _OPTIONAL.search(_text(file, package)) else None


def _text(file: str, package: str = _PACKAGE) -> str:
    """A file of one statement, with its parts and without its header comments."""
    text = "\n".join(line for line in template(package, file).splitlines() if not line.startswith("--"))
    return with_parts(package, f"sql/{_PARTS}", text)


def _call(name: str, schema: str, arguments: Iterable[str], *, of_rows: bool) -> sql.Composed:
    written = [
        sql.SQL("{} => {}").format(
            sql.Identifier(argument), sql.Placeholder(argument, "b" if _BYTES.fullmatch(argument) else "s")
        )
        for argument in arguments
    ]
    call = sql.SQL("SELECT * FROM {}({})" if of_rows else "SELECT {}({})")
    return call.format(sql.Identifier(checked_schema(schema), name), sql.SQL(", ").join(written))


@cache
def files(package: str = _PACKAGE) -> dict[str, str]:
    """The files of statements of a package by their names, which are unique over all folders."""
    return {
        path.rpartition("/")[2].removesuffix(".sql"): path
        for path in _paths(resources.files(package).joinpath("sql"), "sql")
        if not path.startswith(f"sql/{_PARTS}/")
    }


def _paths(folder: Traversable, path: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _paths(entry, f"{path}/{entry.name}")
        elif entry.name.endswith(".sql"):
            yield f"{path}/{entry.name}"
