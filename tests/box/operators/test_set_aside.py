"""What was set aside, and what is unrouted, can be deleted: by whom it may, and written down."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.operators.set_aside import REQUEUED, SET_ASIDE
from seriatim.box.views.invariants import audit
from seriatim.operations import dead_letters, groups, invariants, messages, retention, set_aside
from tests.box.console import BY, ORDER, define, failing, publish, received, rows

LOG = "SELECT actor, action, queue, group_key, reason, details FROM {schema}.operator_log ORDER BY operation_id"


def all_kinds(box, **options):
    """One message of each status; the ids by status."""
    define(box, sq.Standard(capacity=1), sequence=sq.Sequence("version", void="customer = 'empty'"), **options)
    publish(box, 1, 3)
    received(box)
    groups.skip_hole(box, "shop", "c1", **BY)
    assert received(box) == [3]
    publish(box, 2, group="full")
    found = {
        "late": publish(box, 2)[0],
        "duplicate": publish(box, 3)[0],
        "invalid": publish(box, 4, group=None)[0],
        "rejected": publish(box, 3, group="full")[0],
        "void": publish(box, 1, group="empty")[0],
    }
    with box.session() as tx:
        (found["unrouted"],) = tx.publish(sq.Message(type="other", body=b"{}"))
    received(box)
    received(box, "full")
    received(box, "empty")
    publish(box, 1, group="full")
    received(box, "full")
    return found


def statuses(box):
    return {one.status: one.message_id for one in messages.messages(box) if one.status != "done"}


def gone(box, message_id):
    try:
        messages.message(box, message_id)
    except sq.UsageError:
        return True
    return False


def whole(box):
    with box.session() as tx:
        assert audit(tx.transaction) == []
    assert invariants.broken(box) == []


@pytest.mark.parametrize("status", sorted({*SET_ASIDE} - {*REQUEUED}))
def test_what_never_had_a_place_isnt_put_back_and_the_remedy_is_told(box, status):
    all_kinds(box)
    found = set_aside.set_aside(box, status=status)
    with pytest.raises(sq.UsageError, match=f"which is {status} .*seriatim (messages|unrouted)"):
        list(set_aside.requeue_each(box, found, **BY))
    whole(box)


@pytest.mark.parametrize("status", SET_ASIDE)
def test_each_status_is_deleted_with_its_message_and_that_is_written_down(box, status):
    made = all_kinds(box)
    assert statuses(box) == made
    (found,) = set_aside.set_aside(box, status=status)
    assert (found.message_id, found.status) == (made[status], status)
    before = len(rows(box, LOG))
    assert set_aside.delete(box, [found], **BY) == 1
    assert set_aside.delete(box, [found], **BY) == 0
    left = {one: name for one, name in made.items() if one != status}
    assert statuses(box) == left
    assert not gone(box, made[status])
    whole(box)
    retention.purge(box)
    assert gone(box, made[status])
    assert statuses(box) == left
    whole(box)
    details = {"message_id": made[status], "status": status}
    if status != "unrouted":
        details["entry_id"] = found.entry_id
    assert rows(box, LOG)[before:] == [("ann", "delete", found.queue, found.group, "ticket 4711", details)]


def test_the_queue_can_be_dropped_then_by_the_commands_that_the_refusal_names(box):
    all_kinds(box, keep="everything")
    publish(box, 4)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    with pytest.raises(sq.ActionRefused, match="6 set aside, 4 in its history") as refused:
        box.drop(queue="shop", subscription="shop")
    assert refused.value.remedy == (
        "delete what was set aside: seriatim messages delete --all --queue shop, "
        "seriatim dead-letters delete --all --queue shop; "
        "purge its history: seriatim box purge --queue shop --older-than 0s"
    )
    assert set_aside.delete(box, set_aside.set_aside(box, "shop"), **BY) == 5
    (letter,) = dead_letters.dead_letters(box)
    dead_letters.delete(box, [letter.entry_id], **BY)
    retention.purge(box, queue="shop", older_than=0)
    box.drop(queue="shop", subscription="shop")
    assert list(statuses(box)) == ["unrouted"]


def test_a_message_stays_as_long_as_another_queue_has_it(box):
    box.define(
        ORDER,
        *(sq.Queue(name, sq.Standard(), group="customer", sequence="version") for name in ("shop", "other")),
        *(sq.Subscription(name, where="type = 'order'", to=name) for name in ("shop", "other")),
    )
    publish(box, 1)
    (second,) = publish(box, 1)
    for queue in ("shop", "other"):
        with box.session() as tx:
            assert [one.sequence for one in tx.receive(queue, limit=9)] == [1]
    assert set_aside.delete(box, set_aside.set_aside(box, "shop", message_ids=[second]), **BY) == 1
    retention.purge(box)
    assert [(one.queue, one.status) for one in messages.messages(box)] == [("other", "duplicate")]
    assert set_aside.delete(box, set_aside.set_aside(box, message_ids=[second]), **BY) == 1
    assert not gone(box, second)
    retention.purge(box)
    assert gone(box, second)
    whole(box)


def test_dead_letters_and_what_is_resubmitted_meanwhile_are_left_alone(box):
    define(box, sq.Fifo())
    (dead,) = publish(box, 1)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    with box.session() as tx:
        tx.publish(sq.Message(type="note", context={"customer": "c1"}))
    (found,) = set_aside.set_aside(box)
    box.define(sq.MessageType("note", properties={"customer": "string"}))
    box.define(sq.Subscription("notes", where="type = 'note'", to="shop"))
    assert messages.resubmit(box).routed == 1
    assert set_aside.delete(box, [found], **BY) == 0
    assert {one.status for one in messages.messages(box)} == {"dead", "arrived"}
    with pytest.raises(sq.UsageError, match=r"'dead' is not a status of set-aside messages \(.*seriatim dead-letters"):
        set_aside.set_aside(box, status="dead")
    assert [one.message_id for one in dead_letters.dead_letters(box)] == [dead]


def test_which_are_found(box):
    made = all_kinds(box)
    assert {one.status: one.message_id for one in set_aside.set_aside(box)} == made
    assert {one.status for one in set_aside.set_aside(box, "shop")} == set(SET_ASIDE) - {"unrouted"}
    assert [one.status for one in set_aside.set_aside(box, group="full")] == ["rejected"]
    assert [one.status for one in set_aside.set_aside(box, message_type="other")] == ["unrouted"]
    assert {one.status for one in set_aside.set_aside(box, status=("late", "invalid"))} == {"late", "invalid"}
    assert [one.status for one in set_aside.set_aside(box, message_ids=[made["late"]])] == ["late"]
    assert set_aside.set_aside(box, older_than="1h") == []
    assert len(set_aside.set_aside(box, older_than=0)) == 6
    assert len(set_aside.set_aside(box, limit=2)) == 2
    for wrong in ({"queue": "shp"}, {"status": "gone"}, {"limit": 0}, {"older_than": "soon"}):
        with pytest.raises(sq.UsageError):
            set_aside.set_aside(box, **wrong)


def test_many_are_deleted_some_at_a_time(box, monkeypatch):
    monkeypatch.setattr(set_aside, "_BATCH", 3)
    define(box)
    publish(box, *[1] * 9)
    assert received(box) == [1]
    assert set_aside.delete(box, set_aside.set_aside(box), **BY) == 8
    assert retention.purge(box).messages == 8
    assert len(rows(box, LOG)) == 8
    whole(box)


def test_nobody_does_it_without_saying_who_and_why(box):
    define(box)
    publish(box, 1, 1)
    received(box)
    found = set_aside.set_aside(box)
    with pytest.raises(sq.UsageError, match="is not reason"):
        set_aside.delete(box, found, actor="ann", reason=" ")
    assert set_aside.set_aside(box) == found


def test_a_deleted_duplicate_hides_no_message_that_was_stolen(box):
    """What is written down of it is no excuse for an ordinal that is missing in its group."""
    define(box)
    publish(box, 1, 1, 2, 3)
    assert received(box, limit=1) == [1]
    assert set_aside.delete(box, set_aside.set_aside(box), **BY) == 1
    assert invariants.broken(box) == []
    rows(box, "DELETE FROM {schema}.entries WHERE ordinal = 3 RETURNING 1")
    (missing, _) = invariants.broken(box)
    assert "of 3 released messages the last 2 aren't done, but 1 are queued" in missing
