"""Place numbers of an unordered queue with a gate: it counts its messages by group, without a gap, as each comes in."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.staging import Staging
from seriatim.operations import dead_letters, messages, retention
from tests.box.given_up import given_up
from tests.databases import box_with

TYPE = sq.MessageType("order", properties={"customer": "string", "to_all": "boolean"})
WORK = sq.Queue("work", policy=sq.Unordered(), group=sq.Group("customer", default="nobody"), gate="out")
OUT = sq.Queue("out", policy=sq.Standard(), group="origin_group", sequence="origin_ordinal")


def prepare(opened):
    opened.define(
        TYPE,
        OUT,
        WORK,
        sq.Queue("strict", policy=sq.Unordered(), group="customer", gate="out2"),
        replace(OUT, name="out2"),
        sq.Queue("plain", policy=sq.Unordered()),
        sq.Subscription("all", where="type = 'order'", to="work"),
        sq.Subscription("some", where="to_all = TRUE", to="strict"),
        sq.Subscription("too", where="to_all = TRUE", to="plain"),
    )


box = box_with(prepare)


def message(name=None, customer="c", location="crm", **context):
    given = {} if name is None else {"message_id": name}
    own = {"location": location} | ({} if customer is None else {"customer": customer})
    return sq.Message(type="order", context=own | context, **given)


@contextmanager
def transaction(box):
    """A transaction of its own that the test ends when it likes."""
    with psycopg.connect(box.dsn) as connection, box.session(connection) as tx:
        yield tx
        connection.rollback()


def numbers(box, queue="work"):
    """(key, number, message id) of what is in a queue, in this order."""
    rows = f"""SELECT entry.group_key, entry.ordinal, stored.message_id
        FROM {box.schema}.entries AS entry JOIN {box.schema}.spool AS stored USING (arrival_id, position)
        JOIN {box.schema}.queues AS place USING (queue_id) WHERE place.queue = %s ORDER BY 1, 2, 3"""
    with box.session() as tx:
        return [tuple(row) for row in tx.connection.execute(rows, [queue]).fetchall()]


def given(box, group="c", queue="work"):
    """The last number that was given in a group."""
    with box.session() as tx:
        queue_id = tx.access.known.current(tx.transaction).queue(queue).queue_id
        return tx.transaction.value("place_numbers_given", of_queue=queue_id, of_group=group)


def test_numbers_go_on_by_group_however_it_is_published(box):
    assert given(box) == 0
    box.publish(message("a"))  # by itself, one
    box.publish([message("b"), message("x", "d"), message("c")])  # by itself, several
    with box.session() as tx:  # at the commit
        tx.publish(message("d"))
        tx.publish([message("y", "d"), message("e")])
        assert tx.publish(message("a")).left_out == ["a"]
    with box.session() as tx:  # an application may have it numbered earlier
        tx.publish(message("f"))
        tx.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        tx.publish(message("g"))
    box.publish(message("h", None), unique="u")  # has the group of those without a key
    assert numbers(box) == [
        *(("c", n, name) for n, name in enumerate("abcdefg", 1)), ("d", 1, "x"), ("d", 2, "y"), ("nobody", 1, "h"),
    ]  # fmt: skip
    assert (given(box), given(box, "d"), given(box, "nobody")) == (7, 2, 1)


def test_what_is_handed_out_has_its_number_and_its_group(box):
    box.publish([message("a"), message("b", "d"), message("c")])
    with box.session() as tx:
        delivery = tx.receive("work", limit=3)
        assert delivery.group is None
        assert [(one.message_id, one.group, one.ordinal) for one in delivery] == [
            ("a", "c", 1),
            ("b", "d", 1),
            ("c", "c", 2),
        ]
    box.publish(message("d", to_all=True))
    with box.session() as tx:
        assert [(one.group, one.ordinal) for one in tx.receive("plain")] == [(None, None)]
        assert [(one.group, one.ordinal) for one in tx.receive("strict")] == [("c", 1)]
        assert [(one.group, one.ordinal) for one in tx.receive("work")] == [("c", 3)]


def test_nobody_is_locked_while_it_is_worked_on(box):
    box.publish([message("a"), message("b")])
    with transaction(box) as first, transaction(box) as second:
        assert [one.message_id for one in first.receive("work", limit=1).messages] == ["a"]
        assert [one.message_id for one in second.receive("work", limit=1).messages] == ["b"]
        box.publish(message("c"))
    assert [n for _, n, _ in numbers(box)] == [1, 2, 3]


def test_a_message_without_a_key_is_invalid_and_has_no_number(box):
    box.publish([message("a", "c", to_all=True), message("b", None, to_all=True), message("c", "c", to_all=True)])
    assert numbers(box, "strict") == [("c", 1, "a"), ("c", 2, "c")]
    assert [n for _, n, _ in numbers(box)] == [1, 2, 1]


def test_what_is_rolled_back_or_comes_again_leaves_no_gap(box):
    with given_up(box.session()) as tx:
        tx.publish([message("a"), message("b")])
    box.publish(message("c"))
    with box.session() as tx:
        with given_up(tx.connection.transaction()):
            tx.publish(message("d"))
        tx.publish([message("c"), message("e")])
    assert box.publish([message("c"), message("f"), message("e")]).left_out == ["c", "e"]
    assert numbers(box) == [("c", 1, "c"), ("c", 2, "e"), ("c", 3, "f")]


def test_of_two_locations_the_first_that_takes_the_key_comes_first(box):
    """Whoever has both a location and a key waits for none who waits for him."""
    with transaction(box) as first, transaction(box) as second, ThreadPoolExecutor(2) as threads:
        first.publish([message("b1", "b", "crm"), message("a1", "a", "crm")])
        second.publish([message("a2", "a", "erp"), message("b2", "b", "erp")])
        for one in [threads.submit(tx.connection.commit) for tx in (first, second)]:
            one.result(timeout=120)
    found = numbers(box)
    assert {(key, n) for key, n, _ in found} == {("a", 1), ("a", 2), ("b", 1), ("b", 2)}
    order = [name[1] for _, _, name in found]
    assert order in (["1", "2", "1", "2"], ["2", "1", "2", "1"])


def test_messages_through_sql_are_numbered_when_they_are_routed(box):
    with box.session() as tx:
        for name, to_all in (("a", True), ("b", False)):
            tx.connection.execute(
                f"SELECT {box.schema}.publish('order', ''::bytea, jsonb_build_object('customer', 'c', 'to_all', %s::boolean), %s)",
                [to_all, name],
            )
    box.publish(message("c"))
    box.tick()
    assert numbers(box) == [("c", 1, "c"), ("c", 2, "a"), ("c", 3, "b")]
    assert numbers(box, "strict") == [("c", 1, "a")]


def test_what_was_unrouted_or_is_put_back_when_its_place_has_passed_gets_the_next_number(box):
    box.publish([message("a", to_all=True), message("b", to_all=True)])
    box.drop(subscription="all")
    box.publish(message("c"))
    box.define(sq.Subscription("all", where="type = 'order'", to="work"))
    assert messages.resubmit(box).routed == 1
    assert numbers(box)[2:] == [("c", 3, "c")]
    messages.take_out(box, ["a"], queue="work", actor="me", reason="to see")
    (dead,) = dead_letters.dead_letters(box, "work")
    assert (dead.message_id, dead.group) == ("a", "c")
    box.tick()  # the gate has passed its place
    dead_letters.requeue(box, dead.entry_id, actor="me", reason="to see")
    assert numbers(box) == [("c", 2, "b"), ("c", 3, "c"), ("c", 4, "a")]


def test_the_messages_of_a_pipeline_are_numbered_when_its_batch_is_merged(box):
    box.publish(message("a"))
    with Staging(box.dsn, box.schema) as staging:
        for number, names in enumerate(["bc", "bcde"]):
            columns = {
                "message_id": list(names), "type": ["order"] * len(names), "body": [""] * len(names),
                "customer": [None if one == "d" else "c" for one in names],
            }  # fmt: skip
            part = staging.stage("w", number, [pa.RecordBatch.from_pydict(columns)], 0)
            staging.merge("w", number, [part])
    assert numbers(box) == [*(("c", n, name) for n, name in enumerate("abce", 1)), ("nobody", 1, "d")]


def test_many_groups_take_few_locks(box):
    box.publish([message(f"m{n}", f"c{n % 3000}") for n in range(6000)])
    found = numbers(box)
    assert sorted({(key, n) for key, n, _ in found}) == sorted((f"c{n}", k) for n in range(3000) for k in (1, 2))
    assert all((int(name[1:]) >= 3000) == (n == 2) for _, n, name in found)


def test_who_needs_many_groups_and_who_needs_few_never_wait_for_each_other_crosswise(box):
    def publishes(nth):
        for n in range(6):
            many = range(100) if nth % 2 else range(3)
            keys = [f"c{k}" for k in (many if n % 2 else reversed(many))]
            with box.session() as tx:
                tx.publish([message(f"{nth} {n} {key}", key, ("crm", "erp")[nth % 3 % 2]) for key in keys])

    with ThreadPoolExecutor(4) as threads:
        for one in [threads.submit(publishes, nth) for nth in range(4)]:
            one.result(timeout=120)
    found = numbers(box)
    for key in ("c0", "c2", "c3", "c99"):
        own = [n for its, n, _ in found if its == key]
        assert own == list(range(1, (24 if key in ("c0", "c2") else 12) + 1))


def test_the_clean_up_leaves_the_newest_run_of_a_group(box):
    for n in range(5):
        box.publish(message(f"a{n}"))
    box.publish(message("d", "d"))
    assert retention.purge(box).places == 4
    with box.session() as tx:
        rows = tx.connection.execute(
            f"SELECT group_key, first, count FROM {box.schema}.place_runs ORDER BY 1, 2"
        ).fetchall()
    assert [tuple(one) for one in rows] == [("c", 5, 1), ("d", 1, 1)]
    box.publish(message("e"))
    assert given(box) == 6


def publish_much(box, who, location, many):
    """Publish to one key: by itself and in transactions, one and several, again, and rolled back; a number for each round."""

    def own(name):
        return message(name, "k", location)

    for n in range(many):
        mine = [own(f"{who} {n} {k}") for k in range(1 + n % 3)]
        if n % 5 == 0:
            with given_up(box.session()) as tx:
                tx.publish(mine)
        if n % 2:
            with box.session() as tx:
                tx.publish(mine[:1])
                tx.publish(mine)
        else:
            box.publish(mine)
        if n % 7 == 0:
            box.publish(own("all the same"))
        yield n


PUBLISHER = """
import sys
import seriatim as sq
from tests.box.gates.test_numbers import publish_much
dsn, schema, who, location = sys.argv[1:]
with sq.MessageBox.open(dsn, schema=schema) as box:
    for n in publish_much(box, who, location, 10**6):
        print(n, flush=True)
"""


@pytest.mark.proves("place numbers stay without a gap where publishers are killed on their way")
def test_eight_publishers_two_locations_and_one_key_leave_no_gap(box):
    """Two of them are processes, and are killed on their way."""
    killed = [
        subprocess.Popen(
            [sys.executable, "-c", PUBLISHER, box.dsn, box.schema, f"killed {location}", location],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3],
        )
        for location in ("crm", "erp")
    ]  # fmt: skip
    try:
        with ThreadPoolExecutor(6) as threads:
            assert all(one.stdout.readline() for one in killed)
            published = [
                threads.submit(lambda n=n: list(publish_much(box, f"p{n}", ("crm", "erp")[n % 2], 20)))
                for n in range(6)
            ]
            for one in killed:
                assert [one.stdout.readline() for _ in range(10)][-1]
                one.kill()
            for one in published:
                one.result(timeout=120)
    finally:
        for one in killed:
            one.kill()
            one.communicate()
    with box.session() as tx:  # waits until what the killed ones had begun has ended
        tx.dispense("crm")
        tx.dispense("erp")
    found = numbers(box)
    assert [n for _, n, _ in found] == list(range(1, len(found) + 1))
    assert len(found) >= 1 + 6 * 39
    assert len({name for *_, name in found}) == len(found)
    with box.session() as tx:
        rows = f"""SELECT run.location, entry.ordinal FROM {box.schema}.entries AS entry
            JOIN {box.schema}.tickets AS run USING (arrival_id) JOIN {box.schema}.queues AS place USING (queue_id)
            WHERE place.queue = 'work' ORDER BY run.location, run.number + entry.position"""
        by_location = [tuple(row) for row in tx.connection.execute(rows).fetchall()]
    for location in ("crm", "erp"):
        own = [n for where, n in by_location if where == location]
        assert own == sorted(own)
    assert given(box, "k") == len(found)
