"""The link: the road to another message box, and its address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from seriatim.errors import Argument, UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import (
    DAY_S,
    LONGEST_DAYS,
    Declaration,
    Flagged,
    Kind,
    Period,
    Plain,
    Text,
    Texts,
    Whole,
    Wrong,
    takes,
)
from seriatim.pipeline.declared.kinds import Name, OwnName
from seriatim.pipeline.declared.link_address import VARIABLE, checked_address
from seriatim.pipeline.text.secret import secret_in

#: What is sent is kept for 30 days at most: it is kept twice.
LONGEST_KEPT_S = 30 * 86_400
_FILES = ("certificate", "key", "authority")


@dataclass(frozen=True)
class _Path(Kind):
    """The absolute path of a file; it may begin with a variable."""

    def check(self, value: Any) -> str:
        try:
            path = os.fspath(value)
        except TypeError:
            raise Wrong("url needs certificate, key and authority: paths of PEM files") from None
        if not isinstance(path, str) or not (Path(path).is_absolute() or VARIABLE.match(path)):
            raise Wrong("an absolute path: processes in other folders read it, too")
        return path


@dataclass(frozen=True)
class _BoxId(Kind):
    def check(self, value: Any) -> str:
        try:
            return str(UUID(str(value)))
        except ValueError:
            raise Wrong("the id of the other box: seriatim box status") from None


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Link(Declaration):
    """The road to another message box, whose address this one has. The other box accepts it by ``seriatim link accept``.

    The address is a DSN of its PostgreSQL, or the URL at which a ``seriatim serve --listen`` of that box listens.

    Args:
        name: its name here; queues name it in `at`. At most 100 characters.
        dsn: where the other box is, as libpq writes it. No secret stands in it: ``${NAME}`` and ``file:`` are read by the process that
            transmits. To another host it has ``sslmode=verify-full``.
        url: ``https://host:port``, in place of `dsn`. ``${NAME}`` is read by the process that transmits, here and in the three paths.
        certificate: with `url`: the absolute path of the certificate by which this box is known there, PEM, with those between it and
            the authority behind it.
        key: with `url`: the absolute path of its private key, PEM, not encrypted, which others can't read.
        authority: with `url`: the absolute path of the certificates, PEM, of which one has to have signed the certificate of the other
            side.
        box: the id of the other box; None: the one that answers at the first contact.
        queues: the names of the queues of this box into which the other one may send.
        keep_sent: seconds (or ``"1d"``) for which acknowledged messages are kept, so that they can be sent again to a box that was
            restored; at most 30 days.
        max_waiting: the largest number of messages of a queue that wait here and on their way; then a publisher gets `QueueFull`. None: no
            limit.
        stream_idle: seconds (or ``"1h"``) after which a stream that isn't used is closed.
        insecure: with `dsn`: connect to another host without a proof of which one answers.
        schema: with `dsn`: the schema of the box there.

    Raises:
        UsageError: a value is invalid, there is no address or are two, or there is a password in the DSN.
    """

    name: str = takes(OwnName("a link's name"))
    _: KW_ONLY
    dsn: str | None = takes(
        Text("where the other box is: postgresql://role@host/database", blank=False), None, repr=False
    )
    url: str | None = takes(Kind(), None)
    certificate: str | os.PathLike[str] | None = takes(_Path(), None)
    key: str | os.PathLike[str] | None = takes(_Path(), None)
    authority: str | os.PathLike[str] | None = takes(_Path(), None)
    box: str | None = takes(_BoxId(), None)
    queues: Plain[tuple[str, ...], Sequence[str]] = takes(
        Texts(Name("a queue's name"), "a list of names of queues"), ()
    )
    keep_sent: Plain[float, str] = takes(Period(0, LONGEST_KEPT_S, f"from 0 to {LONGEST_KEPT_S:,} seconds"), 0)
    max_waiting: int | None = takes(Whole(1, 2**53), None)
    stream_idle: Plain[float, str] = takes(Period(1, bounds=f"from 1 to {LONGEST_DAYS * DAY_S:,} seconds"), 3600.0)
    insecure: bool = takes(Flagged(), False)
    schema: str = takes(Name("a schema"), "seriatim")

    def __post_init__(self) -> None:
        self._check_fields()
        if len(self.name) > 100:
            raise self._wrong("name", f"its name has {len(self.name)} characters", "at most 100")
        if (self.dsn is None) == (self.url is None):
            raise self._wrong(
                ("dsn", "url"),
                "it needs one address" if self.dsn is None else "it has two addresses, dsn and url",
                "give dsn, or url with certificate, key and authority",
            )
        if self.url is None:
            self._check_dsn()
        else:
            self._check_url()

    def _check_dsn(self) -> None:
        for what in _FILES:
            if getattr(self, what) is not None:
                raise self._wrong(what, f"{what} is for a url", "in a DSN: sslcert=…, sslkey=… and sslrootcert=…")
        if self.dsn is not None and (secret := secret_in(self.dsn)) is not None:
            raise self._wrong(
                "dsn",
                f"its DSN would be kept in the box, and shown: {secret}",
                "write ${NAME} in place of the secret, or file:, service= or passfile=: the process that transmits reads it",
            )

    def _check_url(self) -> None:
        try:
            checked_address(self.url)
        except UsageError as error:
            raise self._wrong("url", error.what, error.remedy) from None
        if self.insecure is not False:
            raise self._wrong("insecure", "insecure is for a dsn", "over HTTPS each side always proves who it is")
        if self.schema != "seriatim":
            raise self._wrong("schema", "schema is for a dsn", "a process that listens serves one box: leave it out")
        for what in _FILES:
            if getattr(self, what) is None:
                raise self._wrong(
                    (what, "url"),
                    f"{what} can't be None",
                    "url needs certificate, key and authority: paths of PEM files",
                )

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(f"link {self.name!r}: {what}", remedy=remedy, argument=argument)
