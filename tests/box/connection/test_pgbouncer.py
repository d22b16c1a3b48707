"""A box behind PgBouncer: what works, and what says that it doesn't."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.workers.reader_slots import Slots
from seriatim.operations import invariants
from seriatim.runtime.processes.serve import Serve
from tests.box.given_up import given_up
from tests.box.shop import define, publish, rows, see, seen
from tests.dialogs.talking import begun
from tests.runtime.workers.test_worker import DEADLINE_S, until, work, working

pytestmark = pytest.mark.dear

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def program():
    """PgBouncer; the tests are skipped where it isn't, and can't be installed."""
    found = subprocess.run([ROOT / "scripts" / "pgbouncer"], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(found.stderr.strip().rpartition("\n")[2])
    return found.stdout.strip()


@pytest.fixture(scope="module")
def bouncer(program, postgresql):
    """Starts a PgBouncer with so many connections to the server for each database, and gives what changes in a DSN."""
    given, running = conninfo_to_dict(postgresql), []

    def bouncer(pool_size, mode="transaction"):
        folder = Path(
            folders.enter_context(TemporaryDirectory(prefix="pgbouncer-"))
        )  # short, as a socket's path has to be
        folder.chmod(0o777)
        (folder / "ini").write_text(
            f"[databases]\n* = host={given['host']} port={given.get('port', 5432)} user={given['user']}"
            f" pool_size={pool_size}\n"
            f"[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\nauth_type = any\n"
            f"pool_mode = {mode}\nlogfile = {folder}/log\nmax_client_conn = 100\n"
        )
        # It doesn't run as root, and only the server's user gets to the server's socket.
        owner = Path(given["host"]).stat().st_uid
        user = {"user": owner, "group": owner, "extra_groups": []} if os.geteuid() == 0 else {}
        process = subprocess.Popen([program, "-q", folder / "ini"], stderr=subprocess.DEVNULL, **user)
        running.append(process)
        through = {"host": str(folder), "port": 6432}

        def answers():
            assert process.poll() is None
            with suppress(psycopg.OperationalError):
                psycopg.connect(make_conninfo(postgresql, **through)).close()
                return True
            return False

        until(answers)
        return through

    with ExitStack() as folders:
        yield bouncer
        for process in running:
            process.terminate()
            process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def narrow(bouncer):
    """One with a single connection to the server."""
    return bouncer(1)


@pytest.fixture
def pooled(box, narrow):
    """The box behind it."""
    with sq.MessageBox.open(make_conninfo(box.dsn, **narrow), schema=box.schema) as opened:
        yield opened


def filled(box):
    define(box)
    box.publish(
        [
            sq.Message(type="order", context={"customer": f"c{at % 20}", "version": at // 20 + 1})
            for at in reversed(range(100))
        ]
    )


def in_order(found):
    groups = {}
    for customer, version in found:
        groups.setdefault(customer, []).append(version)
    return groups == {f"c{at}": [1, 2, 3, 4, 5] for at in range(20)}


@pytest.mark.dear
@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_more_threads_than_connections_of_the_server(box, pooled, mode):
    filled(pooled)
    work(
        pooled, lambda message, tx: see(pooled, message, tx), workers=4, run_length=3, mode=mode,
        done=lambda: len(seen(pooled)) == 100,
    )  # fmt: skip
    assert in_order(seen(box))
    assert invariants.broken(box) == []


def test_in_session_mode_each_connection_is_its_own(box, bouncer):
    with sq.MessageBox.open(make_conninfo(box.dsn, **bouncer(8, "session")), schema=box.schema) as opened:
        filled(opened)
        work(opened, lambda message, tx: see(opened, message, tx), workers=4, done=lambda: len(seen(opened)) == 100)
    assert in_order(seen(box))


def test_nothing_is_left_on_a_connection_that_others_get(pooled):
    filled(pooled)
    for _ in range(8):  # the driver would prepare what comes for the sixth time
        with pooled.session() as tx:
            list(tx.receive("shop"))
        pooled.publish(sq.Message(type="order", context={"customer": "z", "version": 1}))
    with pooled.more(1, "7s") as more, more.session() as tx:
        tx.receive("shop", wait=0.1)
        assert tx.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("7s",)
    with pooled.session() as tx:  # the same connection of the server, for there is only one
        assert tx.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
        assert tx.connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
        assert tx.connection.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
        assert tx.connection.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        ).fetchone() == (0,)
    assert rows(pooled, "SELECT FROM {schema}.waiters") == []


def test_who_waits_gets_what_comes(box, pooled):
    define(box)
    found = []

    def receive():
        with pooled.session() as tx:
            delivery = tx.receive("shop", wait=DEADLINE_S)
            found.extend(message.sequence for message in delivery or ())

    waiting = threading.Thread(target=receive)
    waiting.start()
    publish(pooled, 1)  # through the one connection, which the other one doesn't have while it waits
    waiting.join(DEADLINE_S)
    assert found == [1]


def test_coroutines_that_wait_get_what_comes(box, pooled):
    define(box)

    async def receive(face):
        async with face.session() as tx:
            return [message.sequence async for message in await tx.receive("shop", wait=DEADLINE_S)]

    async def use():
        async with sq.AsyncMessageBox(pooled) as face:
            waiting = [asyncio.create_task(receive(face)) for _ in range(3)]
            for customer in ("a", "b", "c"):
                await face.publish(sq.Message(type="order", context={"customer": customer, "version": 1}))
            assert await asyncio.gather(*waiting) == [[1], [1], [1]]

    asyncio.run(asyncio.wait_for(use(), DEADLINE_S))


def test_a_turn_that_takes_too_long_is_ended(box, pooled):
    define(box)
    publish(box, 1)
    go_on = threading.Event()

    def handle(message, tx):
        tx.connection.execute("SELECT 1")
        go_on.wait(DEADLINE_S)

    try:
        with working(sq.Worker(pooled, "shop", handle, workers=1, pace=sq.Pace(turn_limit=0.5))):
            until(lambda: rows(box, "SELECT FROM {schema}.faults WHERE error_class = 'TurnLimit'"))
            go_on.set()
    finally:
        go_on.set()


def test_what_came_through_sql_is_routed(box, pooled):
    define(box)
    rows(box, "SELECT {schema}.publish('order', '', %s)", '{"customer": "c1", "version": 1}')
    with pooled.session() as tx:
        assert [message.sequence for message in tx.receive("shop")] == [1]
    rows(box, "SELECT {schema}.publish('order', '', %s)", '{"customer": "c1", "version": 2}')
    assert pooled.tick().routed == 1


def test_an_application_s_connection_through_it_can_be_joined(pooled):
    filled(pooled)
    with psycopg.connect(pooled.dsn, prepare_threshold=None) as connection:
        with pooled.session(connection) as tx:
            assert [message.sequence for message in tx.receive("shop", limit=5)] == [1, 2, 3, 4, 5]
        connection.commit()


def test_rollbacks_of_dialogs_are_counted(box, pooled):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator"}),
        sq.Queue("inventory", group="conversation_group", retry=sq.Retry(rollbacks=2)),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    begun(pooled, b"poison")
    found = []
    for _ in range(3):
        with given_up(pooled.session()) as tx:
            found.append(tx.receive("inventory") is not None)
    assert found == [True, True, False]


def test_what_needs_a_connection_that_stays_the_same_says_so(box, pooled):
    define(box, activation=sq.Activation("shop:handle"))
    with pytest.raises(sq.EnvironmentProblem, match="connection pooler"):
        Slots(pooled)
    with pytest.raises(sq.EnvironmentProblem, match="connection pooler"):
        Serve(pooled).run()
    feed = PipelineFeed(pooled.dsn, pooled.schema, queue="shop")
    try:
        with pytest.raises(sq.EnvironmentProblem, match="leads to PostgreSQL itself"):
            feed.next("", 0, None)
    finally:
        feed.close()


def test_a_direct_connection_is_known_as_one(box, pooled):
    assert pooled.is_pooled
    assert not box.is_pooled
    with box.session() as tx:
        assert tx.connection.server_pid == tx.connection.info.backend_pid
    with pooled.session() as tx:
        assert tx.connection.server_pid != tx.connection.info.backend_pid
