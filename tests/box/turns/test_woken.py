"""Who has waited gets what comes without a turn where no rule has to be asked, and all is as after one."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import seriatim as sq
from seriatim.box.turns import waiting
from seriatim.operations import groups, invariants
from tests.box.shop import define, publish, rows
from tests.runtime.workers.test_worker import until

PATIENCE_S = 120


def remembered(box, group):
    """What is remembered of a group, but for times."""
    query = (
        "SELECT flags, first, next, mark, last, ordinal, since, reports, skipped, arrivals, decided, incarnation, due_at, "
        "ready_rank FROM {schema}.known_groups WHERE group_key = %s"
    )
    return rows(box, query, group)


def received(box, group, wait=None):
    """What a session receives of a group."""
    with box.session() as tx:
        delivery = tx.receive("shop", limit=2, group=group, wait=wait)
        return [(one.context["version"], one.ordinal, one.sequence, one.late) for one in delivery]


def waited(box, group, publishing):
    """The same by a session that waits before anything comes."""
    with ThreadPoolExecutor(1) as thread, psycopg.connect(box.dsn, autocommit=True) as watching:
        waiting = thread.submit(received, box, group, PATIENCE_S)
        while watching.execute(f"SELECT count(*) FROM {box.schema}.waiters").fetchone() == (0,) and not waiting.done():
            pass
        publishing()
        return waiting.result(PATIENCE_S)


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (sq.Fifo(), {"sequence": None}),
        (sq.Standard(), {}),
        (sq.Fifo(), {"group": sq.Group("customer", by_type={"paid": sq.BestEffort()})}),
    ],
    ids=["fifo", "standard", "by type"],
)
def test_a_waiting_receiver_gets_what_a_turn_would_give(box, policy, options):
    define(box, policy=policy, **options)
    key = "order/{}".format if "group" in options else str
    plain, woken = [], []
    for number in (1, 2, 3):
        woken += waited(box, key("woken"), lambda number=number: publish(box, number, customer="woken"))
        publish(box, number, customer="plain")
        plain += received(box, key("plain"))
    assert woken == plain
    assert [ordinal for _, ordinal, *_ in plain] == [1, 2, 3]
    assert remembered(box, key("woken")) == remembered(box, key("plain"))
    assert invariants.broken(box) == []


def test_it_is_handed_out_straight_from_where_it_arrived(box):
    define(box, policy=sq.Fifo(), sequence=None)
    with box.session() as tx:
        assert tx.receive("shop") is None  # reads what is defined
    dsn = f"{box.dsn}&options=-c%20track_functions%3Dall"
    with sq.MessageBox.open(dsn, schema=box.schema) as counted:
        for number in range(1, 8):
            assert waited(counted, "c1", lambda number=number: publish(box, number))[0][0] == number
    # Its connections tell at their end. Who is about to wait looks once more, and may find in that way what came just then.
    query = "SELECT calls FROM pg_stat_user_functions WHERE schemaname = %s AND funcname = 'hand_out_fifo'"
    with psycopg.connect(box.dsn, autocommit=True) as watching:
        deadline = time.monotonic() + PATIENCE_S
        while watching.execute(query, [box.schema]).fetchone() is None:
            assert time.monotonic() < deadline


def test_a_group_that_stands_is_not_handed_out_of(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, customer="c1")
    with box.session() as tx:
        assert [one.context["version"] for one in tx.receive("shop")] == [1]
    groups.suspend(box, "shop", "c1", actor="ann", reason="a test")

    def publish_both():
        publish(box, 2, customer="c1")
        publish(box, 3, customer="c2")

    assert waited(box, None, publish_both) == [(3, 1, None, False)]
    groups.resume(box, "shop", "c1", actor="ann", reason="a test")
    with box.session() as tx:
        assert [one.context["version"] for one in tx.receive("shop", group="c1")] == [2]
    assert invariants.broken(box) == []


#: Those of PostgreSQL's processes that wait; they end a moment after their client was killed.
BACKENDS = (
    "SELECT count(*) AS n FROM pg_stat_activity WHERE 'seriatim_' || pid IN (SELECT channel FROM {schema}.waiters)"
)

#: Waits in so many threads; whoever starts it kills it.
WAITER = """
import sys, threading
import seriatim as sq

def wait():
    with box.session() as tx:
        tx.receive("shop", wait=3600)

box = sq.MessageBox.open(sys.argv[1], schema=sys.argv[2])
threads = [threading.Thread(target=wait) for _ in range(4)]
for one in threads:
    one.start()
"""


@pytest.mark.proves("a waiting receiver is woken though the one before it in line was killed")
@pytest.mark.dear
@pytest.mark.parametrize("through_sql", [False, True], ids=["published", "through SQL"])
def test_who_waits_is_called_though_others_were_killed_that_waited_before(box, monkeypatch, through_sql):
    monkeypatch.setattr(waiting, "_LOOK_S", 3600.0)  # what nobody is called for is not found
    define(box)
    killed = subprocess.Popen([sys.executable, "-c", WAITER, box.dsn, box.schema])
    waiters = "SELECT count(*) AS n FROM {schema}.waiters"
    until(lambda: rows(box, waiters)[0].n == 4)
    killed.kill()
    killed.wait()
    until(lambda: rows(box, BACKENDS)[0].n == 0)
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(received, box, None, 3600)
        until(lambda: rows(box, waiters)[0].n == 5)
        if through_sql:
            rows(box, "SELECT {schema}.publish('order', '', %s)", '{"customer": "c1", "version": 1}')
        else:
            publish(box, 1)
        try:
            assert [version for version, *_ in found.result(PATIENCE_S)] == [1]
        finally:
            rows(box, "SELECT pg_terminate_backend(substr(channel, 10)::integer) FROM {schema}.waiters")
    assert rows(box, waiters)[0].n == 0


#: Waits again and again, and writes down what it gets; whoever starts it kills it.
WAITING_WORKER = """
import sys
import seriatim as sq
from tests.box.shop import see

with sq.MessageBox.open(sys.argv[1], schema=sys.argv[2]) as box:
    while True:
        with box.session() as tx:
            for message in tx.receive("shop", wait=3600) or ():
                see(box, message, tx)
"""


@pytest.mark.proves("the receivers that are left get every message while others are killed waiting")
def test_processes_that_wait_are_killed_and_the_others_get_all(box):
    define(box)
    starts = [sys.executable, "-c", WAITING_WORKER, box.dsn, box.schema]
    processes = [subprocess.Popen(starts) for _ in range(4)]
    killed, seen = processes[:3], "SELECT customer FROM {schema}_seen"
    try:
        until(lambda: rows(box, "SELECT count(*) AS n FROM {schema}.waiters")[0].n == 4)
        for n in range(30):
            publish(box, 1, customer=f"c{n}")
            if n % 10 == 5:  # the one that was called for it perhaps, or one that waits
                killed.pop().kill()
        until(lambda: len(rows(box, seen)) == 30)
        assert sorted(one.customer for one in rows(box, seen)) == sorted(f"c{n}" for n in range(30))
    finally:
        for one in processes:
            one.kill()
            one.wait()
    until(lambda: rows(box, BACKENDS)[0].n == 0)
    # Those that are left of who was killed are taken away by whoever brings a message, and keep nobody from it.
    publish(box, 2, customer="c0")
    assert received(box, "c0")[0][0] == 2
    assert rows(box, "SELECT count(*) AS n FROM {schema}.waiters")[0].n == 0
    assert invariants.broken(box) == []
