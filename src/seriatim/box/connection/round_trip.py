"""Send whole transactions in one round trip: a single statement, or a commit and the next transaction's begin."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeGuard

import psycopg
from psycopg import abc, errors, sql
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from seriatim.box.connection.exchange import Asked, Sent, as_sent, exchange, execute_alone, row_class, rows_of, value_of
from seriatim.box.connection.in_hand import DeliveryState, Event, InHand, way_back
from seriatim.box.connection.misuse import Misuse, check_process
from seriatim.box.connection.observed_connection import ObservedConnection
from seriatim.box.connection.settings import (
    begins_as_set,
    is_set,
    set_anew,
    set_for_transactions,
    set_turn_limit,
    settings_of,
)
from seriatim.box.connection.statement_effects import Effect

#: After this statement everything that was committed before is on disk: the function appends a record and flushes the log.
_FLUSH = b"SELECT pg_catalog.pg_logical_emit_message(FALSE, 'seriatim', '', TRUE)"
_MAY_FLUSH = (
    b"SELECT coalesce(has_function_privilege("
    b"to_regprocedure('pg_catalog.pg_logical_emit_message(boolean,text,text,boolean)'), 'EXECUTE'), FALSE)"
)

#: PostgreSQL's booleans; no other requested type is a byte long.
_BOOLEANS = {b"\0": False, b"\1": True}
_BEGIN, _COMMIT, _FLUSHED = (
    Sent(text, [], ()) for text in (b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", b"COMMIT", _FLUSH)
)
_CHAIN = Sent(b"COMMIT AND CHAIN", [], (), kept=False)
#: Without names, which may be forgotten: when that is noticed, it isn't known what was executed.
_BEGIN_FIRST, _COMMIT_LAST = _BEGIN._replace(kept=False), _COMMIT._replace(kept=False)


class NotCommitted(Exception):
    """The transaction that should have been committed has failed, at its last statement or its commit, for the given cause."""

    def __init__(self, cause: psycopg.Error) -> None:
        self.cause = cause


class OwnConnection(ObservedConnection):
    """A connection that a box has made, with its state. It refuses to commit while a delivery is open: the group would go on as if the
    messages had been handed out. From `begin_anew` to `given_back` a session uses it, and an application may execute SQL on it. Then it
    refuses everything that would end the transaction, or roll it back to a savepoint, unseen: such statements as text, and ``autocommit``.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: The result of `can_flush`; None before the first call.
        self.may_flush: bool | None = None
        #: The beginning of the search for messages published through SQL, and until when it is valid: see
        #: `publishing/sql_arrivals.py`.
        self.settled: tuple[Any, float] | None = None
        self.reads_only = False
        #: Whether nothing further is sent, because another thread has cancelled the call, until it is rolled back; see
        #: `interruption.py`.
        self.is_interrupted = False
        #: Held during the request to cancel.
        self.interrupting: AbstractContextManager[Any] = nullcontext()
        #: The last delivery that was received in its transaction; None if there is none.
        self.in_hand: InHand | None = None
        #: The number of refused statements, which would have ended the transaction or rolled it back to a savepoint.
        self.refused = 0
        #: PostgreSQL closes the connection when it idles inside a transaction for this long; None: never.
        self.turn_limit_ms: int | None = None
        #: The role as which each of its transactions runs; None: the role that has connected.
        self.role: str | None = None
        #: The largest bodies that its transactions read with messages that are handed out, bytes; None: any.
        self.largest_body: int | None = None
        self._process = os.getpid()
        self._committed: InHand | None = None
        #: The number of nested open transaction blocks.
        self.blocks = 0

    def be_pooled(self) -> None:
        self.is_pooled = True
        self.prepare_threshold = None

    @property
    def begins_with_settings(self) -> bool:
        """Whether each transaction makes settings of its own first: behind a pooler, as another role, or without large bodies."""
        return self.is_pooled or self.role is not None or self.largest_body is not None

    @property
    def server_pid(self) -> int:
        """The number of the server process that runs its transaction."""
        if not self.is_pooled:
            return self.info.backend_pid
        with self.cursor(row_factory=tuple_row) as cursor:
            return int(cursor.execute("SELECT pg_backend_pid()").fetchall()[0][0])

    def begin_anew(self, limit_ms: int | None = None, role: str | None = None) -> None:
        """Reset all settings of the previous user."""
        self.role, self.largest_body = role, None
        self.in_hand = self._committed = None
        self.take_back()
        if self.autocommit:
            self.autocommit = False
        set_for_transactions(self, reads_only=self.reads_only)
        has_limit, self.turn_limit_ms = self.turn_limit_ms, limit_ms
        if self.is_pooled:  # each transaction makes its own settings when it begins
            self.is_changed = False
        elif self.is_changed or not is_set(self):
            set_anew(self, limit_ms)
            self.is_changed = False
        elif limit_ms != has_limit:
            set_turn_limit(self, limit_ms)
        self.is_lent = True

    def _start_query(self) -> abc.PQGen[None]:
        begins = is_idle(self) and not self.autocommit
        yield from super()._start_query()
        if begins and self.is_pooled:
            yield from self._exec_command(
                settings_of(self.turn_limit_ms, self.info.server_version, local=True).as_bytes(self)
            )
        if begins and (self.role is not None or self.largest_body is not None):
            values = {"role": self.role, "seriatim.largest_body": self.largest_body}
            own = [(name, str(value)) for name, value in values.items() if value is not None]
            each = sql.SQL(", ").join(sql.SQL("set_config({}, {}, TRUE)").format(*one) for one in own)
            yield from self._exec_command(sql.SQL("SELECT {}").format(each).as_bytes(self))

    def given_back(self) -> None:
        self.is_lent = False
        self.used_at = time.monotonic()

    def wait(self, gen: abc.PQGen[Any], *args: Any, **options: Any) -> Any:
        """Like the driver's method; every statement passes here."""
        check_process(self._process)
        if self.is_interrupted and not self._is_answered:
            raise errors.QueryCanceled("the call was cancelled")
        self.standing = frozenset()
        answer = super().wait(gen, *args, **options)
        if self.in_hand is not None and self.in_hand.is_open and is_idle(self):
            # A cursor that was made by hand, and not by the connection, has ended the transaction.
            self.in_hand.happens(Event.ENDED)
        return answer

    def _tidy_up(self) -> None:
        """Allow the statements that end a cancelled call, after the request to cancel the one under way."""
        if self.is_interrupted:
            with self.interrupting:
                self.is_interrupted = False

    @property
    def _is_answered(self) -> bool:
        """Whether a statement is under way, whose end has to be read: it is cancelled."""
        return self.pgconn.transaction_status == TransactionStatus.ACTIVE

    def see(self, query: Any) -> Effect:
        if not (effect := super().see(query)):
            return effect
        has_received = self.in_hand is not None and self.in_hand is not self._committed
        if (has_received and effect & (Effect.ENDS | Effect.GOES_BACK)) or (self.blocks and Effect.ENDS in effect):
            self.refused += 1
            raise Misuse(
                f"a session can't be ended, or taken back, by a statement: {' '.join(self._text(query).split()):.80}",
                remedy="use tx.connection.transaction() for a part that may fail, and commit() or rollback() of tx.connection",
            )
        return effect

    @property
    def autocommit(self) -> bool:
        """Whether each statement commits; never in a session."""
        return super().autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.set_autocommit(value)

    def set_autocommit(self, value: bool) -> None:
        if self.is_lent and value:
            raise Misuse(
                "a session is one transaction: its connection can't commit each statement by itself",
                remedy="leave autocommit off, or connect with psycopg.connect(box.dsn, autocommit=True)",
            )
        super().set_autocommit(value)

    def tpc_begin(self, xid: Any) -> None:
        raise Misuse(
            "a session's transaction can't be one of two phases",
            remedy="join one of your own: box.session(connection=…)",
        )

    def commit(self) -> None:
        check_process(self._process)
        if not self.blocks:  # outside a block the driver refuses it
            self._check_ended()
        super().commit()
        self._committed = self.in_hand

    def rollback(self) -> None:
        """Roll back, like the driver's method; deliveries of the transaction are lost. Statements that end a cancelled call may follow."""
        self._tidy_up()
        super().rollback()
        self._go_back_to(None)

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """Begin a transaction or a savepoint, like the driver's method; a rollback loses the deliveries that were received in it."""
        is_whole, before = is_idle(self), self.in_hand
        go_back = None if before is None else way_back(before)
        with super().transaction(savepoint_name, force_rollback) as block:
            self.blocks += 1
            try:
                yield block
                if is_whole and not force_rollback:
                    self._check_ended()
            except BaseException:
                self._go_back_to(before, go_back)
                self._tidy_up()  # or the rollback couldn't be sent
                raise
            finally:
                self.blocks -= 1
        if force_rollback:
            self._go_back_to(before, go_back)

    def _check_ended(self) -> None:
        if self.in_hand is not None and self.in_hand.is_open:
            raise Misuse(
                "cannot commit: a delivery of this transaction is neither done nor put back",
                remedy="call delivery.done() or delivery.put_back() before the commit, or let the session end",
            )
        if self.in_hand is not None and self.in_hand.state is DeliveryState.DONE:
            self.in_hand.store()

    def _go_back_to(self, before: InHand | None, go_back: Callable[[], None] | None = None) -> None:
        """After a rollback to a savepoint, mark later deliveries as lost, and take the earlier delivery in hand again."""
        if self.in_hand is not None and self.in_hand not in (before, self._committed):
            self.in_hand.happens(Event.ROLLED_BACK)
        if go_back is not None:
            go_back()
        self.in_hand = before


def has_pooler(connection: psycopg.Connection) -> bool:
    """Return whether a connection pooler stands in between: then the server process that it names isn't the one that answers."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        ((pid,),) = cursor.execute("SELECT pg_backend_pid()").fetchall()
    return bool(pid != connection.info.backend_pid)


def is_idle(connection: psycopg.Connection) -> bool:
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def is_in_transaction(connection: psycopg.Connection) -> bool:
    """Whether a transaction has begun, and accepts statements."""
    return connection.pgconn.transaction_status == TransactionStatus.INTRANS


def is_between(connection: psycopg.Connection) -> TypeGuard[OwnConnection]:
    """Whether `commit_between` can be called: a transaction has begun that needs no settings first, outside of the driver's blocks, and the
    driver sends nothing.
    """
    pgconn = connection.pgconn
    return (
        isinstance(connection, OwnConnection)
        and not (connection.begins_with_settings or connection.blocks)
        and pgconn.transaction_status == TransactionStatus.INTRANS
        and pgconn.pipeline_status == PipelineStatus.OFF
    )


def is_unbegun(connection: psycopg.Connection) -> TypeGuard[OwnConnection]:
    """Whether `begin_with` can be called: no transaction has begun, it begins as usual, and the driver sends nothing."""
    pgconn = connection.pgconn
    return (
        isinstance(connection, OwnConnection)
        and not (connection.begins_with_settings or connection.autocommit)
        and pgconn.transaction_status == TransactionStatus.IDLE
        and pgconn.pipeline_status == PipelineStatus.OFF
        and begins_as_set(connection)
    )


def can_flush(connection: OwnConnection) -> bool:
    """Whether `transact` can wait until a commit is on disk: since PostgreSQL 17, if the role may."""
    if connection.may_flush is None:
        connection.may_flush = bool(transact(connection, (_MAY_FLUSH, {})))
    return connection.may_flush


def transact(connection: OwnConnection, request: Asked, *, flush: bool = False) -> Any:
    """Execute one statement that is a transaction by itself."""
    sent = [as_sent(connection.adapter(), request)]
    if flush:  # after the commit another transaction begins, and all is answered at once
        sent = [_BEGIN, *sent, _COMMIT, _FLUSHED]
    answer = execute_alone(connection, sent)
    value = answer.get_value(0, 0)
    return _BOOLEANS[value] if value in _BOOLEANS else value_of(connection, answer)


def rows_alone(connection: OwnConnection, request: Asked) -> list[tuple[Any, ...]]:
    """The rows of one statement that is a transaction by itself."""
    sent = as_sent(connection.adapter(), request)
    return rows_of(connection, execute_alone(connection, [sent]), sent.text)


def commit_between(connection: OwnConnection, last: Asked, first: Asked) -> list[tuple[Any, ...]]:
    """Execute the last statement of a transaction, commit, and execute the first statement of the next transaction. Raises `NotCommitted`
    for an error of the former transaction, and the driver's error for one of the next.
    """
    then = as_sent(connection.adapter(), first)
    results, failed = exchange(connection, [_last(connection, last), _CHAIN, then])
    if failed is not None and failed is not results[-1]:
        raise NotCommitted(errors.error_from_result(failed, connection.info.encoding))
    return _rows_of_first(connection, first, then, results, failed)


def _last(connection: OwnConnection, request: Asked) -> Sent:
    """Return the last statement of a transaction that has done something: it can't be repeated under another name, so it has one only if
    the server surely has that. Between exchanges it gets a new one.
    """
    sent = as_sent(connection.adapter(), request)
    if sent.text in connection.standing or sent.text not in connection.names:
        return sent
    if not (connection.standing and psycopg.capabilities.has_send_close_prepared()):
        return sent._replace(kept=False)
    connection.closing.append(connection.names.pop(sent.text))
    return sent


def _rows_of_first(
    connection: OwnConnection, first: Asked, then: Sent, results: list[PGresult], failed: PGresult | None
) -> list[tuple[Any, ...]]:
    """Return the rows of the first statement of a transaction, which was sent as `then` after the earlier ones."""
    if failed is None:
        return rows_of(connection, results[-1], then.text)
    error = errors.error_from_result(failed, connection.info.encoding)
    if failed is not results[-1]:
        raise error
    # The commit succeeded. The name is dropped, because its plan may be the one that failed.
    connection.forget(then.text)
    if not isinstance(error, errors.InvalidSqlStatementName):
        raise error
    # The driver has the server forget all names when anything is rolled back.
    connection.forget()
    connection.rollback()
    with connection.cursor(row_factory=tuple_row, binary=True) as cursor:
        rows = cursor.execute(*first).fetchall()
        names = tuple(column.name.encode() for column in cursor.description or ())
    return list(map(row_class(names)._make, rows))


def begin_with(connection: OwnConnection, first: Asked) -> list[tuple[Any, ...]]:
    then = as_sent(connection.adapter(), first)
    return _rows_of_first(connection, first, then, *exchange(connection, [_BEGIN_FIRST, then]))


def commit_alone(connection: OwnConnection, command: bytes) -> None:
    """Execute a command as a transaction, and begin the next one, in one round trip."""
    _, failed = exchange(connection, [_BEGIN_FIRST, _command(command), _CHAIN])
    if failed is not None:
        raise errors.error_from_result(failed, connection.info.encoding)


def commit_with(connection: OwnConnection, request: Asked, *, ahead: bytes | None = None, chain: bool = False) -> Any:
    """Execute the last statement of a transaction, and commit, in one round trip; without a transaction it is one by itself."""
    while True:
        sent = [] if ahead is None else [_command(ahead)]
        sent += [as_sent(connection.adapter(), request), _CHAIN if chain else _COMMIT_LAST]
        results, failed = exchange(connection, [_BEGIN_FIRST, *sent] if is_idle(connection) else sent)
        if failed is None:
            return value_of(connection, next(result for result in results if result.status == ExecStatus.TUPLES_OK))
        error = errors.error_from_result(failed, connection.info.encoding)
        if not isinstance(error, errors.InvalidSqlStatementName):
            raise error
        connection.forget()
        connection.rollback()


def commit_last(connection: OwnConnection, last: Asked) -> Any:
    """Execute the last statement of a transaction that has done something, and commit, in one round trip; never begins anew."""
    results, failed = exchange(connection, [_last(connection, last), _COMMIT_LAST])
    if failed is not None:
        raise errors.error_from_result(failed, connection.info.encoding)
    return value_of(connection, next(result for result in results if result.status == ExecStatus.TUPLES_OK))


def _command(text: bytes) -> Sent:
    return Sent(text, [], (), kept=False)
