"""The last statement of a transaction, its commit and the first statement of the next, in one round trip.

By the pipeline of libpq, as `psycopg.pq` has it: the driver's own cursors send each statement by itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import abc, errors
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import tuple_row
from psycopg.waiting import Ready, Wait

__all__ = ["Asked", "commit_between", "is_between"]

#: A statement of ours, and its parameters: text in place of lists (see `arrays.written`), no NUL, and no bytes.
Asked = tuple[bytes, Mapping[str, Any]]

_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\)s|%)")
_NUMBERS = itertools.count(1)
#: The names by which connections know statements.
_PREPARED: WeakKeyDictionary[psycopg.Connection, dict[bytes, bytes]] = WeakKeyDictionary()


def is_between(connection: psycopg.Connection) -> bool:
    """Whether `commit_between` can be asked: a transaction has begun, and the driver sends nothing else meanwhile."""
    pgconn = connection.pgconn
    return pgconn.transaction_status == TransactionStatus.INTRANS and pgconn.pipeline_status == PipelineStatus.OFF


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
    encoding = connection.info.encoding
    done, done_values = _as_sent(last, encoding)
    text, values = _as_sent(first, encoding)
    known = _PREPARED.setdefault(connection, {})
    name = known.get(text) or b"seriatim_%d" % next(_NUMBERS)
    with connection.lock:
        pgconn = connection.pgconn
        pgconn.enter_pipeline_mode()
        try:
            pgconn.send_query_params(done, done_values)
            pgconn.send_query_params(b"COMMIT AND CHAIN", None)
            if text not in known:
                pgconn.send_prepare(name, text)
            pgconn.send_query_prepared(name, values, result_format=Format.BINARY)
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
        reader = Transformer(connection)  # each time: the application may have set another encoding
        reader.set_pgresult(results[-1])
        return reader.load_rows(0, results[-1].ntuples, tuple)
    if failed is None:
        raise psycopg.OperationalError("the connection is lost")
    error = errors.error_from_result(failed, encoding)
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


def _as_sent(asked: Asked, encoding: str) -> tuple[bytes, list[bytes | None]]:
    """A statement with numbers for the names of its parameters, and their values in that order."""
    text, names = _numbered(asked[0])
    values = [asked[1][name] for name in names]
    return text, [None if value is None else str(value).encode(encoding) for value in values]


@cache
def _numbered(text: bytes) -> tuple[bytes, tuple[str, ...]]:
    names = tuple(dict.fromkeys(filter(None, _PLACEHOLDER.findall(text))))
    numbered = _PLACEHOLDER.sub(lambda found: b"$%d" % (names.index(found[1]) + 1) if found[1] else b"%", text)
    return numbered, tuple(name.decode() for name in names)
