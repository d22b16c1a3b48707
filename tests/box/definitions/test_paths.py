"""A property that is found at the first of several paths, whoever publishes the message."""

from __future__ import annotations

import json

import psycopg

import seriatim as sq

CHANGE = sq.MessageType(
    "change", properties={"row": {"type": "long", "path": ["$.after.id", "$.before.id"]}, "op": {"path": "$.op"}}
)
BODIES = [
    json.dumps({"op": op, "before": before, "after": after}).encode()
    for op, before, after in (("c", None, {"id": 7}), ("u", {"id": 8}, {"id": 7}), ("d", {"id": 7}, None))
]


def test_a_delete_is_found_in_the_group_of_its_row_by_python_and_by_sql(box):
    box.define(CHANGE, sq.Queue("rows", sq.Fifo(), group="row"), sq.Subscription("all", where="row > 0", to="rows"))
    assert box.definitions().types["change"] == CHANGE
    with box.session() as tx:
        tx.publish([sq.Message(type="change", body=body) for body in BODIES])
    with psycopg.connect(box.dsn) as connection:
        for body in BODIES:
            connection.execute(f"SELECT {box.schema}.publish('change', %s)", [body])
    with box.session() as tx:
        delivery = tx.receive("rows", limit=10)
        assert delivery.group == "7"
        found = [(message.context["row"], message.context["op"]) for message in delivery]
    assert found == [(7, "c"), (7, "u"), (7, "d")] * 2
    box.define(CHANGE)
    with box.session() as tx:
        assert tx.receive("rows", limit=10) is None
