"""The connection to the PostgreSQL of the other box: it carries frames there and answers back."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from ipaddress import ip_address
from selectors import EVENT_READ, DefaultSelector
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from seriatim.box.connection.connections import Closing
from seriatim.box.connection.dsn import place_of, resolve
from seriatim.errors import EnvironmentProblem, SchemaMismatch, Unavailable, UsageError
from seriatim.network import KEEPALIVE_COUNT, KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, SILENT_S, UNACKNOWLEDGED_S
from seriatim.pipeline.declared.link import Link
from seriatim.rested import RestedConnection, Restedness

_CONNECT_S = 10
#: Longer than a statement may take there, with the transfer of the largest frame, seconds.
_ANSWER_S = 120.0
#: A statement of the other box ends before this side gives up: the last part of a large body, which is stored then, takes longest.
_SETTINGS = (
    "-c statement_timeout=110s -c idle_in_transaction_session_timeout=60s "
    f"-c tcp_keepalives_idle={KEEPALIVE_IDLE_S} -c tcp_keepalives_interval={KEEPALIVE_INTERVAL_S} "
    f"-c tcp_keepalives_count={KEEPALIVE_COUNT} -c tcp_user_timeout={UNACKNOWLEDGED_S}s"
)


class _Patient(RestedConnection):
    """A connection that waits for the begin of an answer for a limited time: a route that drops packets can't block it for ever."""

    most_s, silent_s = _ANSWER_S, SILENT_S

    def wait(self, gen: PQGen[Any], *_: Any, timeout: float | None = None, **__: Any) -> Any:
        by, has_begun = time.monotonic() + (timeout or self.most_s), False
        try:
            wanted: Any = next(gen)
            with DefaultSelector() as selector:
                selector.register(self.fileno(), wanted)
                while True:
                    left = max(by - time.monotonic(), 0.0)
                    ready = selector.select(min(left, self.silent_s) if has_begun else left)
                    if not ready:
                        late = psycopg.OperationalError if timeout is None else errors._WaitTimeout  # noqa: SLF001 -- as the driver
                        raise late("the answer doesn't come")
                    has_begun |= bool(ready[0][1] & EVENT_READ)
                    wanted = gen.send(ready[0][1])
                    selector.modify(self.fileno(), wanted)
        except StopIteration as end:
            return end.value


class Carrier(Closing):
    """An open connection to the box of a link. Each frame is a transaction there, and its answer comes after the commit."""

    def __init__(self, link: Link, *, answer_s: float = _ANSWER_S, connect_s: int = _CONNECT_S) -> None:
        dsn = carrier_dsn(str(link.dsn), insecure=link.insecure)
        self._where = f"link {link.name!r}, {place_of(dsn, link.schema)}"
        self._schema = link.schema
        self._dsn, self._answer_s, self._connect_s = dsn, answer_s, connect_s
        self._connection = self._connected()

    def _connected(self) -> _Patient:
        try:
            connection = _Patient.connect(
                self._dsn, autocommit=True, connect_timeout=self._connect_s, options=_SETTINGS, application_name="seriatim link",
                keepalives_idle=KEEPALIVE_IDLE_S, keepalives_interval=KEEPALIVE_INTERVAL_S, keepalives_count=KEEPALIVE_COUNT,
                tcp_user_timeout=UNACKNOWLEDGED_S * 1000, prepare_threshold=None,
            )  # fmt: skip
        except psycopg.Error as error:
            raise Unavailable(
                f"the other box can't be reached: {error}", where=self._where, remedy="it is tried again"
            ) from error
        connection.most_s = self._answer_s
        return connection

    def push(self, frame: bytes) -> bytes:
        """Send a batch or answers to the other box; return its answer. The errors are the same as for the class."""
        return self._call("link_push", frame)

    def fetch(self, request: bytes) -> bytes:
        """Fetch the messages that wait in the other box. The errors are the same as for the class."""
        return self._call("link_fetch", request)

    def trace(self, question: bytes) -> bytes:
        """Ask the other box for the steps of a message. Errors: see the class; a box without this door is one without links."""
        return self._call("link_trace", question)

    def close(self) -> None:
        self._connection.close()

    def _call(self, function: str, frame: bytes) -> bytes:
        try:
            Restedness().check(self._connection)
        except psycopg.Error:
            self._connection = self._connected()
        call = sql.SQL("SELECT {}(%b::bytea)").format(sql.Identifier(self._schema, function))
        try:
            with self._connection.cursor(binary=True) as cursor:
                row = cursor.execute(call, [frame]).fetchone()
        except (errors.UndefinedFunction, errors.InvalidSchemaName) as error:
            raise SchemaMismatch(
                f"there is no message box with links: {error.diag.message_primary}",
                where=self._where,
                remedy="is it the right database? there: seriatim box migrate",
            ) from error
        except errors.InsufficientPrivilege as error:
            raise EnvironmentProblem(
                f"the other box refuses the role: {error.diag.message_primary}",
                where=self._where,
                remedy="there: seriatim link accept NAME --role ROLE --box ID, with each --queue and --service that this box may use",
            ) from error
        except psycopg.Error as error:
            raise Unavailable(
                f"the other box can't be asked: {error}", where=self._where, remedy="it is tried again"
            ) from error
        self._connection.used_at = time.monotonic()
        return b"" if row is None or row[0] is None else bytes(row[0])


_STRICT = "verify-full"
_REMEDY = "add sslmode=verify-full with sslrootcert=…; or insecure=True, if nobody else can be on the way"


def carrier_dsn(dsn: str, *, insecure: bool = False, environment: Mapping[str, str] = os.environ) -> str:
    """The DSN with which a link connects, in libpq's form and with its secrets. Between hosts a connection has to encrypt, and to prove
    which host answers: `sslmode=verify-full`. A weaker mode looks like it and isn't: `require` takes any certificate, and `prefer` goes on
    without encryption. A socket and the loopback address leave no host.
    """
    text = resolve(dsn, environment)
    parts = {name: str(value) for name, value in conninfo_to_dict(text).items()}
    mode = parts.get("sslmode") or environment.get("PGSSLMODE", "")
    service = parts.get("service") or environment.get("PGSERVICE", "")
    hosts = parts.get("hostaddr") or parts.get("host")
    if hosts is None and not service:
        hosts = environment.get("PGHOSTADDR") or environment.get("PGHOST") or ""
    if insecure or (hosts is not None and all(map(_stays_here, hosts.split(",")))):
        return text
    # A service may have the mode in its file, which only libpq reads: it gets the strict one either way.
    if mode != _STRICT and (mode or not service):
        raise UsageError(
            f"the link goes to another host with {f'sslmode={mode}' if mode else 'no sslmode'}, so somebody on the way could answer",
            where=place_of(text, "seriatim", environment).partition(",")[0],
            remedy=_REMEDY,
        )
    # With Kerberos at hand libpq would encrypt by it, and pass the mode over.
    return make_conninfo(text, sslmode=_STRICT, gssencmode="disable")


def _stays_here(host: str) -> bool:
    """Whether a connection to a host leaves this machine not at all: by a socket, or to itself."""
    name = host.strip()
    if name in ("", "localhost") or name[0] in "/@":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
