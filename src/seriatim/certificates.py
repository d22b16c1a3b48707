"""TLS by files in PEM: the contexts of a connecting and of a listening side, which reads files again when they are replaced."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from seriatim.errors import EnvironmentProblem, UsageError


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files of one side.

    Raises:
        UsageError: there is a certificate without its key, or the reverse.
    """

    #: The path of its certificate, followed by those between it and the authority; None: this side shows none.
    certificate: str | Path | None = None
    key: str | Path | None = None
    #: The path of the certificates of the authority that signs the other side; None: the connecting side trusts the system's authorities,
    #: the listening side asks for no certificate.
    authority: str | Path | None = None
    #: Where they are named, for errors.
    place: str = ""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise UsageError("TLS needs a certificate and its key", where=self.place, remedy="give both, files in PEM")

    def for_client(self) -> ssl.SSLContext:
        """Return the TLS context of the connecting side: the other side's certificate must be signed, and have the called name.

        Raises:
            EnvironmentProblem: a file can't be used.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.authority is None:
            context.load_default_certs()
        return self._loaded(context)

    def for_server(self) -> ssl.SSLContext:
        """Return the TLS context of the listening side: it demands a certificate if there is an authority. The errors are the same."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if self.authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            # A session that is resumed wouldn't show its certificate again.
            context.num_tickets = 0
        return self._loaded(context)

    def stamp(self) -> tuple[object, ...]:
        """Return a value that changes when a file is replaced or missing."""
        return tuple(map(_stamp, (self.certificate, self.key, self.authority)))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.hostname_checks_common_name = False
        # An authority may be an intermediate one.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        self._check_readable(self.certificate, "certificate")
        self._check_readable(self.authority, "authority")
        self._check_readable(self.key, "private key")
        if self.authority is not None:
            try:
                context.load_verify_locations(cafile=self.authority)
            except ssl.SSLError:
                raise self._wrong("has no certificate in it", self.authority, "the authority's, in PEM") from None
        if self.certificate is not None and self.key is not None:
            try:
                context.load_cert_chain(self.certificate, self.key, self._no_password)
            except ssl.SSLError as error:
                problem = (
                    "doesn't belong to the certificate" if error.reason == "KEY_VALUES_MISMATCH" else "can't be used"
                )
                raise self._wrong(
                    f"{problem} ({error.reason or 'not PEM'})", self.key, f"the key of {self.certificate}, both in PEM"
                ) from None
        return context

    def _check_readable(self, path: str | Path | None, noun: str) -> None:
        if path is None:
            return
        try:
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise self._wrong(f"can't be read: {why}", path, f"the path of the {noun}") from None
        if path == self.key:
            self._check_key(status)

    def _check_key(self, status: os.stat_result) -> None:
        """Refuse a key by its status as a file."""

    def _no_password(self) -> NoReturn:
        raise self._wrong(
            "is encrypted, and nobody is there to type its password",
            str(self.key),
            "take one that isn't, of mode 600: openssl pkey -in … -out …",
        )

    def _wrong(self, problem: str, path: str | Path, remedy: str) -> EnvironmentProblem:
        return EnvironmentProblem(f"{path} {problem}", where=self.place, remedy=remedy)


class RenewedContext:
    """The TLS of a listening side.

    Args:
        files: its files.
        tell: gets the line when they were replaced and can't be used.

    Raises:
        EnvironmentProblem: they can't be used now.
    """

    def __init__(self, files: TlsFiles, tell: Callable[[str], None]) -> None:
        self._files, self._tell = files, tell
        self._stamp, self._context = files.stamp(), files.for_server()

    def __call__(self) -> ssl.SSLContext:
        """Return the context by the files as they are now; if they can't be used, as they were."""
        if (stamp := self._files.stamp()) != self._stamp:
            self._stamp = stamp
            try:
                self._context = self._files.for_server()
            except EnvironmentProblem as error:
                self._tell(f"certificates were replaced, and can't be used: {error}")
        return self._context


def _stamp(path: str | Path | None) -> object:
    try:
        status = Path(path or "").stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
