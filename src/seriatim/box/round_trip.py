"""Whole transactions in one round trip: one that is a single statement, and the step from one to the next.

By libpq, as `psycopg.pq` has it. The driver's own cursors send each statement of a pipeline by itself; and for a
statement that is a transaction they want the connection to be turned into another mode and back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import abc, errors, generators
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import tuple_row
from psycopg.waiting import Ready, Wait

__all__ = ["Asked", "commit_between", "is_between", "transact"]

#: A statement of ours, and its parameters: bytes, lists of bytes, or what PostgreSQL reads as Python writes it: no NUL,
#: and text in place of other lists (see `arrays.written`).
Asked = tuple[bytes, Mapping[str, Any]]

_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\)[sb]|%)")
_NUMBERS = itertools.count(1)
#: The names by which connections know statements.
_PREPARED: WeakKeyDictionary[psycopg.Connection, dict[bytes, bytes]] = WeakKeyDictionary()


def is_between(connection: psycopg.Connection) -> bool:
    """Whether `commit_between` can be asked: a transaction has begun, and the driver sends nothing else meanwhile."""
    pgconn = connection.pgconn
    return pgconn.transaction_status == TransactionStatus.INTRANS and pgconn.pipeline_status == PipelineStatus.OFF


def transact(connection: psycopg.Connection, asked: Asked) -> list[tuple[Any, ...]]:
    """Do one statement that is a transaction by itself.

    Args:
        connection: one without a transaction; it needn't commit each statement by itself.
        asked: what to do.

    Returns:
        its rows.

    Raises:
        psycopg.Error: what went wrong. Where the connection broke nobody knows whether it was done.
    """
    text, values, formats = _as_sent(connection, asked)
    known = _PREPARED.setdefault(connection, {})
    with connection.lock:
        pgconn = connection.pgconn
        while True:
            if (name := known.get(text)) is None:
                name = b"seriatim_%d" % next(_NUMBERS)
                pgconn.send_prepare(name, text)
                _check(connection, connection.wait(generators.execute(pgconn)))
                known[text] = name
            pgconn.send_query_prepared(name, values, formats, result_format=Format.BINARY)
            try:
                return _rows(connection, _check(connection, connection.wait(generators.execute(pgconn))))
            except errors.InvalidSqlStatementName:
                # The driver has the server forget all names when anything is rolled back.
                known.clear()


def commit_between(connection: psycopg.Connection, last: Asked, first: Asked) -> list[tuple[Any, ...]]:
    """Do the last thing in the transaction of a connection, commit, and ask the first thing in another transaction.

    Args:
        connection: one that `is_between`.
        last: what its rows are is not asked.
        first: what may be asked twice.

    Returns:
        the rows of `first`.

    Raises:
        psycopg.Error: what went wrong first; what was to come after it is not done.
    """
    done, done_values, done_formats = _as_sent(connection, last)
    text, values, formats = _as_sent(connection, first)
    known = _PREPARED.setdefault(connection, {})
    name = known.get(text) or b"seriatim_%d" % next(_NUMBERS)
    with connection.lock:
        pgconn = connection.pgconn
        pgconn.enter_pipeline_mode()
        try:
            pgconn.send_query_params(done, done_values, param_formats=done_formats)
            pgconn.send_query_params(b"COMMIT AND CHAIN", None)
            if text not in known:
                pgconn.send_prepare(name, text)
            pgconn.send_query_prepared(name, values, formats, result_format=Format.BINARY)
            pgconn.pipeline_sync()
            results = connection.wait(_answers(pgconn))
            if pgconn.status == ConnStatus.OK:
                pgconn.exit_pipeline_mode()
        except BaseException:
            pgconn.finish()  # nobody can tell how far it is
            raise
    failed = next((result for result in results if result.status == ExecStatus.FATAL_ERROR), None)
    if failed is None and pgconn.status == ConnStatus.OK:
        known[text] = name
        return _rows(connection, results[-1])
    if failed is None:
        raise psycopg.OperationalError("the connection is lost")
    error = errors.error_from_result(failed, connection.info.encoding)
    if failed is not results[-1]:
        raise error
    # What was to be committed is. The name goes, for its plan may be what failed.
    known.pop(text, None)
    if not isinstance(error, errors.InvalidSqlStatementName):
        raise error
    # The driver has the server forget all names when anything is rolled back.
    known.clear()
    connection.rollback()
    with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
        return cursor.execute(*first).fetchall()


def _answers(pgconn: PGconn) -> abc.PQGen[list[PGresult]]:
    """Send what is queued, and read all that is answered; for `Connection.wait`."""
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
                continue  # it stands between the results of one statement and those of the next
            if result.status == ExecStatus.PIPELINE_SYNC:
                break
            results.append(result)
    except psycopg.OperationalError:
        # Where the server has said why it ends the connection, that is the error.
        if all(result.status != ExecStatus.FATAL_ERROR for result in results):
            raise
    return results


def _check(connection: psycopg.Connection, results: list[PGresult]) -> PGresult:
    """The result of a statement that was sent without others; raises what went wrong."""
    (result,) = results
    if result.status == ExecStatus.FATAL_ERROR:
        raise errors.error_from_result(result, connection.info.encoding)
    return result


def _rows(connection: psycopg.Connection, result: PGresult) -> list[tuple[Any, ...]]:
    reader = Transformer(connection)  # each time: the application may have set another encoding
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def _as_sent(connection: psycopg.Connection, asked: Asked) -> tuple[bytes, list[abc.Buffer | None], list[Format]]:
    """A statement with numbers for the names of its parameters, their values in that order, and how these are written."""
    (text, names), encoding = _numbered(asked[0]), connection.info.encoding
    sent: list[abc.Buffer | None] = []
    formats: list[Format] = []
    for name in names:
        value = asked[1][name]
        if value is None or isinstance(value, bytes):
            sent.append(value)
        elif isinstance(value, list):
            sent += Transformer(connection).dump_sequence([value], [PyFormat.BINARY])
        else:
            sent.append(str(value).encode(encoding))
            formats.append(Format.TEXT)
            continue
        formats.append(Format.BINARY)
    return text, sent, formats


@cache
def _numbered(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    names = tuple(dict.fromkeys(filter(None, _PLACEHOLDER.findall(text))))
    numbered = _PLACEHOLDER.sub(lambda found: b"$%d" % (names.index(found[1]) + 1) if found[1] else b"%", text)
    return numbered, tuple(name.decode() for name in names)
