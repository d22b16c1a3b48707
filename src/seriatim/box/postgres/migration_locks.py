"""The settings and locks of a migration before it changes anything."""

from __future__ import annotations

import time
from collections.abc import Mapping

from psycopg import errors

from seriatim.box.postgres.statements import Statements
from seriatim.errors import Unavailable
from seriatim.pipeline.text.event_log import LOG

#: Settings of a role, a database or a server that would change a new schema, or prevent it. The search path stays: a clock for tests
#: uses it.
SETTINGS: Mapping[str, str] = {
    "array_nulls": "on",
    "backslash_quote": "safe_encoding",
    "check_function_bodies": "off",  # a function may be made before those that it calls
    "client_min_messages": "warning",
    "datestyle": "ISO, MDY",
    "escape_string_warning": "off",
    "idle_in_transaction_session_timeout": "0",
    "intervalstyle": "postgres",
    "jit": "off",
    "plpgsql.extra_errors": "none",
    "plpgsql.extra_warnings": "none",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "transform_null_equals": "off",
}
#: Since PostgreSQL 17.
_TRANSACTION_TIMEOUT = "transaction_timeout"
#: How long a migration waits for another one of the same box; for all users of the box; and for these without a pause: shorter than
#: PostgreSQL's check for deadlocks, since all others wait behind that. Then the pause, seconds.
_OTHERS_S, _USERS_S, _AT_ONCE_S, _PAUSE_S = 60.0, 90.0, 0.9, 0.5
#: How long it waits for who reads a table or a view when all others are locked out.
_READERS_S = 10.0
_SHOWN = 3


class MigrationLocks:
    """The settings and the locks of a migration, in its transaction. A `lock_timeout` of the connection's bounds all waits."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        is_known = statements.connection.info.server_version >= 170_000
        settings = dict(SETTINGS) | ({_TRANSACTION_TIMEOUT: "0"} if is_known else {})
        row = statements.one("set_for_migration", names=list(settings), values=list(settings.values()))
        self._own_s: float | None = row.lock_timeout_ms / 1000 or None

    def hold_schema(self) -> None:
        schema = self._statements.schema
        try:
            with self._statements.connection.transaction():
                self._wait_at_most(self._own_s or _OTHERS_S)
                self._statements.do("lock_schema", schema=schema)
        except errors.LockNotAvailable as error:
            holders = self._statements.rows("holders_of_schema", schema=schema)
            holders_named = ", ".join(f"process {pid} of the role {role!r}" for pid, role in holders) or "somebody"
            raise Unavailable(
                f"{holders_named} has the lock of those who make the schema {schema}",
                remedy="try again when that has ended",
            ) from error

    def lock_out(self) -> None:
        """Wait until no process publishes or has messages in hand, and lock all others out until the transaction ends."""
        end, waits_for = time.monotonic() + (self._own_s or _USERS_S), ""
        while True:
            left = end - time.monotonic()
            try:
                with self._statements.connection.transaction():
                    self._wait_at_most(max(min(left, _AT_ONCE_S), 0.001))
                    self._statements.do("lock_out")
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                if (users := self._users()) != waits_for:
                    waits_for = users
                    LOG.warning("migration_waits", schema=self._statements.schema, waits_for=users)
                if left <= _AT_ONCE_S:
                    raise Unavailable(
                        f"the schema {self._statements.schema} can't be migrated while it is used by {users}",
                        remedy="try again when that has ended, or end it",
                    ) from error
            else:
                self._wait_at_most(self._own_s or _READERS_S)
                return
            time.sleep(min(_PAUSE_S, max(end - time.monotonic(), 0)))  # processes that came meanwhile go on

    def _wait_at_most(self, seconds: float) -> None:
        self._statements.do("wait_at_most", milliseconds=int(seconds * 1000))

    def _users(self) -> str:
        users = self._statements.rows("users_of_schema")
        names = [
            f"process {user.pid} of the role {user.role!r} ({user.program or 'no name'}, for {user.seconds:.0f} s)"
            for user in users[:_SHOWN]
        ]
        more = [f"{len(users) - _SHOWN} more"] if len(users) > _SHOWN else []
        return ", ".join([*names, *more]) or "somebody"
