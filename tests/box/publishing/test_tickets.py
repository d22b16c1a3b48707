"""Tickets: without holes and in the order of commits, at once (`dispense`) and at commit (`publish`)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest

import seriatim as sq
from seriatim.operations.box_status import box_status
from tests.blocked import wait_until_blocked
from tests.box.given_up import given_up

LAST = 2**53 - 1
PATIENCE_S = 120.0


@contextmanager
def transaction(box):
    """A transaction of its own that the test ends when it likes; the schema's name stands for itself."""
    with psycopg.connect(box.dsn) as connection, box.session(connection) as tx:
        yield tx
        connection.rollback()


def message(name="m", location="crm", **context):
    return sq.Message(type="order", message_id=name, context={"location": location, **context})


def numbered(box):
    """What everybody can see: (epoch, number, message id), by ticket."""
    with box.session() as tx:
        rows = f"SELECT epoch, number, message_id FROM {box.schema}.messages ORDER BY location, epoch, number"
        return tx.connection.execute(rows).fetchall()


def test_numbers_begin_at_one_and_go_on(box):
    with box.session() as tx:
        assert tx.dispense("crm", count=100) == sq.Tickets("crm", 0, 1, 100)
        assert tx.dispense("crm") == sq.Tickets("crm", 0, 101, 101)
        assert tx.dispense("erp") == sq.Tickets("erp", 0, 1, 1)
    with box.session() as tx:
        assert tx.dispense("crm") == sq.Tickets("crm", 0, 102, 102)


def test_what_is_rolled_back_leaves_no_hole(box):
    with given_up(box.session()) as tx:
        tx.dispense("crm", count=5)
        tx.publish([message()])
    with box.session() as tx:
        assert tx.dispense("crm").first == 1
        with given_up(tx.connection.transaction()):
            tx.dispense("crm", count=5)
            tx.publish([message()])
        assert tx.dispense("crm").first == 2
    assert numbered(box) == []


@pytest.mark.parametrize("first_commits", [True, False])
def test_two_first_transactions_of_a_location_at_once(box, first_commits):
    with ThreadPoolExecutor(1) as thread, transaction(box) as first:
        assert first.dispense("crm", count=3).first == 1

        def second():
            with box.session() as tx:
                return tx.dispense("crm").first

        waiting = thread.submit(second)
        wait_until_blocked(box.dsn, by=first.connection)
        if first_commits:
            first.connection.commit()
        else:
            first.connection.rollback()
        assert waiting.result() == (4 if first_commits else 1)


def test_dispensing_holds_the_location_and_no_other(box):
    with transaction(box) as first, transaction(box) as second:
        first.dispense("crm")
        second.connection.execute("SET LOCAL lock_timeout = '20ms'")
        assert second.dispense("erp").first == 1
        with pytest.raises(sq.Unavailable):
            second.dispense("crm")


def test_publishing_holds_nothing_until_commit(box):
    with transaction(box) as first, transaction(box) as second:
        first.publish([message("began first")])
        second.connection.execute("SET LOCAL lock_timeout = '5s'")
        second.publish([message("committed first")])
        second.connection.commit()
        first.connection.commit()
    assert numbered(box) == [(0, 1, "committed first"), (0, 2, "began first")]


def test_a_batch_is_numbered_in_its_order_for_each_location(box):
    with box.session() as tx:
        batch = [message(f"{location}{n}", location) for n in range(50) for location in ("b", "a")]
        assert tx.publish(batch) == [one.message_id for one in batch]
        tx.publish([message("a50", "a")])
        tx.dispense("a")
        tx.publish([message("a51", "a")])
    # What is dispensed has its number at once; what is published gets its own behind it, at commit.
    found = [(number, name) for _, number, name in numbered(box)]
    assert found == [(n + 2, f"a{n}") for n in range(52)] + [(n + 1, f"b{n}") for n in range(50)]


def test_an_application_may_have_it_numbered_earlier(box):
    with box.session() as tx:
        tx.publish([message("a")])
        tx.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert tx.dispense("crm").first == 2
        tx.publish([message("b")])
    assert numbered(box) == [(0, 1, "a"), (0, 3, "b")]


def test_locations_are_taken_in_one_order_at_commit(box):
    """Whatever the order of publishing; so two transactions never wait for each other crosswise."""
    with ThreadPoolExecutor(1) as thread, transaction(box) as holder, transaction(box) as publisher:
        holder.dispense("a")
        publisher.publish([message("1", "b")])
        publisher.publish([message("2", "a")])
        committing = thread.submit(publisher.connection.commit)
        try:
            wait_until_blocked(box.dsn, by=holder.connection)  # on a, and b is not held yet
            with transaction(box) as other:
                other.connection.execute("SET LOCAL lock_timeout = '1s'")
                assert other.dispense("b").first == 1
        finally:
            holder.connection.rollback()
        committing.result()
    assert [number for _, number, _ in numbered(box)] == [1, 1]


class TestTurnOver:
    def test_a_run_over_it(self, box):
        box.define(sq.Location("crm", last_number=10))
        with box.session() as tx:
            assert tx.dispense("crm", count=7) == sq.Tickets("crm", 0, 1, 7)
            tickets = tx.dispense("crm", count=5)
        assert (tickets.epoch, tickets.first, tickets.last_epoch, tickets.last) == (0, 8, 1, 2)
        assert tickets.ranges == (sq.Tickets("crm", 0, 8, 10), sq.Tickets("crm", 1, 1, 2))
        assert len(tickets) == 5
        assert list(tickets) == [("crm", 0, 8), ("crm", 0, 9), ("crm", 0, 10), ("crm", 1, 1), ("crm", 1, 2)]

    @pytest.mark.parametrize("last_number", [1, 2, 3, 10])
    def test_all_numbers_in_turn(self, box, last_number):
        box.define(sq.Location("crm", last_number=last_number))
        found = []
        for count in (1, last_number, 1, 7, 2 * last_number, 3):
            with box.session() as tx:
                tickets = tx.dispense("crm", count=count)
            assert len(tickets) == count
            found += tickets
        assert found == [("crm", place // last_number, place % last_number + 1) for place in range(len(found))]

    def test_of_published_messages(self, box):
        box.define(sq.Location("crm", last_number=3))
        with box.session() as tx:
            tx.publish([message(str(n)) for n in range(8)])
        assert numbered(box) == [(n // 3, n % 3 + 1, str(n)) for n in range(8)]
        assert [(one.epoch, one.next_number) for one in box_status(box).locations] == [(2, 3)]

    def test_at_the_last_number_there_is(self, box):
        with box.session() as tx:
            assert tx.dispense("crm", count=LAST - 1).last == LAST - 1
            tickets = tx.dispense("crm", count=3)
            assert list(tickets) == [("crm", 0, LAST), ("crm", 1, 1), ("crm", 1, 2)]
            assert len(tx.dispense("crm", count=LAST)) == LAST
            assert tx.dispense("crm") == sq.Tickets("crm", 2, 3, 3)


class TestDefine:
    def test_again_changes_nothing(self, box):
        for _ in range(2):
            box.define(sq.Location("crm", last_number=10), sq.Location("erp"))
            with box.session() as tx:
                tx.dispense("crm", count=6)
        assert [(one.location, one.epoch, one.next_number, one.last_number) for one in box_status(box).locations] == [
            ("crm", 1, 3, 10),
            ("erp", 0, 1, LAST),
        ]

    def test_the_last_number_may_change_while_none_was_given(self, box):
        box.define(sq.Location("crm", last_number=10))
        box.define(sq.Location("crm", last_number=5))
        with box.session() as tx:
            assert len(tx.dispense("crm", count=6).ranges) == 2
        with pytest.raises(sq.ActionRefused, match="last number of location crm"):
            box.define(sq.Location("erp"), sq.Location("crm", last_number=10))
        assert [one.location for one in box_status(box).locations] == ["crm"]  # all or none

    def test_what_cannot_be_defined(self, box):
        with pytest.raises(sq.UsageError, match="str can't be defined"):
            box.define("crm")

    @pytest.mark.parametrize("last_number", [0, 2**53, True, 1.5, None])
    def test_a_last_number_out_of_range(self, last_number):
        with pytest.raises(sq.UsageError, match="last_number can't be"):
            sq.Location("crm", last_number=last_number)


@pytest.mark.parametrize("count", [0, -1, 2**53, True, 1.0, None])
def test_a_count_that_cannot_be(box, count):
    with pytest.raises(sq.UsageError, match="cannot dispense"), box.session() as tx:
        tx.dispense("crm", count=count)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 129, "\ud800", None, 7])
def test_a_name_that_is_none(box, name):
    with pytest.raises(sq.UsageError, match="not a location's name"), box.session() as tx:
        tx.dispense(name)


def test_a_snapshot_that_is_kept_gets_no_number_twice(box):
    with box.session() as tx:
        tx.dispense("crm")
    with transaction(box) as old:
        old.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        old.connection.execute(f"SELECT FROM {box.schema}.tickets")
        with box.session() as tx:
            assert tx.dispense("crm").first == 2
        with pytest.raises(sq.Unavailable, match="repeat"):
            old.dispense("crm")
    with box.session() as tx:
        assert tx.dispense("crm").first == 3


def test_sixteen_threads_of_which_half_roll_back_leave_no_hole_and_no_inversion(box):
    each = 40
    ends = threading.Event()

    def publish(thread):
        for n in range(each):
            if (thread + n) % 2 == 0 and n % 3 == 0:
                box.publish(message(f"{thread}/{n}/0"))  # numbered at once
                continue
            with given_up(box.session()) if (thread + n) % 2 else box.session() as tx:
                tx.publish([message(f"{thread}/{n}/{k}") for k in range(n % 3 + 1)])

    def look():
        """Whatever is seen when: with a number all lower ones are there, too."""
        looks = 0
        while not ends.is_set():
            found = [number for _, number, _ in numbered(box)]
            assert found == list(range(1, len(found) + 1))
            looks += 1
        return looks

    with ThreadPoolExecutor(17) as threads:
        looking = threads.submit(look)
        publishing = [threads.submit(publish, thread) for thread in range(16)]
        try:
            for one in publishing:
                one.result()
        finally:
            ends.set()
        assert looking.result() > 0
    committed = [
        f"{thread}/{n}/{k}"
        for thread in range(16)
        for n in range(each)
        if (thread + n) % 2 == 0
        for k in range(n % 3 + 1)
    ]
    found = numbered(box)
    assert [number for _, number, _ in found] == list(range(1, len(committed) + 1))
    assert sorted(name for _, _, name in found) == sorted(committed)


def test_numbers_that_are_dispensed_are_in_the_order_of_commits(box):
    order = []

    def take(thread):
        for n in range(20):
            with given_up(box.session()) if (thread + n) % 2 else box.session() as tx:
                first = tx.dispense("crm", count=2).first
                if (thread + n) % 2 == 0:
                    order.append(first)  # nobody else holds the location now

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(take, thread) for thread in range(8)]:
            done.result()
    assert order == list(range(1, 2 * len(order), 2))
    assert len(order) == 80


def test_no_table_is_read_whole_however_large_it_grows(box):
    """A plan that was made while the tables were empty has to be good when they are large."""
    reads = (
        "SELECT sum(seq_scan), sum(idx_scan) > 0 FROM pg_stat_user_tables "
        "WHERE schemaname = %s AND relname IN ('tickets', 'arrivals')"
    )
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        # As the housekeeping of PostgreSQL leaves it: known to be small, where reading all of it is cheapest.
        connection.execute(f"VACUUM ANALYZE {box.schema}.tickets, {box.schema}.arrivals")

        def whole_reads():
            connection.execute("SELECT pg_stat_force_next_flush()")
            return connection.execute(reads, [box.schema]).fetchone()

        before, _ = whole_reads()
        for n in range(20):
            with connection.transaction(), box.session(connection) as tx:
                tx.publish([message(str(n))])
                tx.dispense("crm")
        assert whole_reads() == (before, True)


def test_nor_by_those_who_publish_alone(box):
    reads = (
        "SELECT sum(n_tup_ins), sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'tickets'"
    )
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"VACUUM ANALYZE {box.schema}.tickets")
        before = connection.execute(reads, [box.schema]).fetchone()
        with sq.MessageBox.open(box.dsn, schema=box.schema) as counted:
            for n in range(20):
                counted.publish([message(f"{n}a"), message(f"{n}b")])
        deadline = time.monotonic() + PATIENCE_S
        while (now := connection.execute(reads, [box.schema]).fetchone())[0] < before[0] + 20:
            assert time.monotonic() < deadline  # a connection tells what it has read at its end
    assert now == (before[0] + 20, before[1])
