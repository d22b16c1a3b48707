"""Stores the present state of the schema, with data in every table: ``python -m tests.upgrade.dump``.

A later seriatim has to understand that box; `test_upgrade.py` restores each dump and brings it up to date. It also notes
what the baseline and each migration are, by their SHA-256: from then on none of them is edited. A dump that is there stays as it is.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

from seriatim.box.postgres.migrate import LEAST_POSTGRESQL, migrations
from seriatim.box.server.binaries import find_binaries
from seriatim.box.server.embedded import serving
from tests.upgrade.filled import SCHEMA, empty_tables, filled

DUMPS = Path(__file__).parent / "dumps"
NOTED = DUMPS / "migrations.sha256"


def main() -> None:
    """Make the dump of the present version, and note its migrations."""
    path = DUMPS / f"{migrations()[-1].number:04}.sql.xz"
    if path.exists():
        sys.exit(f"{path.name} is there, and stays: a change to the schema is a new migration")
    before, now = noted(), present()
    if changed := [name for name in before if now.get(name) != before[name]]:
        sys.exit(f"{', '.join(changed)} was edited; put it back, and write a new migration")
    path.write_bytes(lzma.compress(dumped(), preset=lzma.PRESET_EXTREME))
    NOTED.write_text("".join(f"{mark}  {name}\n" for name, mark in now.items()), encoding="utf-8")
    print(f"made {path}, {path.stat().st_size:,} bytes")  # noqa: T201 -- a command


def noted() -> dict[str, str]:
    """The migrations that are not edited any more, and their SHA-256."""
    lines = NOTED.read_text(encoding="utf-8").splitlines() if NOTED.exists() else []
    return {name: mark for mark, name in (line.split("  ") for line in lines)}


def present() -> dict[str, str]:
    """The migrations that there are, and their SHA-256."""
    return {f"{one.number:04}_{one.name}": one.checksum for one in migrations()}


def dumped() -> bytes:
    """A filled box as SQL, of the oldest PostgreSQL that is promised: the newer ones read that, too."""
    program = find_binaries(LEAST_POSTGRESQL).root / "bin" / "pg_dump"
    options = ["--schema", SCHEMA, "--no-owner", "--rows-per-insert=1000"]
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder) / "server", LEAST_POSTGRESQL) as server,
        filled(server.dsn),
    ):
        if empty := empty_tables(server.dsn):
            sys.exit(f"nothing is in {', '.join(empty)}: fill them in tests/upgrade/filled.py")
        words = [str(program), *options, "--dbname", server.dsn]
        text = subprocess.run(words, check=True, capture_output=True).stdout
    # Commands of psql's are no SQL.
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith((b"--", b"\\")))


if __name__ == "__main__":
    main()
