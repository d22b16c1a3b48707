"""Whole transactions in one round trip: one that is a single statement, and the step from one to the next.

By libpq, as `psycopg.pq` has it. The driver's own cursors send each statement of a pipeline by itself; and for a
statement that is a transaction they want the connection to be turned into another mode and back.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import psycopg
from psycopg import abc, errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import tuple_row
from psycopg.waiting import Ready, Wait

__all__ = ["Asked", "can_flush", "commit_between", "is_between", "transact"]

#: A statement of ours, and its parameters: bytes, lists of bytes, or what PostgreSQL reads as Python writes it: no NUL,
#: and text in place of other lists (see `arrays.written`).
Asked = tuple[bytes, Mapping[str, Any]]

_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\)[sb]|%)")
#: Part of the names of statements: through a pooler, another process may have had the same connection.
_PROCESS = secrets.token_hex(4).encode()
_NUMBERS = itertools.count(1)
#: The names by which connections know statements.
_PREPARED: WeakKeyDictionary[psycopg.Connection, dict[bytes, bytes]] = WeakKeyDictionary()
#: What is on disk after this: all that was committed before it. The function writes a line of its own behind that.
_FLUSH = b"SELECT pg_catalog.pg_logical_emit_message(FALSE, 'seriatim', '', TRUE)"
_MAY_FLUSH = (
    b"SELECT coalesce(has_function_privilege("
    b"to_regprocedure('pg_catalog.pg_logical_emit_message(boolean,text,text,boolean)'), 'EXECUTE'), FALSE)"
)
_FLUSHING: WeakKeyDictionary[psycopg.Connection, bool] = WeakKeyDictionary()


class _Sent(NamedTuple):
    """A statement for libpq: its text and parameters, and how these are written; whether the server keeps it by a name."""

    text: bytes
    values: list[abc.Buffer | None]
    formats: list[Format]
    kept: bool = True


def is_between(connection: psycopg.Connection) -> bool:
    """Whether `commit_between` can be asked: a transaction has begun, and the driver sends nothing else meanwhile."""
    pgconn = connection.pgconn
    return pgconn.transaction_status == TransactionStatus.INTRANS and pgconn.pipeline_status == PipelineStatus.OFF


def can_flush(connection: psycopg.Connection) -> bool:
    """Whether `transact` can see to it that what was committed is on disk: since PostgreSQL 17, if the role may."""
    if (known := _FLUSHING.get(connection)) is None:
        ((known,),) = transact(connection, (_MAY_FLUSH, {}))
        _FLUSHING[connection] = known
    return known


def transact(connection: psycopg.Connection, asked: Asked, *, flush: bool = False) -> list[tuple[Any, ...]]:
    """Do one statement that is a transaction by itself.

    Args:
        connection: one without a transaction; it needn't commit each statement by itself.
        asked: what to do; what may be asked twice.
        flush: the statement commits without waiting until that is on disk; wait for it afterwards. So nobody who waits
            for its locks waits for the disk, and those who come together are written together.

    Returns:
        its rows.

    Raises:
        psycopg.Error: what went wrong. Where the connection broke nobody knows whether it was done.
    """
    sent = [_as_sent(connection, asked)]
    if flush:  # what comes after the commit is another transaction, and all is answered at once
        sent = [_Sent(b"BEGIN", [], []), *sent, _Sent(b"COMMIT", [], []), _Sent(_FLUSH, [], [])]
    while True:
        results = _exchange(connection, sent)
        if (failed := _failed(results)) is None:
            return _rows(connection, next(one for one in results if one.status == ExecStatus.TUPLES_OK))
        error = errors.error_from_result(failed, connection.info.encoding)
        if connection.pgconn.transaction_status == TransactionStatus.INERROR:
            connection.rollback()
        if not isinstance(error, errors.InvalidSqlStatementName):
            raise error
        # The driver has the server forget all names when anything is rolled back.
        _PREPARED[connection].clear()


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
    done = _as_sent(connection, last)._replace(kept=False)
    then = _as_sent(connection, first)
    results = _exchange(connection, [done, _Sent(b"COMMIT AND CHAIN", [], [], kept=False), then])
    if (failed := _failed(results)) is None:
        return _rows(connection, results[-1])
    error = errors.error_from_result(failed, connection.info.encoding)
    if failed is not results[-1]:
        raise error
    # What was to be committed is. The name goes, for its plan may be what failed.
    known = _PREPARED[connection]
    known.pop(then.text, None)
    if not isinstance(error, errors.InvalidSqlStatementName):
        raise error
    # The driver has the server forget all names when anything is rolled back.
    known.clear()
    connection.rollback()
    with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
        return cursor.execute(*first).fetchall()


def _exchange(connection: psycopg.Connection, sent: Iterable[_Sent]) -> list[PGresult]:
    """Do statements, one after another until one fails; the results, also of what made names known."""
    known = _PREPARED.setdefault(connection, {})
    fresh: dict[bytes, bytes] = {}
    with connection.lock:
        pgconn = connection.pgconn
        pgconn.enter_pipeline_mode()
        try:
            for one in sent:
                if not one.kept:
                    pgconn.send_query_params(one.text, one.values, param_formats=one.formats)
                    continue
                if (name := known.get(one.text)) is None:
                    name = fresh[one.text] = b"seriatim_%s_%d" % (_PROCESS, next(_NUMBERS))
                    pgconn.send_prepare(name, one.text)
                pgconn.send_query_prepared(name, one.values, one.formats, result_format=Format.BINARY)
            pgconn.pipeline_sync()
            results = connection.wait(_answers(pgconn))
            if pgconn.status == ConnStatus.OK:
                pgconn.exit_pipeline_mode()
        except BaseException:
            pgconn.finish()  # nobody can tell how far it is
            raise
    if _failed(results) is None:
        if pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
        known |= fresh
    return results


def _failed(results: Iterable[PGresult]) -> PGresult | None:
    """What went wrong first."""
    return next((one for one in results if one.status == ExecStatus.FATAL_ERROR), None)


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
        if _failed(results) is None:
            raise
    return results


def _rows(connection: psycopg.Connection, result: PGresult) -> list[tuple[Any, ...]]:
    reader = Transformer(connection)  # each time: the application may have set another encoding
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def _as_sent(connection: psycopg.Connection, asked: Asked) -> _Sent:
    """A statement with numbers for the names of its parameters, and their values in that order."""
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
    return _Sent(text, sent, formats)


@cache
def _numbered(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    names = tuple(dict.fromkeys(filter(None, _PLACEHOLDER.findall(text))))
    numbered = _PLACEHOLDER.sub(lambda found: b"$%d" % (names.index(found[1]) + 1) if found[1] else b"%", text)
    return numbered, tuple(name.decode() for name in names)
