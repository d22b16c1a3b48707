"""A real second server: a standby that follows a primary and is promoted, and a backup that is recovered to a point in time."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import serving
from seriatim.operations import identity
from tests.base_backup import RECOVERY, STANDBY, back_up, server_on, waits_for


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
def backup(primary, tmp_path, how, settings):
    """The DSN of a server on a base backup of the primary."""
    dsn, folder = primary
    back_up(dsn, tmp_path)
    with server_on(tmp_path, folder / "data", how, settings) as there:
        yield there


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
