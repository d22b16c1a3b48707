"""The PostgreSQL settings that the box relies on, whatever a role, a database or a server has as default.

On its own connections the box sets them. On an application's connection it checks the necessary settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import psycopg
from psycopg import IsolationLevel, errors, sql
from psycopg.pq import ExecStatus

from seriatim.errors import UsageError

#: The form of values as text, and the defaults of a transaction. `search_path` is not among them: an application finds its own tables
#: by it, and each statement of the box names its schema.
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
#: Settings that PostgreSQL reports by itself, and each of their changes.
_TOLD: Mapping[bytes, bytes] = {
    b"client_encoding": b"UTF8",
    b"DateStyle": b"ISO",
    b"IntervalStyle": b"postgres",
    b"standard_conforming_strings": b"on",
}
_LIMIT = "idle_in_transaction_session_timeout"
#: The limit of a whole transaction, since PostgreSQL 17: a turn has a limit of its own, and a role's limit would end its messages
#: again and again.
_TRANSACTION_LIMIT, _SINCE = "transaction_timeout", 170_000
_RESET = sql.SQL("RESET SESSION AUTHORIZATION; RESET ALL; UNLISTEN *; ")


def set_for_transactions(connection: psycopg.Connection, *, reads_only: bool = False) -> None:
    """Set how each transaction of a connection begins; sends nothing, and no transaction may be open."""
    if connection.isolation_level is not IsolationLevel.READ_COMMITTED:
        connection.isolation_level = IsolationLevel.READ_COMMITTED
    wanted: bool | None = reads_only
    if is_standby(connection):
        wanted = None  # it refuses even to begin a transaction that may write
    if connection.read_only is not wanted:
        connection.read_only = wanted
    if connection.deferrable is not None:
        connection.deferrable = None


def begins_as_set(connection: psycopg.Connection) -> bool:
    """Whether its transactions begin as `set_for_transactions` has set it, and may write."""
    return (
        connection.isolation_level is IsolationLevel.READ_COMMITTED
        and connection.read_only is False
        and connection.deferrable is None
    )


def is_standby(connection: psycopg.Connection) -> bool:
    """Return whether the server is a standby, by its last answer; sends nothing."""
    return connection.pgconn.parameter_status(b"in_hot_standby") == b"on"


def set_on(connection: psycopg.Connection, *, local: bool = False) -> None:
    """Set the necessary settings on a new connection of the box; inside its transaction, unless it is in autocommit mode."""
    connection.execute(settings_of(None, connection.info.server_version, local=local))


def set_turn_limit(connection: psycopg.Connection, turn_limit_ms: int | None) -> None:
    """Set only the turn limit, outside any transaction; None: the default of the server, the database or the role."""
    value = sql.SQL("DEFAULT") if turn_limit_ms is None else sql.Literal(turn_limit_ms)
    text = sql.SQL("SET {} = {}").format(sql.Identifier(_LIMIT), value).as_bytes(connection)
    result = connection.pgconn.exec_(text)
    if result.status != ExecStatus.COMMAND_OK:
        raise errors.error_from_result(result)


def set_anew(connection: psycopg.Connection, turn_limit_ms: int | None = None) -> None:
    """Like `set_on`, for a connection whose previous user may have changed any setting, a role for example; then commit."""
    connection.execute(_RESET + settings_of(turn_limit_ms, connection.info.server_version))
    connection.commit()


def is_set(connection: psycopg.Connection) -> bool:
    """Whether a connection has the necessary settings, among those that PostgreSQL reports by itself; sends nothing."""
    return _fit(*map(connection.pgconn.parameter_status, _TOLD))


@lru_cache
def _fit(*values: bytes | None) -> bool:
    """Return whether these are the necessary settings, in the order of `_TOLD`; they are nearly always the same."""
    return all((is_so or b"").startswith(wanted) for is_so, wanted in zip(values, _TOLD.values(), strict=True))


def check_encoding(connection: psycopg.Connection) -> None:
    """Check that an application's connection doesn't change text; sends nothing."""
    encoding = connection.pgconn.parameter_status(b"client_encoding")
    if encoding != b"UTF8":
        raise UsageError(
            f"the connection's client_encoding is {(encoding or b'unknown').decode()}: not all text can pass",
            remedy="SET client_encoding = 'UTF8', and give PostgreSQL no other in the DSN or for the role",
        )


def check_values(array_nulls: str, transform_null_equals: str, extra_float_digits: int) -> None:
    """Check that an application's connection doesn't change values, by its settings."""
    wrong = {
        "array_nulls": array_nulls != "on",
        "transform_null_equals": transform_null_equals != "off",
        "extra_float_digits": extra_float_digits < 1,
    }
    if any(wrong.values()):
        wanted = "; ".join(f"SET {name} = {_RELIED_ON[name]}" for name, is_wrong in wrong.items() if is_wrong)
        raise UsageError("the connection is set so that values are not what was written", remedy=wanted)


def settings_of(turn_limit_ms: int | None, server_version: int, *, local: bool = False) -> sql.Composed:
    """The statement that makes the necessary settings; `local`: until the transaction ends."""
    wanted = dict(_RELIED_ON) | ({} if turn_limit_ms is None else {_LIMIT: str(turn_limit_ms)})
    if server_version >= _SINCE:
        wanted[_TRANSACTION_LIMIT] = "0"
    return sql.SQL("SELECT ") + sql.SQL(", ").join(
        sql.SQL("set_config({}, {}, {})").format(name, value, local) for name, value in wanted.items()
    )
