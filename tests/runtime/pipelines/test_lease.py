"""Two runs of a pipeline share a lease: one delivers, the other one drops what is delivered; a frozen one can deliver nothing. Without Spark."""

from __future__ import annotations

import logging
import threading

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seriatim.errors import CheckpointMismatch, Unavailable
from seriatim.pipeline.declared.pipeline import JournalPlace
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.pipelines import OutputTable
from seriatim.runtime.pipelines.lease import PipelineLease
from seriatim.spark.control.lease_state import LeaseState
from seriatim.spark.deliver.claimed import Claimed
from seriatim.spark.deliver.outbox import Outbox
from seriatim.spark.deliver.outgoing import Outgoing
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.targets import Folder
from tests.blocked import wait_until_blocked
from tests.regions.journal.given import let_pass
from tests.spark.deliver.test_ports import Clock

LEASE_S = 30.0
TABLE = OutputTable("parcels", {"group": "text", "sequence": "bigint", "n": "bigint", "body": "bytea"})


@pytest.fixture
def journal(box):
    with Journal.open(box.dsn, patience=10) as opened:
        with opened.transaction() as tx:
            tx.connection.execute(TABLE.made_by)
            tx.connection.execute("ALTER TABLE parcels ADD COLUMN place serial")
        yield opened


class Run:
    """A run in a region, of which one destination is delivered."""

    def __init__(self, journal, region, folder, sink=None):
        self.clock, self.told = Clock(), []
        place = JournalPlace("", region, lease_s=LEASE_S)
        self.lease = PipelineLease(journal, "status", place, {"parcels": TABLE}, self.told.append, self.clock)
        outbox = Outbox(Port("parcels", folder / region / "parcels", "parquet"), "status", f"id of {region}")
        self.outgoing = Outgoing("parcels", Claimed("parcels", self.lease, sink), outbox, self.clock)
        self.batches = 0
        self.lease.ask()

    def batch(self, *rows, size=100):
        """A batch of (group, number) that the run has released; of each message two rows where its number is above 100."""
        rows = [row for row in rows for _ in range(1 + (row[1] > 100))]
        port = self.outgoing.ready(["group", "sequence", "n", "body"])
        port.staging.mkdir(exist_ok=True)
        table = pa.table(
            {
                "group": [g for g, _ in rows],
                "sequence": [n for _, n in rows],
                "n": list(range(len(rows))),
                "body": [b"x"] * len(rows),
            }
        )
        pq.write_table(table, port.staging / "0", row_group_size=size)
        assert self.outgoing.put(self.batches, [("0", "part-00000.parquet")], len(rows), None)
        self.batches += 1

    def carry(self):
        self.clock.now += 1  # by which a run that stands by looks again
        self.outgoing.carry()

    @property
    def waiting(self):
        found = self.outgoing.waiting()
        return None if found is None else (found.rows, found.reason)


@pytest.fixture
def pair(journal, tmp_path):
    """A run that is active, in region a, and one that is passive, in region b."""
    return Run(journal, "a", tmp_path), Run(journal, "b", tmp_path)


def delivered(journal):
    with journal.transaction() as tx:
        return tx.connection.execute('SELECT "group", sequence FROM parcels ORDER BY place').fetchall()


P = [("p", n) for n in range(1, 9)]


def test_the_passive_run_drops_what_is_delivered_and_goes_on_where_the_other_one_has_ended(journal, pair):
    a, b = pair
    a.batch(*P[:3])
    b.batch(*P[:2])
    b.carry()
    assert b.waiting == (2, "passive: region a has the lease")
    a.carry()
    assert a.waiting is None
    b.batch(*P[2:4])
    b.batch(("q", 1))
    b.batch(*P[4:6])
    a.batch(("q", 1))
    a.carry()
    b.carry()
    # The batch behind the first one that waits is delivered, too, and dropped.
    assert b.waiting == (4, "passive: region a has the lease")
    a.lease.end()
    b.lease.ask()
    b.carry()
    assert b.waiting is None
    assert delivered(journal) == [*P[:3], ("q", 1), *P[3:6]]
    assert [one.in_words for one in b.told][-1] == "active in region b"
    a.batch(*P[3:7])
    a.lease.ask()
    a.carry()
    assert a.waiting == (4, "passive: region b has the lease")


def test_a_run_that_is_frozen_before_it_writes_is_refused_and_nothing_is_delivered_twice(journal, pair, monkeypatch):
    a, b = pair
    reached, thawed, insert = threading.Event(), threading.Event(), a.lease.insert

    def frozen(*given):
        reached.set()
        assert thawed.wait(180)
        insert(*given)

    monkeypatch.setattr(a.lease, "insert", frozen)
    a.batch(*P[:3])
    b.batch(*P[:2])
    b.batch(*P[2:4])
    carrier = threading.Thread(target=a.carry)
    carrier.start()
    assert reached.wait(180)
    let_pass(journal, LEASE_S + 1)
    b.lease.ask()
    b.carry()
    assert delivered(journal) == P[:4]
    thawed.set()
    carrier.join()
    assert delivered(journal) == P[:4]
    assert a.waiting[0] == 3
    assert "another region delivers by now" in a.waiting[1]
    a.lease.ask()
    a.carry()
    assert a.waiting is None
    assert (a.lease.state.state, b.lease.state.state) == ("passive", "active")


def test_a_delivery_that_was_given_up_and_still_commits_is_not_delivered_twice(journal, pair, box, monkeypatch):
    a, _ = pair
    insert = a.lease.insert

    def impatient(*given):
        with monkeypatch.context() as now:
            now.setattr("seriatim.regions.journal.connections.JournalConnection.cancel_safe", lambda *_, **__: None)
            now.setattr("seriatim.regions.journal.pipelines._WRITING_S", 1.0)
            now.setattr(journal.pipelines._connections, "patience", 1.0)
            insert(*given)

    a.batch(*P[:3])
    with psycopg.connect(box.dsn) as locking:
        locking.execute("LOCK TABLE parcels IN SHARE MODE")  # as CREATE INDEX does
        with monkeypatch.context() as first:
            first.setattr(a.lease, "insert", impatient)
            a.carry()
        wait_until_blocked(box.dsn, by=locking)
        assert "the server hasn't answered for 1 s" in a.waiting[1]
        a.lease.ask()
        carrier = threading.Thread(target=a.carry)
        carrier.start()
        wait_until_blocked(box.dsn, by=locking, many=2)
    carrier.join()
    with psycopg.connect(box.dsn) as locking:
        locking.execute("LOCK TABLE parcels")  # both have ended
    a.carry()
    assert delivered(journal) == P[:3]


def test_a_run_stops_by_its_own_clock(journal, pair):
    a, b = pair
    a.batch(*P[:2])
    a.clock.now += LEASE_S + 1
    a.carry()
    assert a.waiting == (2, "the lease has to be asked for again")
    assert delivered(journal) == []
    a.lease.ask()  # nobody has taken it
    a.carry()
    assert delivered(journal) == P[:2]
    b.lease.ask()
    assert b.lease.state.state == "passive"


def test_of_a_batch_that_is_delivered_in_part_the_rest_is(journal, pair, monkeypatch):
    a, b = pair
    monkeypatch.setattr("seriatim.spark.deliver.claimed.MOST_ROWS", 3)
    rows = [("p", 1), ("q", 101), ("p", 2), ("q", 102), ("p", 3), ("p", 4)]
    a.batch(*rows[:3])
    a.carry()
    b.batch(*rows, size=2)  # so that the rows of a message lie in two row groups
    a.lease.end()
    b.lease.ask()
    b.carry()
    assert b.waiting is None
    whole = [row for row in rows for _ in range(1 + (row[1] > 100))]
    assert sorted(delivered(journal)) == sorted(whole)
    assert [row for row in delivered(journal) if row[0] == "p"] == P[:4]


def test_another_sink_gets_the_rest_and_what_it_has_is_noted_afterwards(journal, tmp_path):
    class Sink:
        def __init__(self):
            self.rows, self.failing = [], False

        def claim(self):
            pass

        def take(self, batch, folder):
            self.rows += [
                (row["group"], row["sequence"]) for row in pq.read_table(folder / "part-00000.parquet").to_pylist()
            ]
            if self.failing:
                raise OSError("full")

    sink = Sink()
    a, b = Run(journal, "a", tmp_path, sink), Run(journal, "b", tmp_path, sink)
    a.batch(*P[:3])
    b.batch(*P[:4])
    a.carry()
    assert sink.rows == P[:3]
    a.lease.end()
    b.lease.ask()
    sink.failing = True
    b.carry()
    assert b.waiting == (4, "full")
    assert journal.pipelines.through("status", "parcels", ["p"]) == {"p": 3}
    sink.failing = False
    b.carry()
    assert (b.waiting, sink.rows) == (None, [*P[:3], P[3], P[3]])  # at least once
    assert journal.pipelines.through("status", "parcels", ["p"]) == {"p": 4}


def test_a_sink_under_a_lease_is_asked_whether_it_is_ahead_of_the_checkpoint(journal, tmp_path):
    port = Port("parcels", tmp_path / "out", "parquet")
    port.folder(7).mkdir(parents=True)
    run = Run(journal, "a", tmp_path, Folder(port, "status", "id of a"))
    run.outgoing.check_age(7)
    with pytest.raises(CheckpointMismatch, match="the port has batch 7, and the checkpoint would go on with batch 6"):
        run.outgoing.check_age(6)
    Run(journal, "a", tmp_path / "table").outgoing.check_age(0)


def test_while_the_journal_is_away_nobody_delivers_and_everybody_says_so(journal, pair, monkeypatch, caplog):
    a, b = pair
    caplog.set_level(logging.INFO, "seriatim.pipeline")
    known = journal.pipelines
    connected = known._connections._connected

    def away():
        raise Unavailable("the journal can't be reached", where="here")

    for one in known._connections._idle:
        one.close()
    known._connections._idle.clear()
    monkeypatch.setattr(known._connections, "_connected", away)
    a.batch(*P[:2])
    a.clock.now += LEASE_S + 1
    for run in pair:
        run.batch(*P[2:3])
        run.lease._ask_patiently()
        run.carry()
        assert "nobody delivers: here: the journal can't be reached" in run.waiting[1]
        assert run.outgoing.waiting().stands_by
    monkeypatch.setattr(known._connections, "_connected", connected)
    let_pass(journal, LEASE_S + 1)
    b.lease._ask_patiently()
    a.lease._ask_patiently()
    b.carry()
    assert delivered(journal) == P[2:3]
    events = [one.event for one in caplog.records if one.name == "seriatim.pipeline"]
    assert events == ["pipeline_undecided", "pipeline_undecided", "pipeline_active", "pipeline_passive"]


def test_a_table_that_refuses_a_row_makes_its_destination_wait(journal, pair):
    a, _ = pair
    with journal.transaction() as tx:
        tx.connection.execute("ALTER TABLE parcels ADD CHECK (sequence < 2)")
    a.batch(*P[:2])
    a.carry()
    assert a.waiting[0] == 2
    assert "check constraint" in a.waiting[1]
    assert not a.outgoing.waiting().stands_by
    assert delivered(journal) == []


def test_the_thread_renews_the_lease_and_gives_it_back(journal, tmp_path):
    place = JournalPlace("", "a", lease_s=1.0)
    told = threading.Semaphore(0)
    lease = PipelineLease(journal, "status", place, {}, lambda _: told.release())
    lease.begin()
    for _ in range(3):  # asked for, and renewed twice
        assert told.acquire(timeout=180)
    while lease.held() is None:  # where the machine stood still for a second it was over, and is renewed
        assert told.acquire(timeout=180)
    assert journal.pipelines.known("status")[0].region == "a"
    lease.end()
    assert (lease.held(), journal.pipelines.known("status")[0].region) == (None, None)


def test_what_a_run_knows_of_its_lease_is_kept_for_people(tmp_path):
    assert LeaseState.of(tmp_path) is None
    state = LeaseState("passive", "b", "a", "host", "2026-11-28T01:00:00Z")
    state.keep(tmp_path)
    assert LeaseState.of(tmp_path) == state
    assert state.in_words == "passive: region a has the lease until 2026-11-28T01:00:00Z"
    (tmp_path / "lease.json").write_text('{"state": "asleep", "region": "a"}')
    assert LeaseState.of(tmp_path) is None
