"""The SQL of the box: one statement a file, with the schema's name put in as an identifier."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from psycopg import sql

from seriatim.errors import UsageError, shown

__all__ = ["checked_schema", "script", "statement", "template"]

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)


def checked_schema(schema: str) -> str:
    """The name of a box's schema.

    Raises:
        UsageError: it isn't one that works everywhere unquoted.
    """
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise UsageError(
            f"{shown(schema)} can't be the schema of a message box",
            remedy="at most 63 of a-z, 0-9 and _, not beginning with a digit or pg_",
        )
    return schema


@cache
def statement(name: str, schema: str) -> bytes:
    """The statement ``sql/NAME.sql`` for a schema, without its header comment."""
    lines = template(f"sql/{name}.sql").splitlines()
    return _for_schema("\n".join(line for line in lines if not line.startswith("--")), schema)


def script(name: str, schema: str) -> bytes:
    """A file of several statements, ``migrations/NAME``, with its comments."""
    return _for_schema(template(name), schema)


def template(name: str) -> str:
    """A file of the package as it is, the schema's name left open."""
    return resources.files("seriatim.box").joinpath(name).read_text(encoding="utf-8")


def _for_schema(text: str, schema: str) -> bytes:
    written = sql.SQL(text)  # a file of ours, not a stranger's text
    return written.format(schema=sql.Identifier(checked_schema(schema))).as_bytes(None)
