"""A real second server: a standby that follows a primary and is promoted, and a backup that is recovered to a point in time."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.binaries import NEWEST, Owner, find_binaries
from seriatim.box.server.embedded import serving
from seriatim.operations import identity

#: How the server of a backup is started: what follows the primary, and what is recovered without it.
STANDBY = "standby.signal"
RECOVERY = "recovery.signal"


@pytest.fixture(scope="module")
def primary(tmp_path_factory):
    """A primary server with a box that has one message, and its folder."""
    folder = tmp_path_factory.mktemp("primary") / "server"
    with serving(folder) as server:
        with sq.MessageBox.open(server.dsn) as box:
            box.define(sq.Queue("q", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="q"))
            box.publish(sq.Message(type="order", message_id="before"))
        yield server.dsn, folder


@contextmanager
def backup(primary, tmp_path: Path, signal: str, settings: str):
    """The DSN of a server on a base backup of the primary."""
    dsn, folder = primary
    found, data = find_binaries(NEWEST), tmp_path / "data"
    subprocess.run(
        [found.root / "bin" / "pg_basebackup", "--dbname", dsn, "-D", data, "-X", "fetch", "--checkpoint=fast"],
        check=True,
    )
    (data / signal).touch()
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(f"hba_file = '{tmp_path}/hba.conf'\nlisten_addresses = ''\nmax_connections = 200\n{settings}\n")
    (tmp_path / "hba.conf").write_text("local all all trust\n")
    owner = (folder / "data").stat()
    user = Owner(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None
    if user is not None:
        subprocess.run(["chown", "-R", f"{user.uid}:{user.gid}", data], check=True)
        for one in (tmp_path, *tmp_path.parents):  # the server's user has to get there
            if not one.stat().st_mode & 0o001:
                one.chmod(one.stat().st_mode | 0o001)
    sockets = Path(f"/tmp/seriatim-failover-{os.getpid()}")
    sockets.mkdir(mode=0o777)
    sockets.chmod(0o777)
    log = (tmp_path / "log").open("w")
    process = subprocess.Popen(
        [found.reachable_by(user).postgres, "-D", data, "-k", sockets],
        stdout=log, stderr=log, user=user.uid if user else None, group=user.gid if user else None,
        extra_groups=[] if user else None, cwd="/",
    )  # fmt: skip
    there = f"postgresql://seriatim@/postgres?host={quote(str(sockets), safe='')}"
    try:
        yield answering(there, process, tmp_path / "log")
    finally:
        process.terminate()
        process.wait()
        log.close()
        sockets.rmdir()


def answering(dsn: str, process: subprocess.Popen[bytes], log: Path) -> str:
    """The DSN, once its server answers."""
    while process.poll() is None:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            continue
        return dsn
    pytest.fail(log.read_text())


def waits_for(dsn: str, text: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        while connection.execute(text).fetchone() != (True,):
            pass


def received(box):
    with box.session() as tx:
        found = [one.message_id for one in tx.receive("q", limit=10) or ()]
        if found:
            tx.delivery.put_back()
        return found


def test_a_promoted_standby_is_the_same_box_in_a_new_incarnation(primary, tmp_path):
    dsn, _ = primary
    follows = f"primary_conninfo = '{psycopg.conninfo.make_conninfo(dsn)}'"
    with sq.MessageBox.open(dsn) as box, backup(primary, tmp_path, STANDBY, follows) as there:
        box.publish(sq.Message(type="order", message_id="while it follows"))
        with psycopg.connect(dsn) as connection:
            (position,) = connection.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        waits_for(there, f"SELECT pg_last_wal_replay_lsn() >= '{position}'")
        with sq.MessageBox.open(there) as standby:
            assert (standby.id, standby.incarnation, len(standby.peek("q"))) == (box.id, box.incarnation, 2)
            with pytest.raises(sq.EnvironmentProblem, match="the server is a standby"):
                standby.publish(sq.Message(type="order"))
            with psycopg.connect(there, autocommit=True) as connection:
                assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
            assert sorted(received(standby)) == ["before", "while it follows"]
            standby.publish(sq.Message(type="order", message_id="after"))
            assert (standby.id, standby.incarnation) == (box.id, box.incarnation + 1)
            now, before = identity.identity(standby), identity.identity(box)
            assert (now.system_identifier, now.timeline) == (before.system_identifier, before.timeline + 1)
            assert now.enabled


def test_a_backup_that_was_recovered_to_a_point_in_time_has_a_new_incarnation(primary, tmp_path):
    dsn, _ = primary
    settings = "restore_command = 'false'\nrecovery_target = 'immediate'\nrecovery_target_action = 'promote'"
    with sq.MessageBox.open(dsn) as box, backup(primary, tmp_path, RECOVERY, settings) as there:
        waits_for(there, "SELECT NOT pg_is_in_recovery()")
        with sq.MessageBox.open(there) as recovered:
            assert (recovered.id, recovered.incarnation) == (box.id, box.incarnation + 1)
            assert identity.identity(recovered).enabled
            recovered.publish(sq.Message(type="order", message_id="again"))
            assert "again" in received(recovered)
        with sq.MessageBox.open(there) as again:
            assert again.incarnation == box.incarnation + 1
