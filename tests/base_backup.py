"""A second server, on a base backup of the first: a standby that follows it, a recovered one, or a copy that notices nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from seriatim.box.server.binaries import NEWEST, Owner, find_binaries

__all__ = ["COPY", "RECOVERY", "STANDBY", "back_up", "server_on", "waits_for"]

#: How the server of a backup is started: it follows the primary; it is recovered, on a new timeline; or it goes on as if it were the primary.
STANDBY, RECOVERY, COPY = "standby.signal", "recovery.signal", ""


def back_up(dsn: str, place: Path) -> None:
    """Take a base backup of the server, while it is at work."""
    program = find_binaries(NEWEST).root / "bin" / "pg_basebackup"
    subprocess.run(
        [program, "--dbname", dsn, "-D", place / "data", "-X", "fetch", "--checkpoint=fast", "--no-sync"], check=True
    )


@contextmanager
def server_on(place: Path, primary: Path, how: str, settings: str = "") -> Iterator[str]:
    """The DSN of a server on the backup that is there.

    Args:
        place: the folder of the backup.
        primary: the folder of the primary's data: the server runs as its user, whom the primary's socket lets in.
        how: `STANDBY`, `RECOVERY` or `COPY`.
        settings: lines of a configuration.
    """
    found, data = find_binaries(NEWEST), place / "data"
    if how:
        (data / how).touch()
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(f"hba_file = '{place}/hba.conf'\nlisten_addresses = ''\nmax_connections = 200\n{settings}\n")
    (place / "hba.conf").write_text("local all all trust\n")
    owner = primary.stat()
    user = Owner(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None
    if user is not None:
        subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", data], check=True)
        for one in (place, *place.parents):  # the server's user has to get there
            if not one.stat().st_mode & 0o001:
                one.chmod(one.stat().st_mode | 0o001)
    sockets = Path(tempfile.mkdtemp(prefix="seriatim-backup-", dir="/tmp"))
    sockets.chmod(0o777)
    with (place / "log").open("w") as log:
        process = subprocess.Popen(
            [found.reachable_by(user).postgres, "-D", data, "-k", sockets],
            stdout=log, stderr=log, user=user.uid if user else None, group=user.gid if user else None,
            extra_groups=[] if user else None, cwd="/",
        )  # fmt: skip
        try:
            yield _answering(
                f"postgresql://seriatim@/postgres?host={quote(str(sockets), safe='')}", process, place / "log"
            )
        finally:
            process.send_signal(signal.SIGINT)  # without waiting for its sessions
            process.wait()
            sockets.rmdir()


def _answering(dsn: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """The DSN, once its server answers."""
    while process.poll() is None:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            continue
        return dsn
    pytest.fail(log.read_text())


def waits_for(dsn: str, text: str) -> None:
    """Wait until a query is true."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        while connection.execute(text).fetchone() != (True,):
            pass
