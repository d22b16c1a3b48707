"""Who has a queue that a pipeline reads, and what it gets after another one that was killed, or took it over."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.operations import invariants
from tests.box.fed import define, feed


@pytest.fixture
def queue(box):
    define(box)
    return box


def publish(box, *versions):
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "a", "version": one}) for one in versions)


def versions(reading, batch, *, after=0):
    """What a run gets of some batches."""
    reader, through = batch
    properties = reading.properties()
    found = []
    for part in reading.parts(reader, after, through):
        for rows in reading.read(after, through, part, properties):
            found += rows.column("version").to_pylist()
    return sorted(found)


@pytest.fixture(params=["orders", "loose"])
def name(request):
    return request.param


def test_a_run_that_was_killed_before_its_checkpoint_had_anything_loses_nothing(queue, name):
    publish(queue, 1, 2, 3)
    with feed(queue, name) as killed:
        killed.next("", 0, None)
    with feed(queue, name) as killed:  # and once more
        killed.next("", 0, None)
    with feed(queue, name) as reading:
        reader, batch, messages = reading.next("", 0, None)
        assert messages == 3
        assert versions(reading, (reader, batch)) == [1, 2, 3]
        assert reading.next(reader, batch, None) == (reader, batch, 0)
    assert invariants.broken(queue) == []


def test_whoever_takes_a_queue_over_begins_with_what_was_in_hand(queue, name):
    publish(queue, 1, 2)
    with feed(queue, name) as killed:
        first = killed.next("", 0, None)[:2]
        killed.done(*first)
        publish(queue, 3, 4)
        second = killed.next(*first, None)
        assert second[1:] == (2, 2)
    with feed(queue, name) as reading, pytest.raises(sq.ActionRefused, match="belongs to the pipeline 'capture'"):
        reading.next("", 0, None)
    with feed(queue, name, takes_over=True) as reading:
        reader, batch, messages = reading.next("", 0, None)
        assert (messages, versions(reading, (reader, batch))) == (2, [3, 4])
    publish(queue, 5, 6)
    with feed(queue, name) as reading:  # killed before its checkpoint knew itself: the new one isn't in the way either
        reader, batch, _ = reading.next("", 0, None)
        assert versions(reading, (reader, batch)) == [3, 4]
        reader, batch, messages = reading.next(reader, batch, None)
        assert (messages, versions(reading, (reader, batch), after=batch - 1)) == (2, [5, 6])
    with feed(queue, name) as reading, pytest.raises(sq.ActionRefused, match="belongs to the pipeline"):
        reading.next(*second[:2], None)
    assert invariants.broken(queue) == []


def test_what_a_worker_has_under_a_lease_stays_with_it(queue, name):
    publish(queue, 1)
    lease = queue.lease(name)
    publish(queue, 2)
    with feed(queue, name) as reading:
        reader, batch, messages = reading.next("", 0, None)
        assert messages == (1 if name == "loose" else 0)  # in order, the group is the worker's
        lease.complete()
        reader, batch, _ = reading.next(reader, batch, None)
        assert reading.waiting() == (0 if name == "loose" else 1)
    assert invariants.broken(queue) == []


def test_whoever_asks_for_the_next_batch_has_finished_the_one_before(queue, name):
    publish(queue, 1, 2)
    with feed(queue, name) as reading:
        reader, batch, _ = reading.next("", 0, None)
        assert reading.next(reader, batch, None) == (reader, batch, 0)
    with feed(queue, name) as reading, pytest.raises(sq.ActionRefused, match="belongs to the pipeline 'capture'"):
        reading.next("", 0, None)
    publish(queue, 3)
    with feed(queue, name, takes_over=True) as reading:
        found = reading.next("", 0, None)
        assert versions(reading, found[:2]) == [3]


def test_a_run_that_finds_nothing_asks_as_the_same_again(queue, name):
    publish(queue, 1)
    with feed(queue, name) as before:
        reader, batch, _ = before.next("", 0, None)
        before.next(reader, batch, None)
    with feed(queue, name, takes_over=True) as reading:
        assert [reading.next("", 0, None)[1:] for _ in range(3)] == [(0, 0)] * 3
        publish(queue, 2)
        assert reading.next("", 0, None)[1:] == (1, 1)
    with feed(queue, name) as reading:  # a run that was killed meanwhile, with nothing in its checkpoint
        assert reading.next("", 0, None)[1:] == (1, 1)


def test_what_is_to_do_now_is_what_was_published_through_sql_too(queue, name):
    with queue.session() as tx:
        for version in (1, 2):
            tx.connection.execute(
                f"SELECT {queue.schema}.publish('order', '', jsonb_build_object('customer', 'a', 'version', {version}))"
            )
    with feed(queue, name) as reading:
        assert reading.waiting() == 2
        reader, batch, _ = reading.next("", 0, reading.waiting())
        assert versions(reading, (reader, batch)) == [1, 2]
        assert reading.waiting() == 2  # in hand, and not finished
        reading.done(reader, batch)
        assert reading.waiting() == 0
        publish(queue, 3)
        assert reading.waiting() == 1


def test_a_checkpoint_of_another_queue(queue):
    publish(queue, 1)
    with feed(queue, "loose") as reading:
        reader, batch, _ = reading.next("", 0, None)
    for takes_over in (False, True):
        with (
            feed(queue, takes_over=takes_over) as reading,
            pytest.raises(sq.ActionRefused, match="queue 'orders': the checkpoint is none of this queue"),
        ):
            reading.next(reader, batch, None)


@pytest.mark.parametrize(("size", "limit"), [(20, 300), (7, 50), (50, 20), (3, 3)])
def test_a_batch_has_sets_as_a_whole_and_at_most_one_too_many(box, size, limit):
    box.define(
        sq.MessageType("line", properties={"order": "string", "nr": "long", "lines": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size="lines"), group="order", sequence="nr"),
        sq.Subscription("lines", where="TRUE", to="sets"),
    )
    with box.session() as tx:
        tx.publish(
            sq.Message(type="line", context={"order": f"o{order:03}", "nr": nr + 1, "lines": size})
            for order in range(60) for nr in range(size)
        )  # fmt: skip
    found, batch = [], ("", 0)
    with PipelineFeed(box.dsn, box.schema, queue="sets") as reading:
        while (more := reading.next(*batch, limit))[2]:
            found.append(more[2])
            batch = more[:2]
    assert sum(found) == 60 * size
    assert {messages % size for messages in found} == {0}
    assert max(found) < limit + size
    assert min(found[:-1]) >= min(limit, size)


@pytest.mark.dear
@pytest.mark.parametrize("keep", ["nothing", "faults", "everything"])
def test_the_time_to_make_and_to_drop_a_batch_grows_with_its_size_and_no_faster(box, keep):
    few, many = 500, 8_000
    box.define(sq.MessageType("job"), sq.Queue("jobs", sq.Unordered(), keep=keep))
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        schema = box.schema
        connection.execute("SET plan_cache_mode = force_generic_plan")  # as after some batches
        connection.execute(f"ALTER TABLE {schema}.entries SET (autovacuum_enabled = FALSE)")
        connection.execute(f"ALTER TABLE {schema}.spool SET (autovacuum_enabled = FALSE)")
        (queue,) = connection.execute(f"SELECT queue_id FROM {schema}.queues").fetchone()

        def dropped(batch, messages):
            """The processor time of the server, of which others on the machine take none."""
            box.publish([sq.Message(type="job", context={"to": "jobs"}) for _ in range(messages)])
            before = processor_time(connection)
            taken = f"SELECT {schema}.put_in_batch_unordered(%s, %s, %s)"
            assert connection.execute(taken, [queue, batch, messages]).fetchone() == (messages,)
            connection.execute(f"SELECT {schema}.drop_batches(%s, %s, %s)", [queue, batch + 1, keep])
            spent = processor_time(connection) - before
            assert connection.execute(f"SELECT count(*) FROM {schema}.entries").fetchone() == (0,)
            return spent

        dropped(1, many)
        # PostgreSQL takes them for empty from now on, as after any hour in which the pipeline had done everything.
        connection.execute(f"VACUUM (TRUNCATE FALSE) {schema}.entries, {schema}.spool")
        spent = dropped(2, few)
        assert dropped(3, many) < 3 * many / few * spent
    assert invariants.broken(box) == []


def processor_time(connection):
    """Nanoseconds that the connection's process of the server has run."""
    return int(Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text().split()[0])
