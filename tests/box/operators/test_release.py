"""A queue is given back to workers by a pipeline that is gone, and by none that runs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.operators.queues import Released
from seriatim.cli.main import main
from seriatim.operations import queues
from tests.box.fed import define, feed
from tests.databases import box_with


def with_three_orders(box):
    define(box)
    with box.session() as tx:
        tx.publish(
            sq.Message(type="order", context={"customer": customer, "version": version})
            for customer, version in (("a", 1), ("a", 2), ("b", 1))
        )


queue = box_with(with_three_orders)


def received(box, queue="orders"):
    found = {}
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=10)
            if delivery is None:
                return found
            found.setdefault(delivery.group, []).extend((one.sequence, one.ordinal) for one in delivery)


def log(box):
    with box.session() as tx:
        rows = f"SELECT actor, action, queue, reason, details FROM {box.schema}.operator_log"
        return tx.connection.execute(rows).fetchall()


def test_what_was_in_hand_is_handed_out_in_its_place(queue):
    with feed(queue) as reading:
        reader, batch, messages = reading.next("", 0, 2)
        assert (batch, messages) == (1, 2)
        assert reading.next(reader, 0, 0) == (reader, 1, 2)  # asked again it is the same batch
    with pytest.raises(sq.ActionRefused, match="belongs to the pipeline"), queue.session() as tx:
        tx.receive("orders")
    assert queues.release(queue, "orders", actor="me", reason="gone") == Released("orders", "capture", 2)
    assert received(queue) == {"a": [(1, 1), (2, 2)], "b": [(1, 1)]}
    assert log(queue) == [("me", "release", "orders", "gone", {"pipeline": "capture", "messages": 2})]


def test_what_was_finished_is_not_handed_out_again(queue):
    with feed(queue) as reading:
        reader, batch, _ = reading.next("", 0, None)
        reading.done(reader, batch)
    assert queues.release(queue, "orders").messages == 0
    assert received(queue) == {}


def test_a_queue_without_order_is_given_back(queue):
    with feed(queue, "loose") as reading:
        assert reading.next("", 0, 2)[2] == 2
    assert queues.release(queue, "loose").messages == 2
    assert len(received(queue, "loose")[None]) == 3


def test_refused_while_its_pipeline_runs(queue):
    with feed(queue) as reading:
        reading.next("", 0, 1)
        with pytest.raises(sq.ActionRefused, match="queue 'orders': its pipeline runs") as caught:
            queues.release(queue, "orders")
        assert caught.value.remedy == "stop the pipeline first"
    assert queues.release(queue, "orders").messages == 1
    assert len(log(queue)) == 1


def test_its_checkpoint_can_not_go_on_with_it(queue):
    with feed(queue) as reading:
        reader, batch, _ = reading.next("", 0, 1)
    queues.release(queue, "orders")
    with feed(queue) as reading, pytest.raises(sq.ActionRefused, match="the checkpoint is none of this queue"):
        reading.next(reader, batch, 1)
    with feed(queue) as reading:  # another one can
        assert reading.next("", 0, 1)[2] == 1


def test_what_is_no_pipelines_is_refused(queue):
    with pytest.raises(sq.ActionRefused, match="queue 'orders': the queue belongs to no pipeline"):
        queues.release(queue, "orders")
    with pytest.raises(sq.UsageError, match="there is no queue 'order'"):
        queues.release(queue, "order")
    assert log(queue) == []


def test_the_command(queue):
    def call(*words):
        return CliRunner().invoke(main, ["queue", "release", *words, "--dsn", queue.dsn, "--schema", queue.schema])

    refused = call("orders", "--reason", "gone")
    assert (refused.exit_code, "the queue belongs to no pipeline" in refused.stderr) == (2, True)
    for more in ((), ("--json", "--actor", "me")):
        with feed(queue) as reading:
            reading.next("", 0, 2)
        done = call("orders", "--reason", "gone", *more)
        assert done.exit_code == 0
    assert json.loads(done.stdout) == {"queue": "orders", "pipeline": "capture", "messages": 2}
    assert [row[0] for row in log(queue)][1:] == ["me"]
    assert call("orders").exit_code == 2  # nobody says why
