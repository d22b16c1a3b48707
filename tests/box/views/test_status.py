"""What a box tells of itself: its size, how it grows, which queues are full."""

from __future__ import annotations

import json

from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import queues, retention
from seriatim.operations.box_status import box_status
from tests.databases import box_with


def with_orders(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer", max_messages=3),
        sq.Subscription("all", where="type = 'order'", to="orders"),
    )


queue = box_with(with_orders)


def publish(box, count):
    with box.session() as tx:
        tx.publish(sq.Message(type="order", body=b"x" * 1000, context={"customer": "c"}) for _ in range(count))


def run(box, statement, *parameters):
    with box.session() as tx:
        cursor = tx.connection.execute(statement.format(box.schema), parameters)
        return cursor.fetchall() if cursor.description else []


def status(box, *more):
    words = ["box", "status", "--dsn", box.dsn, "--schema", box.schema, *more]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0
    return result.stdout


def test_it_grows_since_the_first_clean_up(queue):
    assert box_status(queue).since is None
    assert "after the first clean-up" in status(queue)
    retention.purge(queue)
    before = box_status(queue)
    assert before.since is not None
    publish(queue, 3)
    now = box_status(queue)
    (spool,) = [one for one in now.tables if one.name == "spool"]
    assert (now.since, spool.more_bytes > 0) == (before.since, True)
    assert now.more_bytes == sum(one.more_bytes for one in now.tables) > 0
    assert f"+{now.more_bytes:,} bytes since " in status(queue)
    told = json.loads(status(queue, "--json"))
    assert (told["since"], told["more_bytes"]) == (before.since.isoformat(), now.more_bytes)


def test_it_is_noted_once_an_hour_and_for_a_week(queue):
    retention.purge(queue)
    retention.purge(queue)
    assert run(queue, "SELECT count(DISTINCT taken_at) FROM {}.samples") == [(1,)]
    for age in ("2 hours", "8 days"):
        run(queue, "DELETE FROM {}.samples WHERE taken_at < now() - interval '1 hour'")
        run(queue, "UPDATE {}.samples SET taken_at = now() - %s::interval", age)
        retention.purge(queue)
        young = run(queue, "SELECT DISTINCT now() - taken_at < '1 hour' AS young FROM {}.samples ORDER BY young")
        assert young == ([(False,), (True,)] if age == "2 hours" else [(True,)])


def test_it_is_compared_with_a_day_ago(queue):
    for age in ("30 hours", "23 hours", "1 hour"):
        run(queue, "INSERT INTO {}.samples VALUES (now() - %s::interval, 'spool', 7, 8192)", age)
    ((moment,),) = run(queue, "SELECT now() - interval '23 hours'")
    since = box_status(queue).since
    assert abs((since - moment).total_seconds()) < 600
    run(queue, "DELETE FROM {}.samples WHERE taken_at > now() - interval '24 hours'")
    assert box_status(queue).since < since
    (spool,) = [one for one in box_status(queue).tables if one.name == "spool"]
    assert spool.more_bytes == spool.size_bytes - 8192


def test_a_full_queue_says_so(queue):
    words = ["queues", "--dsn", queue.dsn, "--schema", queue.schema]
    assert "on, full" not in CliRunner().invoke(main, words).stdout
    publish(queue, 3)
    (counts,) = queues.queues(queue)
    assert (counts.max_messages, counts.is_full) == (3, True)
    assert "on, full" in CliRunner().invoke(main, words).stdout
