"""A server that is killed under pipelines that read a queue and write to the box."""

from __future__ import annotations

import os
import signal
from functools import partial

import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines import feed
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import invariants, queues
from seriatim.operations.box_status import box_status
from tests.box.pauses import short_pauses  # noqa: F401 -- a fixture

pytestmark = [pytest.mark.usefixtures("short_pauses"), pytest.mark.dear]


@pytest.fixture
def server(tmp_path):
    """A server of one's own, and how it is killed: it is started again by its supervisor."""
    server = EmbeddedServer(tmp_path / "server")

    def kill():
        os.kill(int((tmp_path / "server/data/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)

    try:
        yield server, kill
    finally:
        server.close()


@pytest.fixture
def crash(server):
    """The box, and how its server is killed; it answers once more when that returns."""
    there, kill = server
    with sq.MessageBox.open(there.dsn) as box:
        box.define(
            sq.MessageType("order", properties={"customer": "string", "version": "long"}),
            sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
            sq.Subscription("all", where="TRUE", to="orders"),
        )

        def killed():
            kill()
            again(lambda: box_status(box))

        yield box, killed


def again(work):
    while True:
        try:
            return work()
        except (sq.Unavailable, sq.EnvironmentProblem):
            continue


def rows(customer):
    columns = {"customer": [customer] * 3, "version": [1, 2, 3]}
    return [pa.RecordBatch.from_pydict(columns, pa.schema([("customer", pa.string()), ("version", pa.int64())]))]


def staged(box, writer, customer, **incoming):
    with Staging(box.dsn, incoming=Incoming("order"), **incoming) as staging:
        return staging.stage(writer, 0, rows(customer))


def customers(box):
    def asked():
        with box.session() as tx:
            return tx.connection.execute("SELECT context ->> 'customer' FROM seriatim.messages ORDER BY 1").fetchall()

    return [customer for (customer,) in again(asked)]


@pytest.mark.proves("a part that was staged before PostgreSQL crashed isn't taken for a later one")
def test_a_part_that_was_staged_before_a_crash_is_no_other_one(crash):
    box, killed = crash
    before = staged(box, "query", "a")
    killed()
    after = again(lambda: staged(box, "query", "b"))
    with again(lambda: Staging(box.dsn, incoming=Incoming("order"))) as staging:
        with pytest.raises(sq.Unavailable, match="a staged part of the batch is gone"):
            staging.merge("query", 0, [before, after])
        assert customers(box) == []
        staging.discard([before])
        assert staging.merge("query", 0, [staged(box, "query", "a"), after]) == 6
    assert customers(box) == ["a"] * 3 + ["b"] * 3
    assert again(partial(invariants.broken, box)) == []


@pytest.mark.proves("a run whose lock a crash of PostgreSQL took notices that another run has begun")
def test_a_run_sees_that_it_is_not_the_only_one_any_more(crash, monkeypatch):
    monkeypatch.setattr(feed, "_PATIENCE_S", 0.5)  # for which it waits for the other one to end
    box, killed = crash
    open_feed = partial(PipelineFeed, box.dsn, queue="orders", pipeline="capture")

    def publish(version):
        with box.session() as tx:
            tx.publish(sq.Message(type="order", context={"customer": "a", "version": version}))

    publish(1)
    with open_feed() as reading:
        first = reading.next("", 0, None)[:2]
        killed()
        again(lambda: publish(2))  # a connection of before may be taken first
        second = again(lambda: reading.next(*first, None))
        assert second[1:] == (2, 1)
        with pytest.raises(sq.ActionRefused, match="its pipeline runs"):  # it has the lock again
            again(lambda: queues.release(box, "orders"))
        killed()
        with again(open_feed) as other:
            assert again(lambda: other.next(*first, None)) == second
            with pytest.raises(sq.ActionRefused, match="another run of a pipeline reads the queue"):
                again(lambda: reading.next(*second[:2], None))
