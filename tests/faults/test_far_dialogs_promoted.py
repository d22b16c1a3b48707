"""Dialogs between two boxes, of which one is a standby that is promoted without the last second of its primary."""

from __future__ import annotations

import random

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import links
from tests.base_backup import STANDBY, back_up, server_on, waits_for
from tests.dialogs.far_boxes import ORDER
from tests.dialogs.far_orders import Orders
from tests.faults.test_link_kill import End
from tests.faults.wire import Wire
from tests.soak import seed, sized

DIALOGS = sized(200, 40)


@pytest.fixture
def ends(tmp_path):
    """Two servers, each with the role by which it is called."""
    found = []
    for name in ("north", "south"):
        server = EmbeddedServer(tmp_path / name)
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("CREATE ROLE road LOGIN")
        found.append(End(name, server.dsn, "", "", tmp_path / name, server))
    yield found
    for one in found:
        one.server.close()


@pytest.mark.proves("a promoted standby goes on with its dialogs, or both sides are told that it can't")
@pytest.mark.soak
def test_a_standby_that_lacks_the_last_second_goes_on_with_its_dialogs(ends, tmp_path, figures):
    near, far = ends
    chance = random.Random(seed())
    wire = Wire(far.dsn, chance, every=float("inf"))
    (tmp_path / "standby").mkdir()
    try:
        with sq.MessageBox.open(near.dsn) as north, sq.MessageBox.open(far.dsn) as south:
            south.define(ORDER, sq.Service("Seller", queue="sales", contracts=["PurchaseOrder"]))
            links.accept(
                south, "north", role="road", other=str(north.id), services=["Buyer"], actor="test", reason="a test"
            )
            north.define(
                ORDER, sq.Link("south", dsn=wire.dsn("road"), keep_sent="1d"), sq.Service("Buyer", queue="bought"),
                sq.Service("Seller", at="south"),
            )  # fmt: skip
            orders = Orders(north, south)
            orders.begin(DIALOGS)
            third = DIALOGS // 4
            towards, both = orders.handles[: DIALOGS // 2], orders.handles[DIALOGS // 2 :][:third]
            back_up(far.dsn, tmp_path / "standby")
            settings = f"primary_conninfo = '{make_conninfo(far.dsn)}'"
            with server_on(tmp_path / "standby", far.data, STANDBY, settings) as dsn:
                with psycopg.connect(far.dsn, autocommit=True) as primary:
                    (position,) = primary.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
                waits_for(dsn, f"SELECT pg_last_wal_replay_lsn() >= '{position}'")
                orders.keep("south")
                with psycopg.connect(dsn, autocommit=True) as connection:
                    connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
                    connection.execute("SELECT pg_reload_conf()")
                    waits_for(dsn, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
                    orders.say([*towards, *both])
                    orders.answer(both)
                    orders.carry()
                    far.server.close()
                    far.kill_server(chance)
                    connection.execute("SELECT pg_promote()")
                wire.lead_to(dsn)
                wire.cut()
                with sq.MessageBox.open(dsn) as promoted:
                    orders.south = promoted
                    orders.go_back("south")
                    orders.carry(6)
                    whole = orders.end()
        for handle in orders.handles:
            said = 2 if handle in towards + both else 1
            orders.check(handle, said, 1 if handle in both else 0, whole=whole[handle])
        assert all(whole[handle] for handle in orders.handles if handle not in both)
        assert not any(whole[handle] for handle in both)
        figures(f"{DIALOGS} dialogs of a promoted box, {sum(whole.values())} of them whole")
    finally:
        wire.close()
