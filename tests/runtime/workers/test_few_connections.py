"""As many connections as threads, or fewer: nobody holds one and waits for another."""

from __future__ import annotations

import threading

import pytest
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.box.faults.lease import claim
from seriatim.operations import invariants
from seriatim.runtime.workers.chores import Chores
from tests.box.given_up import given_up
from tests.box.shop import define, publish, rows, see, seen
from tests.dialogs.talking import begun
from tests.runtime.workers.test_worker import DEADLINE_S, until, work

pytestmark = pytest.mark.dear


@pytest.fixture
def limited(box):
    """Gives the box as a role has it that may have so many connections."""
    name = f"{box.schema}_few"
    rows(box, f"CREATE ROLE {name} LOGIN; GRANT seriatim TO {name}")
    opened = []

    def limited(connections, most=None):
        rows(box, f"ALTER ROLE {name} CONNECTION LIMIT {connections}")
        dsn = box.dsn.replace("seriatim@", f"{name}@")
        opened.append(sq.MessageBox.open(dsn, schema=box.schema, connections=most or connections))
        return opened[-1]

    yield limited
    for one in opened:
        one.close()
    rows(box, f"DROP OWNED BY {name}; DROP ROLE {name}")


def filled(box):
    """Twenty groups, five messages in each, in the wrong order."""
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


@pytest.mark.parametrize(("connections", "threads"), [(1, 1), (1, 3), (4, 4)])
def test_a_worker_goes_on_with_as_many_as_there_are(box, limited, connections, threads):
    filled(box)
    few = limited(connections, 1)
    # The box that the worker is given is used as well: its connections and the worker's are the same ones.
    work(
        few,
        lambda message, tx: see(few, message, tx),
        workers=threads,
        run_length=3,
        done=lambda: len(seen(few)) == 100,
    )
    assert in_order(seen(box))
    assert invariants.broken(box) == []


@pytest.mark.parametrize("connections", [1, 4])
def test_threads_that_receive_go_on_and_no_other_connection_is_made(box, limited, connections):
    filled(box)
    few = limited(connections + 5)  # some are over: nobody asks for them
    done, errors, used = [], [], set()
    of_its = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'threads'"

    with sq.MessageBox.open(
        make_conninfo(few.dsn, application_name="threads"), schema=few.schema, connections=connections
    ) as own:

        def receive():
            try:
                while len(done) < 100:
                    with own.session() as tx:
                        used.add(tx.connection.info.backend_pid)
                        found = list(tx.receive("shop", limit=3) or ())
                        done.extend((message.context["customer"], message.sequence) for message in found)
            except sq.SeriatimError as error:
                errors.append(error)

        threads = [threading.Thread(target=receive) for _ in range(connections)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(DEADLINE_S)
        assert errors == []
        assert len(done) == 100
        assert in_order(done)
        assert len(used) <= connections
        assert 1 <= rows(box, of_its)[0][0] <= connections


def test_what_has_to_be_done_first_is_done_on_the_one_there_is(box, limited):
    define(box)
    rows(
        box,
        "SELECT {schema}.publish('order', '', jsonb_build_object('customer', 'c' || n % 20, 'version', n / 20 + 1))"
        " FROM generate_series(0, 99) AS n",
    )
    few = limited(1)
    found = []
    while len(found) < 100:
        with few.session() as tx:
            delivery = tx.receive("shop", limit=2)
            assert delivery is not None
            found += [(message.context["customer"], message.sequence) for message in delivery]
    assert in_order(found)
    assert few.tick().routed == 0
    assert invariants.broken(box) == []


def test_in_the_midst_of_a_transaction_it_is_done_in_that(box, limited):
    define(box)
    rows(box, "SELECT {schema}.publish('order', '', %s)", '{"customer": "c1", "version": 1}')
    publish(box, *range(2, 40), customer="behind")  # a hole each: nothing to hand out
    few = limited(1)
    with few.session() as tx:
        tx.connection.execute(f"INSERT INTO {box.schema}_seen (customer) VALUES ('before')")
        assert [message.sequence for message in tx.receive("shop", limit=5)] == [1]
    with few.session() as tx:
        tx.connection.execute("SELECT 1")
        assert tx.receive("shop") is None
    assert seen(box) == [("before", None)]
    assert invariants.broken(box) == []


def test_a_lease_that_ran_out_is_taken_away_on_the_one_there_is(box, limited):
    define(box, retry=sq.Retry(5, delay="0s"))
    publish(box, 1, 2)
    few = limited(1)
    handled = []

    def handle(message, tx):
        handled.append(message.sequence)

    work(few, handle, mode="leased", workers=1, lease="1s")
    publish(box, 3)
    with few.session() as tx:
        claim(tx.transaction, tx.receive("shop"), 1, "gone", 1_000)  # a worker that is gone
    until(lambda: rows(few, "SELECT FROM {schema}.leases WHERE expires_at < clock_timestamp()"))
    with few.session() as tx:
        delivery = tx.receive("shop", wait=60)
        assert delivery.messages[0].attempt == 2
        delivery.done()


def test_a_rollback_is_counted_where_nothing_else_can_be_opened(box, limited):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator"}),
        sq.Queue("inventory", group="conversation_group", retry=sq.Retry(rollbacks=3)),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    begun(box, b"poison")
    few, times = limited(1), 0
    while times < 10:
        with given_up(few.session()) as tx:
            if tx.receive("inventory") is None:
                break
            times += 1
    assert times == 3
    (found,) = rows(box, "SELECT action, reason FROM {schema}.operator_log")
    assert found.action == "suspend"
    assert found.reason.endswith("rolled back 3 times in a row")


def test_a_chore_needs_one_connection(box, limited, caplog):
    define(box)
    publish(box, 1)
    few = limited(1)
    Chores(few)._step()
    assert rows(box, "SELECT FROM {schema}.samples") != []
    assert [one for one in caplog.records if one.name == "seriatim.worker"] == []


def test_what_a_worker_has_is_given_back_when_it_ends(box):
    define(box)
    publish(box, 1)
    before = box._connections._shared.pool.max_size
    work(box, lambda message, tx: None, workers=2)
    assert box._connections._shared.pool.max_size == before


def test_a_worker_outlives_the_box_that_it_was_given(postgresql, box):
    define(box)
    own = sq.MessageBox.open(box.dsn, schema=box.schema)
    more = own.more(2, "60s")
    own.close()
    with pytest.raises(sq.UsageError, match="closed"):
        own.definitions()
    with more.session() as tx:
        assert tx.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1min",)
    more.close()
    with pytest.raises(sq.UsageError, match="closed"):
        more.definitions()


def test_the_limit_of_a_turn_is_the_worker_s_alone(box):
    with box.more(1, "7s") as more, more.session() as tx:
        limit = tx.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone()
        pid = tx.connection.info.backend_pid
    assert limit == ("7s",)
    with box.session() as tx:
        assert tx.connection.info.backend_pid == pid
        assert tx.connection.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
