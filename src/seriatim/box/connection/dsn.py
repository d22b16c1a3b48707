"""Read a DSN with its secrets, and name its place without them.

A DSN may be a PostgreSQL URI or ``key=value`` text (with ``service=`` from ``pg_service.conf`` and a password from
``.pgpass``, which libpq reads itself), may take ``${NAME}`` from the environment, or may be ``file:PATH``, a file that
only its owner may read. An error shows only the host and the name of the database.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from seriatim.errors import EnvironmentProblem, UsageError
from seriatim.pipeline.text.storable import fits_text

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_URI = ("postgresql://", "postgres://")
#: The prefixes of other libraries' addresses, which also name a driver: (the extra part)(the rest).
_WITH_DRIVER = re.compile(r"(?:(postgres(?:ql)?)(\+\w+)|(jdbc:)(postgresql))://", re.ASCII)
#: The forms of a DSN, for remedies.
_FORMS = 'write "postgresql://user@host/database" or "host=… dbname=… user=…"'


def resolve(dsn: str, environment: Mapping[str, str] = os.environ) -> str:
    if not isinstance(dsn, str):
        raise UsageError(f"{type(dsn).__name__} is not a DSN", remedy=_FORMS)
    text = _from_file(Path(dsn.removeprefix("file:"))) if dsn.startswith("file:") else dsn
    text = _with_variables(text.strip(), environment)
    _check_driver(text)
    if "\0" in text:  # where libpq would stop to read, and go somewhere else
        raise UsageError("the DSN has a NUL in it", remedy=_FORMS)
    if not fits_text(text):
        raise UsageError("the DSN is not UTF-8", remedy=_FORMS)
    try:
        if not conninfo_to_dict(text):
            raise UsageError("the DSN is empty", remedy=_FORMS)
    except psycopg.ProgrammingError:
        # libpq's message quotes the text, which may hold a password: neither shown nor chained.
        raise UsageError("the DSN can't be read", remedy=f"{_FORMS}; quote or percent-encode what is special") from None
    return text


def without_secret(dsn: str | None) -> str | None:
    """Check a DSN that other users may see, in a pipeline file or among Spark's options."""
    if dsn is None or dsn.startswith("file:") or _VARIABLE.fullmatch(dsn.strip()):
        return dsn
    _check_driver(dsn)
    try:
        password = conninfo_to_dict(_VARIABLE.sub("", dsn)).get("password")
    except psycopg.ProgrammingError:
        raise UsageError("the DSN can't be read", remedy=f"{_FORMS}; quote or percent-encode what is special") from None
    if password:
        raise UsageError(
            "the DSN has a password in it, which others could read",
            remedy="write ${NAME} for it, or use SERIATIM_DSN, .pgpass, a service or file:PATH",
        )
    return dsn


def _check_driver(text: str) -> None:
    """Refuse an address as SQLAlchemy or JDBC write it."""
    if match := _WITH_DRIVER.match(text):
        surplus = match[2] or match[3]
        kept = match[1] or match[4]
        raise UsageError(
            f"the DSN begins with {match[0]}, which names a driver", remedy=f"remove {surplus!r}: {kept}://…"
        )


def place_of(dsn: str, schema: str, environment: Mapping[str, str] = os.environ) -> str:
    """Host, database and schema of a resolved DSN, for errors and `repr`."""
    parts = conninfo_to_dict(dsn)
    if service := parts.get("service"):
        return f"service {service}, schema {schema}"
    host = parts.get("host") or parts.get("hostaddr") or environment.get("PGHOST") or "localhost"
    port = parts.get("port") or environment.get("PGPORT") or "5432"
    database = parts.get("dbname") or environment.get("PGDATABASE") or parts.get("user") or "the default database"
    return f"{host}:{port}/{database}, schema {schema}"


def _from_file(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise EnvironmentProblem(
                "what the DSN names is no file", where=str(path), remedy="file:PATH is a file of mode 600"
            )
        if mode & 0o077:
            raise EnvironmentProblem(
                "the file with the DSN can be read by others", where=str(path), remedy=f"chmod 600 {path}"
            )
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:  # it quotes the unreadable bytes
        raise EnvironmentProblem(
            "the file with the DSN is not UTF-8", where=str(path), remedy="write it as UTF-8"
        ) from None
    except OSError as error:
        raise EnvironmentProblem(
            f"the file with the DSN can't be read: {error.strerror}", where=str(path), remedy="mend the path"
        ) from error


def _with_variables(text: str, environment: Mapping[str, str]) -> str:
    whole = _VARIABLE.fullmatch(text)

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environment:
            raise UsageError(f"the DSN names ${{{name}}}, which isn't set", remedy=f"export {name}=…")
        text_found = environment[name]
        if whole:
            return text_found
        if text.startswith(_URI):
            return quote(text_found, safe="")
        return "'" + text_found.replace("\\", "\\\\").replace("'", "\\'") + "'"

    return _VARIABLE.sub(value, text)
