"""Call a handler with the messages of a turn, one after another; a failure rolls back only that message's writes.

A savepoint is set when a handler first uses the connection, and released together with the next savepoint. So a handler
that writes nothing costs no round trip, and any other handler costs one. If the savepoint is gone by then, the previous
handler has ended the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.connection.misuse import Misuse
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.postgres.statements import Statements
from seriatim.box.session import Session
from seriatim.errors import EnvironmentProblem, SeriatimError, Unavailable, UsageError
from seriatim.pipeline.text.storable import checked_text

#: Errors that end a connection, and the setting of PostgreSQL that causes each.
_SETTINGS: Mapping[type[psycopg.Error], str] = {
    errors.IdleInTransactionSessionTimeout: "idle_in_transaction_session_timeout",
    errors.TransactionTimeout: "transaction_timeout",
    errors.IdleSessionTimeout: "idle_session_timeout",
}
#: The beginnings of SQLSTATEs after which a retry may succeed: connections, rollbacks, resources, locks, administrators, time limits.
_AGAIN = ("08", "25P", "40", "53", "55", "57", "58", "72")

_STEP = "step"
_SET_ANEW = b"RELEASE SAVEPOINT step; SAVEPOINT step"
_CHECK = b"SET CONSTRAINTS ALL IMMEDIATE"


class TurnEnded(Misuse):
    """A handler ended its transaction, so that nothing can be written in it any more. A retry might commit again."""


class Steps:
    def __init__(
        self, session: Session, run_as: str | None = None, before_use: Callable[[], None] = lambda: None
    ) -> None:
        self._session = session
        #: Called before the handler of a step uses the connection for the first time.
        self._before_use = before_use
        #: The role of the database that handlers have; None: the session's role.
        self._run_as = run_as
        #: The role that the session had when the handler's began; None: the handler has none, or not any more.
        self._own_role: str | None = None
        self._is_handled = False
        self._connection = session.connection
        self._block: AbstractContextManager[psycopg.Transaction] | None = None
        #: How many blocks were open when the step's handler was given the connection.
        self._blocks = 0
        #: How many statements had been refused by then.
        self._refused = 0
        #: Whether the connection was used in the present step, so that there is a savepoint for it.
        self.has_written = False
        #: Whether `before_use`, or work `aside`, has failed: then the transaction may be unusable, and no handler has caused it.
        self._is_spoiled = False
        self._has_ended = False
        self._name: int | None = None
        #: The name of the step whose handler has ended the transaction: the last step that used the connection while the transaction
        #: was open; None: there is none.
        self.suspect: int | None = None

    @property
    def backend_pid(self) -> int:
        """The number of the connection's server process."""
        connection = self._connection
        return connection.server_pid if isinstance(connection, OwnConnection) else connection.info.backend_pid

    @property
    def is_lost(self) -> bool:
        """Whether the connection broke, and wasn't closed on this side."""
        return self._connection.broken

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Use the session in a step without a savepoint; a refused statement makes the transaction unusable."""
        on_use, self._session.on_use = self._session.on_use, None
        try:
            yield
        except BaseException:
            self._is_spoiled = self._status == TransactionStatus.INERROR
            raise
        finally:
            self._session.on_use = on_use

    @contextmanager
    def step(self, name: int | None = None) -> Iterator[None]:
        """Run a handler inside the block. An exception rolls back the handler's writes, and is raised further."""
        self.has_written = self._is_handled = False
        self._own_role, self._name = None, name
        self._refused = _refused(self._connection)
        self._session.on_use = self._begin
        try:
            yield
            self.handled()
        except BaseException as error:
            self._session.on_use = None
            self._check(error)
            if self.has_written:
                self._end(error)
            if self._status == TransactionStatus.INERROR and not self._is_spoiled:
                self.suspect = name
                raise self._ended() from error
            raise
        self._session.on_use = None
        self._check(None)
        if self.has_written and _blocks(self._connection) != self._blocks:
            raise self._ended()

    def handled(self) -> None:
        """The handler has returned: continue the step as the session's role."""
        role, self._own_role, self._is_handled = self._own_role, None, True
        if self._status == TransactionStatus.INERROR and not self._has_ended:
            raise UsageError(
                "an SQL statement failed, and the handler ignored the error",
                remedy="use a savepoint: with tx.connection.transaction(): …",
            )
        if role is not None and self._status == TransactionStatus.INTRANS:
            had = _change_role(Statements(self._connection, self._session.access.schema), role)
            if had != self._run_as:
                raise UsageError(
                    f"the handler took the role {had!r}, and runs as {self._run_as!r}", remedy="leave the role as it is"
                )

    def check(self) -> None:
        """Check deferred constraints now instead of at the commit."""
        if self.has_written:
            self._connection.execute(_CHECK, prepare=False)

    def finish(self) -> None:
        self._end(None)

    def give_up(self, error: BaseException) -> None:
        """Leave the last step because of an error, so that the whole transaction can be rolled back."""
        if not self._connection.closed:
            self._end(error)

    @property
    def _status(self) -> TransactionStatus:
        return self._connection.info.transaction_status

    def _begin(self) -> None:
        """Prepare the connection when the handler asks for it, for the first time in its step or again."""
        if self.has_written:
            return
        self.has_written = True
        self._is_spoiled = True
        self._before_use()
        self._is_spoiled = False
        if self._block is None:
            # While it is open the driver refuses to commit and to roll back.
            block = self._connection.transaction(_STEP)
            block.__enter__()
            self._block = block
        else:
            self._set_anew()
        self.suspect, self._blocks = self._name, _blocks(self._connection)
        if self._run_as is not None and not self._is_handled:
            self._own_role = _change_role(Statements(self._connection, self._session.access.schema), self._run_as)

    def _set_anew(self) -> None:
        """Release the savepoint of the previous handler, and set a new one."""
        try:
            self._connection.execute(_SET_ANEW, prepare=False)
        except psycopg.Error as error:
            if self._connection.broken:
                raise
            raise self._ended() from error

    def _end(self, error: BaseException | None) -> None:
        block, self._block = self._block, None
        if block is not None:
            try:
                block.__exit__(type(error) if error is not None else None, error, None)
            except psycopg.Error as ended:
                if self._connection.broken:
                    raise
                raise self._ended() from ended

    def _check(self, error: BaseException | None) -> None:
        """Check that the transaction is still open."""
        if self._has_ended:  # the handler that did it is found already
            raise self._ended() from error
        if self._connection.broken:
            raise Unavailable("the connection was lost while the handler was at work") from error
        if self._connection.closed:
            self.suspect = self._name
            raise TurnEnded(
                "the handler closed the connection", remedy="leave it open: the worker commits what is done"
            ) from error
        # A handler that ignores the refusal believes its work committed, or rolled back.
        if self._status == TransactionStatus.IDLE or _refused(self._connection) != self._refused:
            self.suspect = self._name
            raise self._ended() from error

    def _ended(self) -> TurnEnded:
        # The driver still believes in the open block: no other user may get this connection.
        self._has_ended = True
        self._connection.close()
        return TurnEnded(
            "the handler ended the transaction", remedy="neither commit nor roll back: the worker commits what is done"
        )


def check_role(box: MessageBox, role: str) -> None:
    checked_text(role, "a role's name")
    with box.session() as session:
        try:
            _change_role(session.transaction, role)
        except (errors.InsufficientPrivilege, errors.InvalidParameterValue, errors.UndefinedObject) as error:
            problem = error.diag.message_primary or "it is refused"
            raise EnvironmentProblem(
                f"the handler can't run as {role!r}: {problem}",
                where=session.access.place,
                remedy="GRANT the role to the one that works on the box, with SET",
            ) from error
        session.connection.rollback()


def _blocks(connection: psycopg.Connection) -> int:
    """The number of the driver's transaction blocks that are open on a connection of ours."""
    return connection.blocks if isinstance(connection, OwnConnection) else 0


def _refused(connection: psycopg.Connection) -> int:
    """Return the number of refused statements on a connection of ours, which would have ended the transaction."""
    return connection.refused if isinstance(connection, OwnConnection) else 0


def _change_role(statements: Statements, role: str) -> str:
    """Take another role until the transaction ends, or is rolled back to an earlier savepoint; return the old role."""
    return str(statements.one("change_role", role=role).role)


def end_backend(transaction: Transaction, pid: int, since_s: float) -> None:
    """End the connection of a turn that takes longer than these seconds, if it still exists."""
    transaction.do("end_backend", pid=pid, since=timedelta(seconds=since_s))


def is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed after an error of the driver."""
    if not isinstance(error, psycopg.Error) or isinstance(error, errors.InFailedSqlTransaction):
        return False
    if error.sqlstate is None:  # the driver's: the connection broke
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(_AGAIN)


def ending_setting(error: BaseException | None) -> str | None:
    """Return the setting of PostgreSQL that ended a connection, by the error of its user; None: it names none."""
    while error is not None:
        if isinstance(error, psycopg.Error) and (setting := _SETTINGS.get(type(error))) is not None:
            return setting
        error = error.__cause__ or error.__context__
    return None


def misuses_driver(error: BaseException) -> bool:
    """Return whether the driver itself refused a call, such as a commit in a session: the server hasn't seen it."""
    return isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None


def refusal(error: SeriatimError) -> Exception | None:
    """Return the database's error behind an error, if a retry would be refused again."""
    problem = error.__cause__
    if not isinstance(problem, psycopg.Error):
        return None
    # An invalid value or a missing right stays so, whatever the driver takes it for.
    return None if isinstance(error, Unavailable) and is_transient(problem) else problem
