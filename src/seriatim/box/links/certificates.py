"""Certificates of links: the files of a side, its TLS contexts, and the public key by which a peer is known."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

from seriatim.errors import EnvironmentProblem, UsageError

__all__ = ["CertificateFiles", "names_of", "public_key_in", "public_key_of"]

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _NUMBER, _VERSION = 0x30, 0x02, 0xA0
#: The parts of a certificate before its public key.
_BEFORE_KEY = (_NUMBER, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of one side."""

    #: The path of its certificate, followed by those between it and the authority.
    certificate: str
    key: str
    #: The path of the certificates of the authority that signs the other side.
    authority: str
    place: str

    def for_client(self) -> ssl.SSLContext:
        """Return the TLS context of the connecting side: the other side's certificate must be signed, and have the called name."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def for_server(self) -> ssl.SSLContext:
        """Return the TLS context of the listening side: it demands a certificate. The errors are the same."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        # A session that is resumed wouldn't show its certificate again.
        context.num_tickets = 0
        return self._loaded(context)

    def stamp(self) -> tuple[object, ...]:
        """Return a value that changes when a file is replaced or missing."""
        return tuple(map(_stamp, (self.certificate, self.key, self.authority)))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.hostname_checks_common_name = False
        # An authority may be an intermediate one that signs for links alone.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.set_alpn_protocols(["http/1.1"])
        self._check_readable(self.certificate, "certificate")
        self._check_readable(self.authority, "authority")
        self._check_readable(self.key, "private key", is_secret=True)
        try:
            context.load_verify_locations(cafile=self.authority)
        except ssl.SSLError:
            raise self._wrong("has no certificate in it", self.authority, "the authority's, in PEM") from None
        try:
            context.load_cert_chain(self.certificate, self.key, self._no_password)
        except ssl.SSLError as error:
            problem = "doesn't belong to the certificate" if error.reason == "KEY_VALUES_MISMATCH" else "can't be used"
            raise self._wrong(
                f"{problem} ({error.reason or 'not PEM'})", self.key, f"the key of {self.certificate}, both in PEM"
            ) from None
        return context

    def _check_readable(self, path: str, noun: str, *, is_secret: bool = False) -> None:
        try:
            with Path(path).open("rb") as file:
                status = os.fstat(file.fileno())
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise self._wrong(f"can't be read: {why}", path, f"the path of the {noun}") from None
        # As libpq has it: a key of root's may be readable for a group, by which several services reach it.
        if is_secret and status.st_mode & (0o027 if status.st_uid == 0 else 0o077):
            raise self._wrong("has a private key in it that others can read", path, f"chmod 600 {path}")

    def _no_password(self) -> NoReturn:
        raise self._wrong(
            "is encrypted, and nobody is there to type its password",
            self.key,
            "take one that isn't, of mode 600: openssl pkey -in … -out …",
        )

    def _wrong(self, problem: str, path: str, remedy: str) -> EnvironmentProblem:
        return EnvironmentProblem(f"{path} {problem}", where=self.place, remedy=remedy)


def public_key_in(path: str | os.PathLike[str]) -> bytes:
    """The SHA-256 of the public key of the first certificate in a file."""
    try:
        block = _BLOCK.search(Path(path).read_text(encoding="ascii", errors="replace"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} can't be read: {why}", remedy="the path of the other box's certificate") from None
    try:
        certificate = ssl.PEM_cert_to_DER_cert(block[0]) if block else b""
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
        return public_key_of(certificate)
    except (ssl.SSLError, ValueError):
        raise UsageError(f"{path} has no certificate in it", remedy="the other box's certificate, in PEM") from None


def public_key_of(certificate: bytes) -> bytes:
    """Return the SHA-256 of the public key in a certificate (SubjectPublicKeyInfo)."""
    data = memoryview(certificate)
    begin, _ = _content(data, 0, _SEQUENCE)
    at, end = _content(data, begin, _SEQUENCE)
    if data[at] == _VERSION:
        at = _content(data, at, _VERSION)[1]
    for tag in _BEFORE_KEY:
        at = _content(data, at, tag)[1]
    after = _content(data, at, _SEQUENCE)[1]
    if after > end:
        raise ValueError("a key that is longer than its certificate")
    return sha256(data[at:after]).digest()


def names_of(connection: ssl.SSLObject) -> str:
    """Return the names of a connection's peer in its certificate's subjectAltName, as text."""
    alternatives: Any = (connection.getpeercert() or {}).get("subjectAltName", ())
    names = [str(value) for _, value in alternatives]
    return ", ".join(names[:5])[:300] or "without a name"


def _content(data: memoryview, at: int, tag: int) -> tuple[int, int]:
    """Where the content of an element of DER begins, and where it ends."""
    if at + 2 > len(data) or data[at] != tag:
        raise ValueError("no certificate")
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        if not 0x81 <= length <= 0x84:
            raise ValueError("no certificate")
        length = int.from_bytes(data[at + 2 : begin], "big")
    if begin + length > len(data):
        raise ValueError("no certificate")
    return begin, begin + length


def _stamp(path: str) -> object:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
