"""The PostgreSQL settings that the box relies on, whatever a role, a database or a server has as default.

On its own connections the box sets them. On an application's connection it checks the necessary settings.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg import IsolationLevel, errors, sql
from psycopg.pq import ExecStatus

from seriatim.errors import UsageError

__all__ = [
    "check_encoding",
    "check_values",
    "is_set",
    "set_anew",
    "set_for_transactions",
    "set_on",
    "set_turn_limit",
    "settings_of",
]

#: What values look like as text, and what a transaction is unless it says so itself. `search_path` is not among them: an
#: application finds its own tables by it, and each statement of the box names its schema.
_RELIED_ON: Mapping[str, str] = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "row_security": "on",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}
#: PostgreSQL tells of these by itself, also of each change.
_TOLD: tuple[tuple[bytes, bytes], ...] = (
    (b"client_encoding", b"UTF8"),
    (b"DateStyle", b"ISO"),
    (b"IntervalStyle", b"postgres"),
    (b"standard_conforming_strings", b"on"),
)
_LIMIT = "idle_in_transaction_session_timeout"
_RESET = sql.SQL("RESET SESSION AUTHORIZATION; RESET ALL; ")


def set_for_transactions(connection: psycopg.Connection) -> None:
    """Have each transaction of a connection begin as the box needs it; nothing is sent, and no transaction has begun."""
    if connection.isolation_level is not IsolationLevel.READ_COMMITTED:
        connection.isolation_level = IsolationLevel.READ_COMMITTED
    if connection.read_only is not False:
        connection.read_only = False
    if connection.deferrable is not None:
        connection.deferrable = None


def set_on(connection: psycopg.Connection, turn_limit_ms: int | None = None, *, local: bool = False) -> None:
    """Set what the box relies on, on a new connection of its own; in its transaction, unless each statement commits.

    Args:
        connection: the connection.
        turn_limit_ms: PostgreSQL ends it after so many milliseconds without a statement in the midst of a transaction.
        local: only in its transaction, because a pooler gives others the same connection of the server.

    Raises:
        psycopg.Error: the connection is lost.
    """
    connection.execute(settings_of(turn_limit_ms, local=local))


def set_turn_limit(connection: psycopg.Connection, turn_limit_ms: int | None) -> None:
    """Set that limit alone, outside any transaction; None: as the server, the database or the role has it."""
    value = sql.SQL("DEFAULT") if turn_limit_ms is None else sql.Literal(turn_limit_ms)
    text = sql.SQL("SET {} = {}").format(sql.Identifier(_LIMIT), value).as_bytes(connection)
    result = connection.pgconn.exec_(text)
    if result.status != ExecStatus.COMMAND_OK:
        raise errors.error_from_result(result)


def set_anew(connection: psycopg.Connection, turn_limit_ms: int | None = None) -> None:
    """As `set_on`, on one on which somebody else may have set anything, a role for example, and commit."""
    connection.execute(_RESET + settings_of(turn_limit_ms))
    connection.commit()


def is_set(connection: psycopg.Connection) -> bool:
    """Whether a connection is set as the box needs it, as far as PostgreSQL tells that by itself; nothing is sent."""
    told = connection.pgconn.parameter_status
    return all((told(name) or b"").startswith(value) for name, value in _TOLD)


def check_encoding(connection: psycopg.Connection) -> None:
    """See that text comes and goes as it is, on a connection that an application has set; nothing is sent.

    Raises:
        UsageError: it doesn't.
    """
    encoding = connection.pgconn.parameter_status(b"client_encoding")
    if encoding != b"UTF8":
        raise UsageError(
            f"the connection's client_encoding is {(encoding or b'unknown').decode()}: not all text can pass",
            remedy="SET client_encoding = 'UTF8', and give PostgreSQL no other in the DSN or for the role",
        )


def check_values(array_nulls: str, transform_null_equals: str, extra_float_digits: int) -> None:
    """See that values come and go as they are, by what a connection of an application's has of these settings.

    Raises:
        UsageError: they don't; says what to set.
    """
    wrong = {
        "array_nulls": array_nulls != "on",
        "transform_null_equals": transform_null_equals != "off",
        "extra_float_digits": extra_float_digits < 1,
    }
    if any(wrong.values()):
        wanted = "; ".join(f"SET {name} = {_RELIED_ON[name]}" for name, is_wrong in wrong.items() if is_wrong)
        raise UsageError("the connection is set so that values are not what was written", remedy=wanted)


def settings_of(turn_limit_ms: int | None, *, local: bool = False) -> sql.Composed:
    """The statement that sets what the box relies on; `local`: until the transaction ends."""
    wanted = dict(_RELIED_ON) | ({} if turn_limit_ms is None else {_LIMIT: str(turn_limit_ms)})
    return sql.SQL("SELECT ") + sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, {})").format(name, value, local) for name, value in wanted.items()
    )
