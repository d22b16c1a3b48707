"""Certificates of links: the files of a side, and the public key by which a peer is known."""

from __future__ import annotations

import os
import re
import ssl
from hashlib import sha256
from pathlib import Path
from typing import Any

from seriatim.certificates import TlsFiles
from seriatim.errors import UsageError

_BLOCK = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _NUMBER, _VERSION = 0x30, 0x02, 0xA0
#: The parts of a certificate before its public key.
_BEFORE_KEY = (_NUMBER, _SEQUENCE, _SEQUENCE, _SEQUENCE, _SEQUENCE)


class CertificateFiles(TlsFiles):
    """The files of one side of a link: both sides show a certificate, by TLS 1.3. Where they are named is `place`."""

    __slots__ = ()

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context = super()._loaded(context)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _check_key(self, status: os.stat_result) -> None:
        # As libpq has it: a key of root's may be readable for a group, by which several services reach it.
        if status.st_mode & (0o027 if status.st_uid == 0 else 0o077):
            raise self._wrong("has a private key in it that others can read", str(self.key), f"chmod 600 {self.key}")


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
