"""Mending: a faulted group is retried, with another body or without; its message is skipped; dead letters come back."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import bulk, dead_letters, faults, groups, invariants, messages, retention
from seriatim.operations.groups import Action
from tests.box.console import BY, TRANSIENT, define, deliveries, failing, logged, publish, received, rows


def state(box, group="c1"):
    return groups.group_view(box, "shop", group).state


def dead(box):
    return [(one.sequence, one.ordinal) for one in dead_letters.dead_letters(box)]


def test_retried_a_group_goes_on_with_the_message_that_failed(box):
    define(box)
    publish(box, 1, 2, 3)
    failing(box, done=1)
    publish(box, 4, 6)
    assert received(box) == []
    done = groups.retry(box, "shop", "c1", **BY)
    assert (done.before, done.after, done.released) == ("faulted", "waiting", 1)
    with box.session() as tx:
        assert [(one.sequence, one.attempt) for one in tx.receive("shop", limit=9)] == [(2, 2), (3, 1), (4, 1)]
    assert invariants.broken(box) == []
    with pytest.raises(sq.ActionRefused, match="cannot retry a group that is waiting"):
        groups.retry(box, "shop", "c1", **BY)


def test_retried_with_another_body_the_original_is_kept(box):
    define(box, keep="everything")
    (first, _) = publish(box, 1, 2)
    failing(box)
    groups.retry(box, "shop", "c1", body=b'{"mended": true}', **BY)
    failing(box)  # that wasn't it
    groups.retry(box, "shop", "c1", body=b'{"mended": "again"}', **BY)
    assert [one.message.body for one in box.peek("shop")] == [b'{"mended": "again"}', b"{}"]
    assert deliveries(box) == [(1, 1, False, b'{"mended": "again"}'), (2, 2, False, b"{}")]
    message, _ = messages.message(box, first)
    assert (message.body, dict(message.context)["version"]) == (b"{}", 1)
    edits = rows(box, "SELECT body, edited_by FROM {schema}.edits ORDER BY edit_id")
    assert edits == [(b'{"mended": true}', "ann"), (b'{"mended": "again"}', "ann")]
    retention.purge(box)
    assert len(rows(box, "SELECT FROM {schema}.edits")) == 2  # the history has it
    retention.purge(box, queue="shop", older_than=0)
    retention.purge(box)
    assert rows(box, "SELECT FROM {schema}.edits") == []


def test_a_body_that_is_not_what_its_type_says_is_refused(box):
    define(box)
    publish(box, 1)
    failing(box)
    with pytest.raises(sq.UsageError, match="the body is not what type 'order' says"):
        groups.retry(box, "shop", "c1", body=b"[]", **BY)
    assert (state(box), logged(box)) == ("faulted", [])


def test_a_message_that_waits_for_its_next_attempt_is_tried_now(box):
    define(box, retry=sq.Retry(delay=3600, ceiling=3600))
    publish(box, 1, 2)
    failing(box, TRANSIENT)
    assert received(box) == []
    done = groups.retry(box, "shop", "c1", **BY)
    assert (done.before, done.after, done.released, done.set_aside) == ("ready", "ready", 0, 0)
    assert received(box) == [1, 2]
    with pytest.raises(sq.ActionRefused, match="cannot retry a group that is ready"):
        groups.retry(box, "shop", "c1", **BY)


def test_a_skipped_message_is_a_dead_letter_and_its_group_goes_on(box):
    define(box)
    publish(box, 1, 2, 3)
    failing(box, done=1)
    done = groups.skip_message(box, "shop", "c1", **BY)
    assert (done.before, done.after, done.set_aside) == ("faulted", "ready", 1)
    assert received(box) == [3]
    (letter,) = dead_letters.dead_letters(box)
    assert (letter.sequence, letter.ordinal, letter.attempt) == (2, 2, 1)
    assert (letter.reason, letter.error) == ("an operator skipped the message", "ValueError: no such customer")
    assert invariants.broken(box) == []


def test_a_set_is_mended_whole(box):
    define(box, sq.UnitOfWork(size=3))
    publish(box, 1, 2, 3)
    failing(box, size=3)
    assert state(box) == "faulted"
    with pytest.raises(sq.UsageError, match="a set of several messages failed"):
        groups.retry(box, "shop", "c1", body=b"{}", **BY)
    groups.retry(box, "shop", "c1", **BY)
    failing(box, size=3)
    assert groups.skip_message(box, "shop", "c1", **BY).set_aside == 3
    assert (state(box), received(box)) == ("closed", [])
    assert dead(box) == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(sq.ActionRefused, match="cannot requeue into a group that is closed"):
        dead_letters.requeue(box, dead_letters.dead_letters(box)[0].entry_id, **BY)


def test_an_aborted_group_is_faulted_no_more(box):
    define(box)
    publish(box, 1, 2)
    failing(box)
    done = groups.abort(box, "shop", "c1", **BY)
    assert (done.after, done.set_aside) == ("ready", 2)
    publish(box, 3)
    assert received(box) == [3]


def test_all_faulted_groups_of_one_error(box):
    define(box)
    for group in ("a", "b", "c"):
        publish(box, 1, group=group)
    failing(box, group="a")
    failing(box, group="b")
    where = groups.GroupFilter("shop", error="SUCH customer")
    found = bulk.chosen(box, Action.RETRY, where)
    assert [one.group for one in found] == ["a", "b"]
    assert [one.after for one in bulk.each(box, Action.RETRY, found, **BY)] == ["ready", "ready"]
    assert bulk.chosen(box, Action.RETRY, where) == []


def letter_of(box, sequence):
    return next(one.entry_id for one in dead_letters.dead_letters(box) if one.sequence == sequence)


def test_requeued_it_goes_to_its_place_if_nothing_later_was_delivered(box):
    define(box)
    publish(box, 1, 2, 3, 4)
    failing(box, done=1)
    groups.skip_message(box, "shop", "c1", **BY)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    assert dead(box) == [(2, 2), (3, 3)]
    groups.suspend(box, "shop", "c1", **BY)
    done = dead_letters.requeue(box, letter_of(box, 3), **BY)
    assert (done.place, done.warning) == ("ordinal", None)
    assert dead_letters.requeue(box, letter_of(box, 2), **BY).place == "ordinal"
    groups.resume(box, "shop", "c1", **BY)
    assert deliveries(box) == [(2, 2, False, b"{}"), (3, 3, False, b"{}"), (4, 4, False, b"{}")]
    assert (dead(box), invariants.broken(box)) == ([], [])


def test_what_went_to_the_end_stays_late_however_often_it_fails(box):
    define(box)
    publish(box, 1, 2)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    assert received(box) == [2]
    assert dead_letters.requeue(box, letter_of(box, 1), **BY).place == "end"
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    assert dead_letters.requeue(box, letter_of(box, 1), **BY).place == "ordinal"
    assert [(sequence, late) for sequence, _, late, _ in deliveries(box)] == [(1, True)]


def test_requeued_it_goes_to_the_end_where_something_later_was_delivered_and_says_so(box):
    define(box)
    publish(box, 1, 2, 3)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    assert received(box, limit=1) == [2]
    done = dead_letters.requeue(box, letter_of(box, 1), **BY)
    assert done.place == "end"
    assert "it goes to the end, flagged as late" in done.warning
    assert deliveries(box) == [(3, 3, False, b"{}"), (1, 4, True, b"{}")]
    publish(box, 4)
    assert deliveries(box) == [(4, 5, False, b"{}")]
    assert invariants.broken(box) == []
    assert logged(box) == ["skip_message", "requeue"]


@pytest.mark.parametrize("forgotten", [False, True])
def test_what_was_never_released_is_judged_again(box, forgotten):
    define(box)
    publish(box, 2, 4)
    groups.abort(box, "shop", "c1", **BY)
    assert dead(box) == [(2, None), (4, None)]
    if forgotten:
        groups.forget(box, "shop", "c1", actor="ann", reason="anew")
    for sequence in (2, 4):
        assert dead_letters.requeue(box, letter_of(box, sequence), **BY).place == "arrival"
    view = groups.group_view(box, "shop", "c1")
    assert (view.state, view.held, view.hole_through) == ("waiting", 2, 1)
    publish(box, 1, 3)
    assert [row[:3] for row in deliveries(box)] == [(one, one, False) for one in (1, 2, 3, 4)]
    assert invariants.broken(box) == []


def test_what_was_never_released_and_was_passed_goes_to_the_end(box):
    define(box)
    publish(box, 2)
    groups.abort(box, "shop", "c1", **BY)
    publish(box, 1, 3)
    groups.reset(box, "shop", "c1", next=3, **BY)
    assert received(box) == [1, 3]
    assert dead_letters.requeue(box, letter_of(box, 2), **BY).place == "end"
    assert [row[:3] for row in deliveries(box)] == [(2, 3, True)]
    assert invariants.broken(box) == []


def test_a_dead_letter_of_a_life_before_goes_to_the_end(box):
    define(box)
    publish(box, 1, 2, 3)
    failing(box, done=2)
    groups.skip_message(box, "shop", "c1", **BY)
    groups.forget(box, "shop", "c1", actor="ann", reason="anew")
    publish(box, 1, 2)
    assert received(box) == [1, 2]
    assert dead_letters.requeue(box, letter_of(box, 3), **BY).place == "end"
    assert [row[:3] for row in deliveries(box)] == [(3, 3, True)]


def test_a_dead_letter_of_a_group_that_is_not_remembered_any_more_is_judged_as_new(box):
    define(box)
    publish(box, 1, 2)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    assert received(box) == [2]
    rows(box, "DELETE FROM {schema}.known_groups RETURNING 1")
    assert dead_letters.requeue(box, letter_of(box, 1), **BY).place == "arrival"
    assert [row[:3] for row in deliveries(box)] == [(1, 1, False)]
    assert invariants.broken(box) == []


def test_what_is_requeued_into_a_faulted_group_does_not_hide_what_failed(box):
    define(box)
    publish(box, 1, 2, 3)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    failing(box)
    assert dead_letters.requeue(box, letter_of(box, 1), **BY).place == "ordinal"
    found = groups.standing(box, "shop", "c1")
    assert (found.blocks.sequence, found.following.sequence, found.behind) == (2, 1, 2)
    assert groups.skip_message(box, "shop", "c1", **BY).set_aside == 1
    assert (received(box), dead(box)) == ([1, 3], [(2, 2)])


def test_a_queue_without_groups(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("shop", sq.Unordered()),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )
    publish_to = [sq.Message(type="order", context={"customer": "x"})]
    with box.session() as tx:
        tx.publish(publish_to)
    failing(box, group=None)
    (letter,) = dead_letters.dead_letters(box, "shop", error="no such")
    assert dead_letters.requeue(box, letter.entry_id, **BY).place == "arrival"
    with box.session() as tx:
        assert [(one.attempt, one.ordinal) for one in tx.receive("shop")] == [(2, None)]
    assert dead_letters.dead_letters(box) == []


def test_deleted_a_dead_letter_is_gone_with_its_message(box):
    define(box)
    (first, *_) = publish(box, 1, 2)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    number = letter_of(box, 1)
    with pytest.raises(sq.UsageError, match=f"there is no dead letter {number + 999}"):
        dead_letters.delete(box, [number, number + 999], **BY)
    assert dead_letters.delete(box, [number], **BY) == 1
    with pytest.raises(sq.UsageError, match=f"there is no dead letter {number}"):
        dead_letters.requeue(box, number, **BY)
    retention.purge(box)
    with pytest.raises(sq.UsageError, match="there is no message"):
        messages.message(box, first)
    assert logged(box) == ["skip_message", "delete"]
    assert invariants.broken(box) == []


def test_many_are_put_back_in_the_order_in_which_they_were_released(box):
    define(box)
    publish(box, *range(1, 8))
    failing(box)
    groups.abort(box, "shop", "c1", **BY)
    found = dead_letters.dead_letters(box, key="c?", older_than=0)
    assert len(found) == 7
    done = list(dead_letters.requeue_each(box, reversed(found), **BY))
    assert [one.letter.ordinal for one in done] == list(range(1, 8))
    assert [row[0] for row in deliveries(box)] == list(range(1, 8))
    assert list(dead_letters.requeue_each(box, found, **BY)) == []  # they are none now


def test_faults_newest_first(box):
    define(box, retry=sq.Retry(9, delay=0))
    publish(box, 1)
    (second,) = publish(box, 1, group="c2")
    failing(box, TRANSIENT)
    failing(box)
    failing(box, group="c2")
    found = faults.faults(box)
    assert [(one.group, one.kind, one.attempt) for one in found] == [
        ("c2", "business", 1), ("c1", "business", 2), ("c1", "transient", 1),
    ]  # fmt: skip
    assert [one.kind for one in faults.faults(box, "shop", group="c1", kind="transient")] == ["transient"]
    assert [one.message_id for one in faults.faults(box, message_id=second)] == [second]
    assert [one.kind for one in faults.faults(box, error="TIMEOUT")] == ["transient"]
    assert faults.faults(box, key="c?", older_than="1h") == []
    assert faults.faults(box, before=found[0].fault_id, limit=1) == found[1:2]
    assert faults.fault_view(box, found[0].fault_id).traceback == "Traceback …"
    with pytest.raises(sq.UsageError, match="there is no fault 99"):
        faults.fault_view(box, 99)
    with pytest.raises(sq.UsageError, match="'odd' is not a kind"):
        faults.faults(box, kind="odd")


def test_whoever_waits_for_a_message_is_called(box):
    """A receiver that waits gets what an operator has freed."""
    import threading

    define(box)
    publish(box, 1)
    failing(box)
    got = []

    def receive():
        with box.session() as tx:
            got.extend(one.sequence for one in tx.receive("shop", wait=60))

    receiver = threading.Thread(target=receive)
    receiver.start()
    while not rows(box, "SELECT FROM {schema}.waiters"):
        assert receiver.is_alive()
    groups.retry(box, "shop", "c1", **BY)
    receiver.join(120)
    assert got == [1]
