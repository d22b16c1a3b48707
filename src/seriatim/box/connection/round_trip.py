"""Send whole transactions in one round trip: a single statement, or a commit and the next transaction's begin.

This uses libpq through `psycopg.pq`, because the driver's cursors send each statement of a pipeline separately, and
need another connection mode for a statement outside a transaction.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeGuard

import psycopg
from psycopg import abc, errors
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import tuple_row
from psycopg.sql import Composable
from psycopg.waiting import Ready, Wait

from seriatim.box.connection.forks import check_process
from seriatim.box.connection.in_hand import Event, InHand
from seriatim.box.connection.observed_cursor import seen
from seriatim.box.connection.settings import is_set, set_anew, set_for_transactions, set_turn_limit, settings_of
from seriatim.box.connection.statement_effects import Effect, effect_of
from seriatim.errors import UsageError

__all__ = [
    "Asked",
    "OwnConnection",
    "can_flush",
    "commit_between",
    "has_pooler",
    "is_between",
    "is_idle",
    "is_in_transaction",
    "transact",
]

#: A statement of ours, and its parameters: bytes or lists of bytes where it says ``%(name)b``; where it says
#: ``%(name)s`` what PostgreSQL reads as Python writes it: no NUL, and text in place of lists (see `arrays.written`).
Asked = tuple[bytes, Mapping[str, Any]]

_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\)([sb])|%)")
_FORMATS = {b"s": Format.TEXT, b"b": Format.BINARY}
#: Part of the names of statements: through a pooler, another process may have had the same connection.
_PROCESS = secrets.token_hex(4).encode()
_NUMBERS = itertools.count(1)
#: After this statement everything that was committed before it is on disk: the function appends a record and flushes the log.
_FLUSH = b"SELECT pg_catalog.pg_logical_emit_message(FALSE, 'seriatim', '', TRUE)"
_MAY_FLUSH = (
    b"SELECT coalesce(has_function_privilege("
    b"to_regprocedure('pg_catalog.pg_logical_emit_message(boolean,text,text,boolean)'), 'EXECUTE'), FALSE)"
)


class _Sent(NamedTuple):
    """A statement for libpq: its text, its parameters and their formats; whether it is a prepared statement."""

    text: bytes
    values: list[abc.Buffer | None]
    formats: tuple[Format, ...]
    kept: bool = True


#: As PostgreSQL sends them; nothing else that is a byte long is asked for.
_BOOLEANS = {b"\0": False, b"\1": True}
_BEGIN, _COMMIT, _FLUSHED = (
    _Sent(text, [], ()) for text in (b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", b"COMMIT", _FLUSH)
)
_CHAIN = _Sent(b"COMMIT AND CHAIN", [], (), kept=False)


class OwnConnection(psycopg.Connection[Any]):
    """A connection that a box has made, with its state.

    It refuses to commit while a delivery is open: the group would go on as if the messages had been handed out.
    From `begin_anew` to `given_back` a session uses it, and an application may execute SQL on it. Then it refuses
    everything that would end the transaction, or roll it back to a savepoint, unseen: such statements as text, and
    ``autocommit``.

    Attributes:
        in_hand: the last delivery that was received in its transaction; None if there is none.
        refused: the number of refused statements, which would have ended the transaction or rolled it back to a savepoint.
        turn_limit_ms: PostgreSQL closes the connection when it idles inside a transaction for this long; None: never.
        names: the names of its prepared statements.
        row_makers: by the text of a statement that has a name, what makes rows with named columns. Its columns don't
            change while it has the name, and to ask for some twenty names takes longer than to read a row.
        may_flush: the result of `can_flush`; None before the first call.
        settled: from where to search for messages published through SQL, and until when to use that: see `publishing/unrouted_range.py`.
        reads_only: whether its transactions change nothing.
        is_pooled: whether each transaction may use another connection to the server, or another server: then neither side
            may rely on state from earlier transactions.
        is_interrupted: whether nothing further is sent, because another thread has cancelled the call; see `interruption.py`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.names: dict[bytes, bytes] = {}
        self.row_makers: dict[bytes, Callable[[Iterable[Any]], Any]] = {}
        self.may_flush: bool | None = None
        self.settled: tuple[Any, float] | None = None
        self.is_pooled = False
        self.reads_only = False
        self.is_interrupted = False
        self.in_hand: InHand | None = None
        self.refused = 0
        self.turn_limit_ms: int | None = None
        self._process = os.getpid()
        #: Whether a session has it.
        self._is_lent = False
        #: Whether something was set on it that outlasts a transaction.
        self._is_changed = False
        self._committed: InHand | None = None
        self._blocks = 0
        self._adapted_to: tuple[bytes | None, bytes | None] | None = None
        self._adapter: abc.Transformer = Transformer(self)

    @property
    def blocks(self) -> int:
        """The number of nested open transaction blocks."""
        return self._blocks

    def adapter(self) -> abc.Transformer:
        """The converter of rows and parameters, by the application's settings of the connection."""
        told = self.pgconn.parameter_status
        # What values depend on; the server tells of each change.
        if (settings := (told(b"client_encoding"), told(b"TimeZone"))) != self._adapted_to:
            self._adapter, self._adapted_to = Transformer(self), settings
        return self._adapter

    def forget(self, text: bytes | None = None) -> None:
        """Forget the name of a statement, or all names, and the columns that the statements had."""
        for known in (self.names, self.row_makers):
            if text is None:
                known.clear()
            else:
                known.pop(text, None)

    def be_pooled(self) -> None:
        """Note that a connection pooler stands in between: see `is_pooled`."""
        self.is_pooled = True
        self.prepare_threshold = None

    @property
    def server_pid(self) -> int:
        """The number of the server process that runs its transaction."""
        if not self.is_pooled:
            return self.info.backend_pid
        with self.cursor(row_factory=tuple_row) as cursor:
            return int(cursor.execute("SELECT pg_backend_pid()").fetchall()[0][0])

    def begin_anew(self, limit_ms: int | None = None) -> None:
        """Reset all settings of the previous user.

        Args:
            limit_ms: PostgreSQL closes the connection when it idles inside a transaction for this long; None: never.

        Raises:
            psycopg.Error: the connection is lost.
        """
        self.in_hand = self._committed = None
        self._is_lent = False
        if self.autocommit:
            self.autocommit = False
        set_for_transactions(self, reads_only=self.reads_only)
        self.row_factory = tuple_row
        self.cursor_factory = psycopg.Cursor
        self.server_cursor_factory = psycopg.ServerCursor
        has_limit, self.turn_limit_ms = self.turn_limit_ms, limit_ms
        if self.is_pooled:  # each transaction says what it needs when it begins
            self._is_changed = False
        elif self._is_changed or not is_set(self):
            set_anew(self, limit_ms)
            self._is_changed = False
        elif limit_ms != has_limit:
            set_turn_limit(self, limit_ms)
        self._is_lent = True

    def _start_query(self) -> abc.PQGen[None]:
        begins = is_idle(self) and not self.autocommit
        yield from super()._start_query()
        if begins and self.is_pooled:
            yield from self._exec_command(settings_of(self.turn_limit_ms, local=True).as_bytes(self))

    def given_back(self) -> None:
        """Note that no session uses the connection any more."""
        self._is_lent = False

    def cursor(self, *args: Any, **options: Any) -> Any:
        """A cursor of the connection's class; the connection sees its statements first."""
        cursor = super().cursor(*args, **options)
        cursor.__class__ = seen(type(cursor))
        return cursor

    def wait(self, gen: abc.PQGen[Any], *args: Any, **options: Any) -> Any:
        """Like the driver's method; every statement passes here.

        Raises:
            UsageError: this process was forked from the one that has made the connection.
            psycopg.errors.QueryCanceled: another thread has cancelled the call.
        """
        check_process(self._process)
        if self.is_interrupted:
            raise errors.QueryCanceled("the call was cancelled")
        answer = super().wait(gen, *args, **options)
        if self.in_hand is not None and self.in_hand.is_open and is_idle(self):
            # A cursor that was made by hand, and not by the connection, has ended the transaction.
            self.in_hand.happens(Event.ENDED)
        return answer

    def see(self, query: Any) -> None:
        """Inspect a statement before it is sent.

        Raises:
            UsageError: it would end a transaction with a delivery, or roll it back to a savepoint.
        """
        if not (effect := effect_of(self._text(query))):
            return
        if Effect.SETS in effect:
            self._is_changed = True
        has_received = self.in_hand is not None and self.in_hand is not self._committed
        if (has_received and effect & (Effect.ENDS | Effect.GOES_BACK)) or (self._blocks and Effect.ENDS in effect):
            self.refused += 1
            raise UsageError(
                f"a session can't be ended, or taken back, by a statement: {' '.join(self._text(query).split()):.80}",
                remedy="use tx.connection.transaction() for a part that may fail, and commit() or rollback() of tx.connection",
            )

    def _text(self, query: Any) -> str:
        """A statement of any type as text."""
        if isinstance(query, str):
            return query
        if isinstance(query, bytes):
            return _decoded(query)
        if isinstance(query, Composable):
            return query.as_string(self)
        return " ? ".join(getattr(query, "strings", ()))  # a template, whose values are sent apart

    @property
    def autocommit(self) -> bool:
        """Whether each statement commits; never in a session."""
        return super().autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.set_autocommit(value)

    def set_autocommit(self, value: bool) -> None:
        """Like the driver's method.

        Raises:
            UsageError: a session uses the connection.
        """
        if self._is_lent and value:
            raise UsageError(
                "a session is one transaction: its connection can't commit each statement by itself",
                remedy="leave autocommit off, or connect with psycopg.connect(box.dsn, autocommit=True)",
            )
        super().set_autocommit(value)

    def tpc_begin(self, xid: Any) -> None:
        """Refuse: the box has no two-phase transactions.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "a session's transaction can't be one of two phases",
            remedy="join one of your own: box.session(connection=…)",
        )

    def commit(self) -> None:
        """Commit, like the driver's method.

        Raises:
            UsageError: the transaction has an open delivery.
        """
        check_process(self._process)
        if not self._blocks:  # there the driver refuses it
            self._check_ended()
        super().commit()
        self._committed = self.in_hand

    def rollback(self) -> None:
        """Roll back, like the driver's method; deliveries of the transaction are lost."""
        super().rollback()
        self._go_back_to(None)

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Begin a transaction or a savepoint, like the driver's method; a rollback loses the deliveries that were received in it.

        Raises:
            UsageError: it would commit, and has an open delivery.
        """
        is_whole, before = is_idle(self), self.in_hand
        was_open = before is not None and before.is_open
        with super().transaction(savepoint_name, force_rollback) as block:
            self._blocks += 1
            try:
                yield block
                if is_whole and not force_rollback:
                    self._check_ended()
            except BaseException:
                self._go_back_to(before, was_open=was_open)
                raise
            finally:
                self._blocks -= 1
        if force_rollback:
            self._go_back_to(before, was_open=was_open)

    def _check_ended(self) -> None:
        if self.in_hand is not None and self.in_hand.is_open:
            raise UsageError(
                "cannot commit: a delivery of this transaction is neither done nor put back",
                remedy="call delivery.done() or delivery.put_back() before the commit, or let the session end",
            )

    def _go_back_to(self, before: InHand | None, *, was_open: bool = False) -> None:
        """After a rollback to a savepoint: later deliveries are lost, and the earlier delivery is in hand again."""
        if self.in_hand is not None and self.in_hand not in (before, self._committed):
            self.in_hand.happens(Event.ROLLED_BACK)
        if before is not None and was_open and not before.is_open:
            before.happens(Event.END_ROLLED_BACK)
        self.in_hand = before


@cache
def _decoded(query: bytes) -> str:
    """A statement of bytes as text; only the box has such, and few."""
    return query.decode("utf-8", "replace")


def has_pooler(connection: psycopg.Connection) -> bool:
    """Whether a connection pooler stands in between: then the server process that it names isn't the one that answers."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        ((pid,),) = cursor.execute("SELECT pg_backend_pid()").fetchall()
    return bool(pid != connection.info.backend_pid)


def is_idle(connection: psycopg.Connection) -> bool:
    """Whether no transaction has begun."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def is_in_transaction(connection: psycopg.Connection) -> bool:
    """Whether a transaction has begun, and accepts statements."""
    return connection.pgconn.transaction_status == TransactionStatus.INTRANS


def is_between(connection: psycopg.Connection) -> TypeGuard[OwnConnection]:
    """Whether `commit_between` can be called: a transaction has begun, and the driver sends nothing else meanwhile.

    False if each transaction has to make its own settings first.
    """
    pgconn = connection.pgconn
    return (
        isinstance(connection, OwnConnection)
        and not connection.is_pooled
        and pgconn.transaction_status == TransactionStatus.INTRANS
        and pgconn.pipeline_status == PipelineStatus.OFF
    )


def can_flush(connection: OwnConnection) -> bool:
    """Whether `transact` can wait until a commit is on disk: since PostgreSQL 17, if the role may."""
    if connection.may_flush is None:
        connection.may_flush = bool(transact(connection, (_MAY_FLUSH, {})))
    return connection.may_flush


def transact(connection: OwnConnection, asked: Asked, *, flush: bool = False) -> Any:
    """Execute one statement that is a transaction by itself.

    Args:
        connection: a connection without an open transaction; it needn't be in autocommit mode.
        asked: the statement; it may be executed twice, and returns one value.
        flush: the statement commits without waiting for the disk, and the wait follows. So transactions that wait for
            its locks don't wait for the disk, and simultaneous commits are written together.

    Returns:
        the value.

    Raises:
        psycopg.Error: the error. If the connection broke, the statement may be executed or not.
    """
    sent = [_as_sent(connection.adapter(), asked)]
    if flush:  # what comes after the commit is another transaction, and all is answered at once
        sent = [_BEGIN, *sent, _COMMIT, _FLUSHED]
    while True:
        results, failed = _exchange(connection, sent)
        if failed is None:
            answer = next(one for one in results if one.status == ExecStatus.TUPLES_OK)
            value = answer.get_value(0, 0)
            return _BOOLEANS[value] if value in _BOOLEANS else _value(connection, answer)
        error = errors.error_from_result(failed, connection.info.encoding)
        if connection.pgconn.transaction_status == TransactionStatus.INERROR:
            connection.rollback()
        if not isinstance(error, errors.InvalidSqlStatementName):
            raise error
        # The driver has the server forget all names when anything is rolled back.
        connection.forget()


def commit_between(connection: OwnConnection, last: Asked, first: Asked) -> list[tuple[Any, ...]]:
    """Execute the last statement of a transaction, commit, and execute the first statement of the next transaction.

    Args:
        connection: a connection for which `is_between` is true.
        last: the last statement; its rows are ignored.
        first: the first statement of the next transaction; it may be executed twice.

    Returns:
        the rows of `first`.

    Raises:
        psycopg.Error: the first error; later steps are not executed.
    """
    adapter = connection.adapter()
    then = _as_sent(adapter, first)
    results, failed = _exchange(connection, [_as_sent(adapter, last, kept=False), _CHAIN, then])
    if failed is None:
        return _rows(connection, results[-1], then.text)
    error = errors.error_from_result(failed, connection.info.encoding)
    if failed is not results[-1]:
        raise error
    # What was to be committed is. The name goes, for its plan may be what failed.
    connection.forget(then.text)
    if not isinstance(error, errors.InvalidSqlStatementName):
        raise error
    # The driver has the server forget all names when anything is rolled back.
    connection.forget()
    connection.rollback()
    with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
        found = cursor.execute(*first).fetchall()
        names = tuple(column.name.encode() for column in cursor.description or ())
    return list(map(_row_class(names)._make, found))


def _exchange(connection: OwnConnection, sent: Iterable[_Sent]) -> tuple[list[PGresult], PGresult | None]:
    """Execute statements one after another until one fails; returns the results, also of preparing statements, and the error."""
    known = connection.names
    fresh: dict[bytes, bytes] = {}
    with connection.lock:
        pgconn = connection.pgconn
        pgconn.enter_pipeline_mode()
        try:
            for one in sent:
                if not one.kept or connection.is_pooled:
                    pgconn.send_query_params(
                        one.text, one.values, param_formats=one.formats, result_format=Format.BINARY
                    )
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
    failed = _failed(results)
    if failed is None:
        if pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError("the connection is lost")
        known |= fresh
    return results, failed


def _failed(results: Iterable[PGresult]) -> PGresult | None:
    """The first error."""
    return next((one for one in results if one.status == ExecStatus.FATAL_ERROR), None)


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
                continue  # it stands between the results of one statement and those of the next
            if result.status == ExecStatus.PIPELINE_SYNC:
                break
            results.append(result)
    except psycopg.OperationalError:
        # Where the server has said why it ends the connection, that is the error.
        if _failed(results) is None:
            raise
    return results


def _rows(connection: OwnConnection, result: PGresult, text: bytes) -> list[tuple[Any, ...]]:
    """The rows of a result, with named columns; the statement that gave it."""
    make = connection.row_makers.get(text)
    if make is None:
        make = _row_class(tuple(map(result.fname, range(result.nfields))))._make
        if text in connection.names:
            connection.row_makers[text] = make
    return _loaded(connection, result, make)


def _value(connection: OwnConnection, result: PGresult) -> Any:
    return _loaded(connection, result, tuple)[0][0]


def _loaded(connection: OwnConnection, result: PGresult, make: Callable[[Iterable[Any]], Any]) -> list[Any]:
    reader = connection.adapter()  # now: what was set for the first transaction only is not for the second
    reader.set_pgresult(result)
    rows = reader.load_rows(0, result.ntuples, make)
    reader.set_pgresult(None)  # bodies may be large
    return rows


@cache
def _row_class(names: tuple[bytes | None, ...]) -> Any:
    """The class of named tuples for a result with these columns."""
    columns = [(name or b"").decode() for name in names]
    return namedtuple("Row", columns, rename=True)  # noqa: PYI024 -- the columns are known when they come


def _as_sent(adapter: abc.Transformer, asked: Asked, *, kept: bool = True) -> _Sent:
    """A statement with numbers for the names of its parameters, and their values in that order."""
    (text, names, formats), given, encoding = _numbered(asked[0]), asked[1], adapter.encoding
    values = [  # by their types, the frequent ones first: there are some twenty of them with each message
        value
        if (value := given[name]) is None or (kind := type(value)) is bytes
        else value.encode(encoding)
        if kind is str
        else b"%d" % value
        if kind is int
        else adapter.dump_sequence([value], [PyFormat.BINARY])[0]
        if kind is list
        else str(value).encode(encoding)
        for name in names
    ]
    return _Sent(text, values, formats, kept)


@cache
def _numbered(text: bytes) -> tuple[bytes, tuple[str, ...], tuple[Format, ...]]:
    """A statement with numbers for the names of its parameters, these names, and how their values are written."""
    formats = {name: _FORMATS[letter] for name, letter in _PLACEHOLDER.findall(text) if name}
    places = {name: b"$%d" % place for place, name in enumerate(formats, 1)}
    numbered = _PLACEHOLDER.sub(lambda found: places[found[1]] if found[1] else b"%", text)
    return numbered, tuple(name.decode() for name in formats), tuple(formats.values())
