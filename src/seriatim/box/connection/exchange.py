"""Send statements to the server by libpq, several in one round trip, each prepared once.

The driver's cursors send each statement of a pipeline separately, need another connection mode for a statement outside a
transaction, and convert each parameter and each name anew. What is sent again and again takes a third of that time here.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import abc, errors, generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from seriatim.rested import RestedConnection

#: A statement of ours, and its parameters: bytes or lists of bytes for ``%(name)b``; for ``%(name)s`` values whose PostgreSQL text is
#: Python's: no NUL, and text in place of lists (see `arrays.written`).
Asked = tuple[bytes, Mapping[str, Any]]

_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\)([sb])|%)")
_FORMATS = {b"s": Format.TEXT, b"b": Format.BINARY}
#: Part of the names of statements: through a pooler, another process may have had the same connection.
_PROCESS = secrets.token_hex(4).encode()
_NUMBERS = itertools.count(1)


class PreparingConnection(RestedConnection):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names: dict[bytes, bytes] = {}
        #: By the text of a named statement, the maker of rows with named columns. Its columns don't change while it has the name, and
        #: reading some twenty names takes longer than reading a row.
        self.row_makers: dict[bytes, Callable[[Iterable[Any]], Any]] = {}
        #: Whether each transaction may use another connection to the server, or another server: then neither side may rely on state
        #: from earlier transactions.
        self.is_pooled = False
        #: The statements whose names the server surely has: they were sent by name, and only exchanges came since. Anything else may
        #: have the server forget all `names`, also within a transaction: the driver does now and then, and an application may.
        self.standing: frozenset[bytes] = frozenset()
        #: Names that the next exchange has the server forget.
        self.closing: list[bytes] = []
        self._adapted_to: tuple[bytes | None, bytes | None] | None = None
        self._adapter: abc.Transformer = Transformer(self)

    def adapter(self) -> abc.Transformer:
        """The converter of rows and parameters, by the application's settings of the connection."""
        status_of = self.pgconn.parameter_status
        # Values depend on these; the server reports each change.
        if (settings := (status_of(b"client_encoding"), status_of(b"TimeZone"))) != self._adapted_to:
            self._adapter, self._adapted_to = Transformer(self), settings
        return self._adapter

    def forget(self, text: bytes | None = None) -> None:
        """Forget the name of a statement, or all names, and the columns that the statements had."""
        for known in (self.names, self.row_makers):
            if text is None:
                known.clear()
            else:
                known.pop(text, None)


class Sent(NamedTuple):
    """A statement for libpq: its text, its parameters and their formats; whether it is a prepared statement."""

    text: bytes
    values: list[abc.Buffer | None]
    formats: tuple[Format, ...]
    kept: bool = True


def exchange(connection: PreparingConnection, sent: Sequence[Sent]) -> tuple[list[PGresult], PGresult | None]:
    """Execute statements one after another until one fails; returns the results, also of preparing statements, and the error."""
    fresh: dict[bytes, bytes] = {}
    standing = connection.standing
    with connection.lock:
        pgconn = connection.pgconn
        try:
            if len(sent) == 1 and (name := connection.names.get(sent[0].text)) is not None:
                statement = sent[0]  # without a pipeline the driver's C code reads the answer
                pgconn.send_query_prepared(name, statement.values, statement.formats, result_format=Format.BINARY)
                results = connection.wait(generators.execute(pgconn))
            else:
                results = _in_pipeline(connection, sent, fresh)
        except BaseException:
            pgconn.finish()  # its state is unknown
            raise
    failed = _failed(results)
    if failed is None:
        if pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
        connection.names |= fresh
        for statement in sent:
            if statement.kept and statement.text not in standing:
                standing |= {statement.text}
        connection.standing = standing
    return results, failed


def _in_pipeline(connection: PreparingConnection, sent: Iterable[Sent], fresh: dict[bytes, bytes]) -> list[PGresult]:
    """Return the results of statements; add the names of prepared ones to `fresh`."""
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    while connection.closing:
        pgconn.send_close_prepared(connection.closing.pop())  # no error if the server doesn't have it
    for statement in sent:
        if not statement.kept or connection.is_pooled:
            pgconn.send_query_params(
                statement.text, statement.values, param_formats=statement.formats, result_format=Format.BINARY
            )
            continue
        if (name := connection.names.get(statement.text)) is None:
            name = fresh[statement.text] = b"seriatim_%s_%d" % (_PROCESS, next(_NUMBERS))
            pgconn.send_prepare(name, statement.text)
        pgconn.send_query_prepared(name, statement.values, statement.formats, result_format=Format.BINARY)
    pgconn.pipeline_sync()
    results = connection.wait(_answers(pgconn))
    # Notifications that came with the results would otherwise be noticed only with the next ones.
    while pgconn.notify_handler is not None and (heard := pgconn.notifies()) is not None:
        pgconn.notify_handler(heard)
    if pgconn.status == ConnStatus.OK:
        pgconn.exit_pipeline_mode()
    return results


def execute_alone(connection: PreparingConnection, sent: Sequence[Sent]) -> PGresult:
    """Execute statements outside of a transaction; it needn't be in autocommit mode. Returns the result of the first that returns rows."""
    while True:
        results, failed = exchange(connection, sent)
        if failed is None:
            return next(result for result in results if result.status == ExecStatus.TUPLES_OK)
        error = errors.error_from_result(failed, connection.info.encoding)
        if connection.pgconn.transaction_status == TransactionStatus.INERROR:
            connection.rollback()
        if not isinstance(error, errors.InvalidSqlStatementName):
            raise error
        # The driver has the server forget all names when anything is rolled back.
        connection.forget()


def _failed(results: Iterable[PGresult]) -> PGresult | None:
    return next((result for result in results if result.status == ExecStatus.FATAL_ERROR), None)


def _answers(pgconn: PGconn) -> abc.PQGen[list[PGresult]]:
    """Send the queued statements and read all results; a generator for `Connection.wait`."""
    results: list[PGresult] = []
    try:
        while pgconn.flush():
            if ((yield Wait.RW) or 0) & Ready.R:
                pgconn.consume_input()
        while pgconn.status == ConnStatus.OK:
            while pgconn.is_busy():
                if (yield Wait.R):
                    pgconn.consume_input()
            result = pgconn.get_result()
            if result is None:
                continue  # it separates the results of two statements
            if result.status == ExecStatus.PIPELINE_SYNC:
                break
            results.append(result)
    except psycopg.OperationalError:
        # If the server has given a reason for ending the connection, that is the error.
        if _failed(results) is None:
            raise
    return results


def rows_of(connection: PreparingConnection, result: PGresult, text: bytes) -> list[tuple[Any, ...]]:
    """The rows of a result, with named columns; `text`: the statement that gave it."""
    make = connection.row_makers.get(text)
    if make is None:
        make = row_class(tuple(map(result.fname, range(result.nfields))))._make
        if text in connection.names:
            connection.row_makers[text] = make
    return _loaded(connection, result, make)


def value_of(connection: PreparingConnection, result: PGresult) -> Any:
    return _loaded(connection, result, tuple)[0][0]


def _loaded(connection: PreparingConnection, result: PGresult, make: Callable[[Iterable[Any]], Any]) -> list[Any]:
    reader = connection.adapter()  # now: settings of the first transaction alone don't hold for the second
    reader.set_pgresult(result)
    rows = reader.load_rows(0, result.ntuples, make)
    reader.set_pgresult(None)  # bodies may be large
    return rows


@cache
def row_class(names: tuple[bytes | None, ...]) -> Any:
    columns = [(name or b"").decode() for name in names]
    return namedtuple("Row", columns, rename=True)  # noqa: PYI024 -- the columns are known when they come


def as_sent(adapter: abc.Transformer, request: Asked, *, kept: bool = True) -> Sent:
    """Return a statement with numbers for the names of its parameters, and their values in that order."""
    (text, names, formats), parameters, encoding = _numbered(request[0]), request[1], adapter.encoding
    values = [  # by their types, the frequent ones first: a message has some twenty of them
        value
        if (value := parameters[name]) is None or (kind := type(value)) is bytes
        else value.encode(encoding)
        if kind is str
        else b"%d" % value
        if kind is int
        else adapter.dump_sequence([value], [PyFormat.BINARY])[0]
        if kind is list
        else str(value).encode(encoding)
        for name in names
    ]
    return Sent(text, values, formats, kept)


@cache
def _numbered(text: bytes) -> tuple[bytes, tuple[str, ...], tuple[Format, ...]]:
    """Return a statement with numbers for the names of its parameters, these names, and the formats of their values."""
    formats = {name: _FORMATS[letter] for name, letter in _PLACEHOLDER.findall(text) if name}
    places = {name: b"$%d" % place for place, name in enumerate(formats, 1)}
    numbered = _PLACEHOLDER.sub(lambda match: places[match[1]] if match[1] else b"%", text)
    return numbered, tuple(name.decode() for name in formats), tuple(formats.values())
