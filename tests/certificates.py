"""Certificates for tests, made by the command `openssl`: an authority, and what it signs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Authority", "Files", "openssl"]

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(*words: str | Path) -> bytes:
    """What the command prints."""
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True).stdout


@dataclass(frozen=True)
class Files:
    """The paths of a certificate, its key and the authority of the other side, as a link and a server take them."""

    certificate: str
    key: str
    authority: str

    def as_link(self) -> dict[str, str]:
        return {"certificate": self.certificate, "key": self.key, "authority": self.authority}


class Authority:
    """An authority with its files in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder, self._key = folder, folder / f"{name}.key"
        self.certificate = folder / f"{name}.pem"
        openssl("req", "-x509", *_EC, "-keyout", self._key, "-out", self.certificate, "-subj", f"/CN={name}")

    def issued(self, name: str, *, san: str = "IP:127.0.0.1", days: int = 1, key: str | None = None) -> Files:
        """A certificate for a name, and its key; `days` below 0: it has expired. `key`: of an earlier one, which is used again."""
        certificate, request = self._folder / f"{name}.pem", self._folder / f"{name}.csr"
        if key is None:
            key = str(self._folder / f"{name}.key")
            openssl("req", *_EC, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        else:
            openssl("req", "-new", "-key", key, "-out", request, "-subj", f"/CN={name}")
        extensions = self._folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={san}\nbasicConstraints=critical,CA:FALSE\n")
        openssl(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._key, "-days", str(days)),
            *("-extfile", extensions, "-out", certificate),
        )
        return Files(str(certificate), key, str(self.certificate))
