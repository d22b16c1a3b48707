"""The link: the road to another message box, and its address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from seriatim.errors import Argument, UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.link_address import VARIABLE, checked_address
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.secret import secret_in

__all__ = ["LONGEST_KEPT_S", "MOST_WAITING", "Link"]

#: The largest `max_waiting`.
MOST_WAITING = 2**53
#: What is sent is kept for 30 days at most: it is kept twice.
LONGEST_KEPT_S = 30 * 86_400
_FILES = ("certificate", "key", "authority")


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Link:
    """The road to another message box, whose address this one has. The other box accepts it by ``seriatim link accept``.

    The address is a DSN of its PostgreSQL, or the URL at which a ``seriatim serve --listen`` of that box listens.

    Args:
        name: its name here; queues name it in `Queue.at`. At most 100 characters.
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

    name: str
    _: KW_ONLY
    dsn: str | None = field(default=None, repr=False)
    url: str | None = None
    certificate: str | os.PathLike[str] | None = None
    key: str | os.PathLike[str] | None = None
    authority: str | os.PathLike[str] | None = None
    box: str | None = None
    queues: Sequence[str] = ()
    keep_sent: float | str = 0
    max_waiting: int | None = None
    stream_idle: float | str = 3600.0
    insecure: bool = False
    schema: str = "seriatim"

    def __post_init__(self) -> None:
        checked_name(self.name, "a link's name", "name")
        if len(self.name) > 100:
            raise self._wrong("name", f"its name has {len(self.name)} characters", "at most 100")
        if (self.dsn is None) == (self.url is None):
            raise self._wrong(
                ("dsn", "url"),
                "it needs one address" if self.dsn is None else "it has two addresses, dsn and url",
                "dsn=…, or url=… with certificate, key and authority",
            )
        if self.url is None:
            self._check_dsn()
        else:
            self._check_url()
        if self.box is not None:
            try:
                object.__setattr__(self, "box", str(UUID(str(self.box))))
            except ValueError:
                raise self._wrong(
                    "box", f"box can't be {shown(self.box)}", "the id of the other box: seriatim box status"
                ) from None
        if isinstance(self.queues, str) or not isinstance(self.queues, Sequence):
            raise self._wrong("queues", f"queues can't be {shown(self.queues)}", "a list of names of queues")
        for one in self.queues:
            checked_name(one, f"a queue's name (queues of link {self.name!r})", "queues")
        object.__setattr__(self, "queues", tuple(dict.fromkeys(self.queues)))
        self._set_period("keep_sent", 0, LONGEST_KEPT_S)
        self._set_period("stream_idle", 1, 10_000 * 86_400)
        most = self.max_waiting
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_WAITING):
            raise self._wrong(
                "max_waiting", f"max_waiting can't be {shown(most)}", f"a whole number from 1 to {MOST_WAITING:,}"
            )
        if not isinstance(self.insecure, bool):
            raise self._wrong("insecure", f"insecure can't be {shown(self.insecure)}", "True or False")
        checked_name(self.schema, f"a schema (of link {self.name!r})", "schema")

    def _check_dsn(self) -> None:
        if not isinstance(self.dsn, str) or not self.dsn.strip():
            raise self._wrong(
                "dsn", f"dsn can't be {shown(self.dsn)}", "where the other box is: postgresql://role@host/database"
            )
        for what in _FILES:
            if getattr(self, what) is not None:
                raise self._wrong(what, f"{what} is for a url", "in a DSN: sslcert=…, sslkey=… and sslrootcert=…")
        if (secret := secret_in(self.dsn)) is not None:
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
            path = getattr(self, what)
            try:
                path = os.fspath(path)
            except TypeError:
                raise self._wrong(
                    (what, "url"),
                    f"{what} can't be {shown(path)}",
                    "url needs certificate, key and authority: paths of PEM files",
                ) from None
            if not isinstance(path, str) or not (Path(path).is_absolute() or VARIABLE.match(path)):
                raise self._wrong(
                    what, f"{what} can't be {shown(path)}", "an absolute path: processes in other folders read it, too"
                )
            object.__setattr__(self, what, path)

    def _set_period(self, what: str, least_s: float, most_s: float) -> None:
        try:
            period_us = micros(getattr(self, what))
        except UsageError as error:
            raise self._wrong(what, f"{what}: {error.what}", error.remedy) from error
        if not least_s * 10**6 <= period_us <= most_s * 10**6:
            raise self._wrong(
                what, f"{what} can't be {shown(getattr(self, what))}", f"from {least_s:,} to {most_s:,} seconds"
            )
        object.__setattr__(self, what, period_us / 10**6)

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(f"link {self.name!r}: {what}", remedy=remedy, argument=argument)

    def as_json(self) -> dict[str, Any]:
        """As a mapping of JSON values."""
        return {
            "name": self.name,
            "dsn": self.dsn,
            "url": self.url,
            "certificate": self.certificate,
            "key": self.key,
            "authority": self.authority,
            "box": self.box,
            "queues": list(self.queues),
            "keep_sent": self.keep_sent,
            "max_waiting": self.max_waiting,
            "stream_idle": self.stream_idle,
            "insecure": self.insecure,
            "schema": self.schema,
        }
