"""The schema of a box as PostgreSQL itself tells it."""

from __future__ import annotations

import re
import subprocess

from seriatim.box.server.binaries import find_binaries


def schema_text(dsn: str, schema: str = "seriatim") -> list[str]:
    """The lines of a dump of it, without rights and without the days that a clean-up has made for the history."""
    program = find_binaries().root / "bin" / "pg_dump"
    words = [
        str(program), "--schema-only", "--no-owner", "--no-privileges", f"--schema={schema}",
        f"--exclude-table={schema}.history_2*", "--dbname", dsn,
    ]  # fmt: skip
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    # A view that was restored from a dump has names for what needs none.
    text = re.sub(r"(::[a-z ]+(\[\])?) AS [a-z0-9_]+(,?)$", r"\1\3", text, flags=re.MULTILINE)
    text = re.sub(r" CONSTRAINT \w+_not_null NOT NULL", " NOT NULL", text)  # since PostgreSQL 18 these have names
    lines = [line for line in text.splitlines() if line and not line.startswith(("--", "\\restrict", "\\unrestrict"))]
    assert len(lines) > 50
    return lines
