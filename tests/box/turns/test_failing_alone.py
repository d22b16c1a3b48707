"""A group at which a look fails keeps no other one from being looked at."""

from __future__ import annotations

import json

from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import groups
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
