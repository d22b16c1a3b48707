"""A queue that is one order: all its messages are one group."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import groups
from seriatim.testing import work_off
from tests.databases import box_with

FILE = """\
types: {order: {properties: {version: long}}}
queues:
  numbered: {policy: standard, group: {whole_queue: true}, sequence: version}
  arrived: {policy: fifo, group: {whole_queue: true}}
subscriptions:
  numbered: {where: "type = 'order'", to: numbered}
  arrived: {where: "type = 'order'", to: arrived}
"""
DEFINED = (
    sq.Queue("numbered", sq.Standard(), sq.WHOLE_QUEUE, "version"),
    sq.Queue("arrived", sq.Fifo(), group=sq.WHOLE_QUEUE),
)


def _prepared(box):
    box.define(
        sq.MessageType("order", properties={"version": "long"}),
        *DEFINED,
        *(sq.Subscription(one.name, where="type = 'order'", to=one.name) for one in DEFINED),
    )


box = box_with(_prepared)


def test_all_its_messages_leave_in_one_order(box):
    box.publish([sq.Message(type="order", context={"version": version}) for version in (3, 1, 2, 5)])
    got = []
    assert work_off(box, "numbered", lambda message, tx: got.append((message.group, message.sequence)), workers=4) == 3
    assert got == [("all", 1), ("all", 2), ("all", 3)]
    arrived = []
    work_off(box, "arrived", lambda message, tx: arrived.append((message.group, message.whole("version"))), workers=4)
    assert arrived == [("all", version) for version in (3, 1, 2, 5)]
    assert [one.group for one in groups.groups(box, queue="numbered")] == ["all"]
    groups.skip_hole(box, "numbered", "all", through=4, actor="ann", reason="never sent")
    work_off(box, "numbered", lambda message, tx: got.append((message.group, message.sequence)))
    assert got[3:] == [("all", 5)]


def test_one_worker_has_it_at_a_time(box):
    box.publish([sq.Message(type="order", context={"version": version}) for version in (1, 2)])
    with box.session() as tx, box.session() as other:
        assert len(tx.receive("arrived")) == 1
        assert other.receive("arrived") is None


def test_the_box_file_says_the_same(box, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(FILE)
    assert box.apply(file) == []
    assert box.definitions().queues["numbered"].declared.group.by == sq.WHOLE_QUEUE


def test_a_message_by_sql_is_in_it_too(box):
    with box.session() as tx:
        tx.connection.execute(
            f"SELECT {box.schema}.publish('order', ''::bytea, context => '{{\"version\": 1}}'::jsonb)"
        )
    box.tick()
    assert [one.message.group for one in box.peek("arrived")] == ["all"]


def test_a_type_is_an_order_of_its_own(box):
    box.define(
        sq.MessageType("note", properties={"version": "long"}),
        sq.Queue("typed", sq.Fifo(), group=sq.Group(sq.WHOLE_QUEUE, by_type=True)),
        sq.Subscription("typed", where="TRUE", to="typed"),
    )
    box.publish([sq.Message(type=kind, context={"version": 1}) for kind in ("order", "note", "order")])
    assert sorted({one.message.group for one in box.peek("typed")}) == ["note/all", "order/all"]


def test_instances_have_groups_of_their_own(box):
    with pytest.raises(sq.UsageError, match="all that is in it would be one instance"):
        box.define(
            sq.Subscription(
                "started", where="type = 'order'", to="arrived", starts="shop:handle", correlate=("version",)
            )
        )
