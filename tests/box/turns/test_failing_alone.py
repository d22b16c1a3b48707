"""A group at which a look fails keeps no other one from being looked at."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.errors import InvariantBroken
from seriatim.operations import groups
from seriatim.operations.doctor import State
from seriatim.operations.doctor.work_checks import CHECKS, Work
from tests.box.fed import feed
from tests.box.shop import rows


def order(queue, customer, version):
    return sq.Message(type="order", context={"to": queue, "customer": customer, "version": version})


def test_a_tick_looks_at_all_but_what_it_fails_at(box, caplog):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        *(sq.Queue(name, sq.Standard(), group="customer", sequence="version") for name in ("first", "second")),
    )
    box.publish([order(queue, customer, 2) for queue in ("first", "second") for customer in "abc"])
    box.tick()
    rows(
        box,
        "UPDATE {schema}.known_groups SET skipped = '{1}' WHERE group_key = 'b' AND queue_id = (SELECT min(queue_id) FROM {schema}.queues)",
    )
    box.publish([order(queue, customer, 1) for queue in ("first", "second") for customer in "abc"])
    done = box.tick()
    assert done.groups == 6
    (failed,) = done.failed
    assert failed.startswith("queue 'first', group 'b': ")
    assert "queue 'first', group 'b' can't be looked at" in caplog.text
    states = {
        (one.queue, one.group): str(one.state) for name in ("first", "second") for one in groups.groups(box, name)
    }
    assert {key for key, state in states.items() if state != "ready"} == {("first", "b")}
    ran = CliRunner().invoke(main, ["box", "tick", "--json", "--dsn", box.dsn, "--schema", box.schema])
    assert ran.exit_code == 1
    assert json.loads(ran.stdout)["failed"] == [failed]
    assert f"failed: {failed}" in ran.stderr


@pytest.mark.parametrize("spoilt", ["known_groups SET skipped = '{1}'", "known_groups SET decided = '{}'"])
@pytest.mark.parametrize("policy", [sq.Standard(), sq.Fifo()], ids=lambda one: one.name)
def test_a_receiver_gets_all_groups_but_the_one_at_which_its_turn_fails(box, caplog, policy, spoilt):
    sequence = "version" if isinstance(policy, sq.Standard) else None
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("first", policy, group=sq.Group("customer", closes="version = 9"), sequence=sequence),
    )
    box.publish([order("first", customer, 1) for customer in "bac"])
    assert [received(box) for _ in "bac"] == ["b", "a", "c"]
    box.publish([order("first", customer, 2) for customer in "bac"])
    rows(box, f"UPDATE {{schema}}.{spoilt} WHERE group_key = 'b'")
    assert [received(box), received(box), received(box)] == ["a", "c", None]
    assert "queue 'first', group 'b' can't be looked at" in caplog.text
    found = CHECKS["turns"](Work(box))
    assert found.state is State.WRONG
    assert found.found.startswith("queue 'first', group 'b' (")
    assert "a turn of it failed, and is tried again at " in groups.standing(box, "first", "b").why
    box.publish(order("first", "a", 3))
    assert received(box) == "a"
    # It is mended, and tried again.
    rows(box, "UPDATE {schema}.known_groups SET skipped = '{}', decided = '{1,0,0,0,0,0,0,0}' WHERE group_key = 'b'")
    rows(box, "UPDATE {schema}.leases SET expires_at = clock_timestamp()")
    assert received(box) == "b"
    assert CHECKS["turns"](Work(box)).state is State.OK
    assert rows(box, "SELECT count(*) FROM {schema}.faults") == [(0,)]


def test_the_transaction_of_a_caller_gets_the_error(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("first", sq.Standard(), group="customer", sequence="version"),
    )
    box.publish(order("first", "b", 1))
    assert received(box) == "b"
    box.publish(order("first", "b", 2))
    rows(box, "UPDATE {schema}.known_groups SET skipped = '{1}'")
    with pytest.raises(InvariantBroken, match="a turn failed"), box.session() as tx:  # noqa: PT012
        tx.publish(order("first", "a", 1))
        tx.receive("first")


def test_a_pipeline_gets_all_groups_but_the_one_at_which_its_turn_fails(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("first", sq.Standard(), group="customer", sequence="version"),
    )
    with feed(box, "first") as reading:
        box.publish([order("first", customer, 1) for customer in "bac"])
        *at, messages = reading.next("", 0, None)
        assert messages == 3
        box.publish([order("first", customer, 2) for customer in "bac"])
        rows(box, "UPDATE {schema}.known_groups SET skipped = '{1}' WHERE group_key = 'b'")
        *at, messages = reading.next(*at, None)
        assert messages == 2
        assert CHECKS["turns"](Work(box)).state is State.WRONG
        rows(box, "UPDATE {schema}.known_groups SET skipped = '{}' WHERE group_key = 'b'")
        rows(box, "UPDATE {schema}.leases SET expires_at = clock_timestamp()")
        assert reading.next(*at, None)[2] == 1


def received(box):
    with box.session() as tx:
        delivery = tx.receive("first")
        return None if delivery is None else delivery.group if list(delivery) else None
