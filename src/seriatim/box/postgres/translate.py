"""Translate the driver's errors to seriatim's; no other module does so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

import psycopg
from psycopg import errors

from seriatim.errors import (
    ActionRefused,
    BoxDisabled,
    BoxMigrated,
    EnvironmentProblem,
    InvariantBroken,
    LeaseLost,
    SchemaMismatch,
    SeriatimError,
    Unavailable,
    UsageError,
)

#: Errors of the schema's own functions, by their SQLSTATEs; the hint is the remedy: of a disabled box, and of leases.
_OWN: Mapping[str, type[SeriatimError]] = {"SQ003": BoxDisabled, "SQ005": LeaseLost, "SQ006": ActionRefused}
_AGAIN = "roll back and repeat the transaction"
_BACK = "repeat the transaction once the server is back"


class ChangedResult(psycopg.ProgrammingError):
    """The result of a statement has other columns than this process expects."""


#: The errors of a process whose box was migrated. The last one is a prepared statement whose result has changed.
_OTHER_SCHEMA = (
    errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName, errors.UndefinedColumn, errors.AmbiguousFunction,
    ChangedResult, errors.FeatureNotSupported,
)  # fmt: skip
#: The first row that fits counts: the driver's error, ours, the remedy.
_ROWS: tuple[tuple[tuple[type[psycopg.Error], ...], type[SeriatimError], str], ...] = (
    (_OTHER_SCHEMA, SchemaMismatch, "is it the right database and schema? `seriatim box migrate` makes the schema"),
    ((errors.InsufficientPrivilege,), EnvironmentProblem, "give this role the right, or use another role or server"),
    (
        (errors.ReadOnlySqlTransaction,),
        EnvironmentProblem,
        "connect to the primary server; or let the transaction write: BEGIN READ WRITE, default_transaction_read_only = off",
    ),
    ((errors.InFailedSqlTransaction,), UsageError, "an earlier statement failed; roll back first"),
    # Two snapshots that can't both have numbered the same place: only where the caller's isolation keeps an old one.
    ((errors.SerializationFailure, errors.UniqueViolation, errors.DeadlockDetected), Unavailable, _AGAIN),
    ((errors.LockNotAvailable, errors.QueryCanceled), Unavailable, _AGAIN),
    # A session of a worker that was idle in the middle of its transaction.
    ((errors.IdleInTransactionSessionTimeout,), Unavailable, _AGAIN),
    # On a connection of an application, with its own settings.
    (
        (errors.TransactionTimeout,),
        Unavailable,
        "set transaction_timeout higher, or 0, for this role; then repeat the transaction",
    ),
    ((errors.IntegrityError,), UsageError, "mend what the transaction wrote"),
    # No value of a caller's can cause these.
    ((errors.ArraySubscriptError, errors.CardinalityViolation), InvariantBroken, ""),
    ((psycopg.DataError,), UsageError, "mend the value"),
    # An operational error for psycopg; it would fail again.
    ((errors.ProgramLimitExceeded,), UsageError, "make the value smaller: PostgreSQL can't keep it"),
)
_REFUSED = "a trigger or a function of the application refused it: mend that, or what the transaction wrote"
_LOG = "look into PostgreSQL's log, and have its administrator mend it"
#: All others by the beginning of their SQLSTATE, the longest that fits: our error, the remedy. New versions add codes.
_CLASSES: Mapping[str, tuple[type[SeriatimError], str]] = {
    # Only seriatim's own SQL could cause these: no data, syntax, cursors, dependent objects, the state of a transaction.
    **dict.fromkeys(("02", "0A", "0F", "20", "21", "24", "25", "2B", "34", "42"), (InvariantBroken, "")),
    **dict.fromkeys(("08", "53", "55", "57", "58"), (Unavailable, _BACK)),
    # A time limit of the session, or a rollback by the server.
    **dict.fromkeys(("25P", "40", "72"), (Unavailable, _AGAIN)),
    **dict.fromkeys(("09", "27", "2D", "2F", "38", "39", "3B", "44", "P0"), (UsageError, _REFUSED)),
    "26": (
        EnvironmentProblem,
        "a connection pooler mixes prepared statements of several clients up: let it keep them apart",
    ),
    "28": (EnvironmentProblem, "are the role and its password still right?"),
    **dict.fromkeys(("3D", "F0", "HV", "XX"), (EnvironmentProblem, _LOG)),
    # An error of an extension, or of an application's own function.
    "": (UsageError, _REFUSED),
}


class KnownVersion(Protocol):
    def changed_to(self) -> str | None:
        """Return the box's present state in words; None: it is unchanged, or can't be read now."""


_VERSIONS: dict[str, WeakSet[KnownVersion]] = {}


def watch_version(place: str, known: KnownVersion) -> None:
    """Check whether the box at a place has changed before a possible error of a changed schema is reported, as long as `known` exists."""
    _VERSIONS.setdefault(place, WeakSet()).add(known)


def migrated(error: BaseException, place: str) -> BoxMigrated | None:
    """Return the error in place of another one, if a newer seriatim has migrated the box and the error may come from that."""
    if not isinstance(error, _OTHER_SCHEMA):
        return None
    for known in tuple(_VERSIONS.get(place, ())):
        if (now := known.changed_to()) is not None:
            problem = f"a newer seriatim has migrated the message box: {now}"
            return BoxMigrated(problem, where=place, remedy="restart this process with that version of seriatim")
    return None


class translated:  # noqa: N801 -- a context manager, as those of contextlib; a generator would cost five times as much
    """Raise the driver's errors as errors of seriatim."""

    __slots__ = ("_place",)

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UnicodeEncodeError):  # of the driver's, too: it sends no half of a surrogate pair
            problem = f"{error.object!r:.80} is no text that PostgreSQL can keep"
            raise UsageError(
                problem, where=self._place, remedy="give text without halves of surrogate pairs"
            ) from error
        if not isinstance(error, psycopg.Error):
            return
        if is_out_of_step(error):
            raise Unavailable(_said(error), where=self._place, remedy=_BACK) from error
        if (own := _OWN.get(error.sqlstate or "")) is not None:
            raise own(_said(error), where=self._place, remedy=error.diag.message_hint or "") from error
        if (newer := migrated(error, self._place)) is not None:
            raise newer from error
        for kinds, ours, remedy in _ROWS:
            if isinstance(error, kinds):
                says_how = isinstance(error, errors.InsufficientPrivilege | errors.InvalidParameterValue)
                hint = error.diag.message_hint if says_how else None
                raise ours(_said(error), where=self._place, remedy=hint or remedy) from error
        if error.sqlstate is None:  # the driver's own
            broken = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            ours, remedy = (Unavailable, _BACK) if broken else (InvariantBroken, "")
            raise ours(_said(error), where=self._place, remedy=remedy) from error
        ours, remedy = next(_CLASSES[code] for size in (3, 2, 0) if (code := error.sqlstate[:size]) in _CLASSES)
        raise ours(_said(error), where=self._place, remedy=remedy) from error


def is_out_of_step(error: BaseException | None) -> bool:
    """Return whether an answer broke off or is invalid, by the driver's error: the connection can't be used any more."""
    return (
        isinstance(error, psycopg.Error)
        and error.sqlstate is None
        and type(error) in (psycopg.Error, psycopg.DatabaseError, psycopg.InternalError)
    )


def is_forbidden(error: BaseException) -> bool:
    """Return whether the role lacked a right, by our error."""
    return isinstance(error.__cause__, errors.InsufficientPrivilege)


def is_locked(error: BaseException) -> bool:
    """Return whether another transaction kept a session of two regions too long, by our error; not any other lock."""
    cause = error.__cause__
    return isinstance(cause, errors.LockNotAvailable) and cause.diag.table_name == "region_sessions"


@contextmanager
def reached(place: str, secret: str | None) -> Iterator[None]:
    """Translate the errors of connecting: an administrator has to solve them."""
    remedy = "is it running, are host, database and user right, may this user connect?"
    try:
        yield
    except psycopg.Error as error:
        text = _said(error)
        if secret and secret in text:
            raise EnvironmentProblem("PostgreSQL can't be reached", where=place, remedy=remedy) from None
        raise EnvironmentProblem(f"PostgreSQL can't be reached: {text}", where=place, remedy=remedy) from error


def _said(error: psycopg.Error) -> str:
    """Return PostgreSQL's error in one line."""
    text = error.diag.message_primary or str(error) or type(error).__name__
    return " ".join(text.split())
