"""A worker at work, a handler that fails, and an operator who mends it with the commands."""

from __future__ import annotations

import json

from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import groups, invariants, trace
from tests.box.shop import rows
from tests.runtime.workers.test_worker import until, working


def test_an_order_that_failed_is_mended_and_its_customer_goes_on(box, tmp_path):
    """Nobody stops the worker: it is called as soon as the operator has mended the group."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("shop", sq.Standard(), group="customer", sequence="version", keep="everything"),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )
    handled = []

    def handle(message, tx):
        if json.loads(message.body)["amount"] == "ten":
            raise sq.Business("'ten' is no amount")
        handled.append((message.context["customer"], message.sequence))

    def publish(customer, *bodies):
        context = {"customer": customer}
        with box.session() as tx:
            return tx.publish(
                [
                    sq.Message(type="order", body=body, context=context | {"version": version})
                    for version, body in enumerate(bodies, 1)
                ]
            )

    def call(*words):
        result = CliRunner().invoke(main, [*map(str, words), "--dsn", box.dsn, "--schema", box.schema])
        assert result.exit_code == 0, result.output
        return result.stdout

    why = ("--reason", "ticket 4711")
    with working(sq.Worker(box, "shop", handle, workers=2)):
        _, bad, _ = publish("c1", b'{"amount": 1}', b'{"amount": "ten"}', b'{"amount": 3}')
        publish("c2", b'{"amount": "ten"}', b'{"amount": 2}')
        publish("c3", b'{"amount": 1}', b'{"amount": 2}')
        until(lambda: len(groups.groups(box, "shop", state="faulted")) == 2)
        until(lambda: {("c3", 1), ("c3", 2)} <= set(handled))
        assert "Business: 'ten' is no amount" in call("group", "show", "c1")
        (tmp_path / "mended.json").write_text('{"amount": 10}')
        call("group", "retry", "c1", "--edit", tmp_path / "mended.json", *why)
        call("group", "skip-message", "c2", *why)
        until(lambda: len(rows(box, "SELECT FROM {schema}.history")) == 6)
        call("dead-letters", "requeue", "--all", "--yes", *why)
        until(lambda: groups.groups(box, "shop", state="faulted", error="no amount"))
        assert "no amount" in call("faults", "--group", "c2")
    assert [one for one in handled if one[0] == "c1"] == [("c1", 1), ("c1", 2), ("c1", 3)]
    assert [one for one in handled if one[0] == "c2"] == [("c2", 2)]
    kinds = [str(step.kind) for step in trace.trace_message(box, bad)]
    assert kinds == ["received", "routed", "released", "fault", "operation", "done"]
    assert invariants.broken(box) == []


def test_a_worker_gets_what_a_tick_recovers(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("shop", sq.Fifo(), group="customer", recover=sq.Recover(1, delay=0)),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )
    failures = [sq.Business("once")]

    def handle(message, tx):
        if failures:
            raise failures.pop()

    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c1"}))
    with working(sq.Worker(box, "shop", handle, workers=1)):
        until(lambda: rows(box, "SELECT FROM {schema}.faults"))
        until(lambda: groups.group_view(box, "shop", "c1").state == "faulted")
        assert box.tick().recovered == 1
        until(lambda: not rows(box, "SELECT FROM {schema}.entries"))
