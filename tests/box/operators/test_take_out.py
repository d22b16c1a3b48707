"""One waiting message is taken out of the middle of its group: the others stay in order, and its number is known as taken."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.box.faults.faults import fail
from seriatim.operations import dead_letters, groups, invariants, messages
from tests.box.console import BUSINESS, BY, ORDER, rows

QUEUES = {
    "standard": sq.Standard(capacity=10),
    "fifo": sq.Fifo(),
    "best": sq.BestEffort(window=3600),
    "sets": sq.UnitOfWork(size=3),
    "jobs": sq.Unordered(),
}


@pytest.fixture(scope="module")
def port(postgresql):
    """A box with a queue of each policy."""
    with sq.MessageBox.open(postgresql, schema="test_take_out") as box:
        box.define(ORDER)
        for name, policy in QUEUES.items():
            ordered = not isinstance(policy, sq.Unordered)
            sequence = "version" if ordered and not isinstance(policy, sq.Fifo) else None
            box.define(
                sq.Queue(name, policy, group="customer" if ordered else None, sequence=sequence),
                sq.Subscription(name, where=f"customer LIKE '{name} %'", to=name),
            )
        yield box
        assert invariants.broken(box) == []


def publish(box, key, *numbers, ids=None):
    with box.session() as tx:
        tx.publish(
            [
                sq.Message(
                    type="order",
                    body=b"{}",
                    message_id=f"{key} {one}{ids or ''}",
                    context={"customer": key, "version": one},
                )
                for one in numbers
            ]
        )


def received(box, queue, key=None, limit=50):
    with box.session() as tx:
        return [one.message_id.split()[2] for one in tx.receive(queue, limit=limit, group=key) or ()]


def judged(box, queue, key):
    with box.session() as tx:
        assert tx.receive(queue, group=key) is None


def take_out(box, key, number):
    return groups.skip_message(box, key.split()[0], key, message=f"{key} {number}", **BY)


def aside(box, key):
    return rows(
        box, "SELECT disposition, sequence, reason FROM {schema}.aside WHERE group_key = %s ORDER BY entry_id", key
    )


DEAD = "an operator skipped the message"


def test_a_held_one(port):
    publish(port, "standard held", 1, 3, 4, 5)
    assert received(port, "standard") == ["1"]
    done = take_out(port, "standard held", 4)
    assert (done.before, done.after, done.set_aside, done.released) == ("waiting", "waiting", 1, 0)
    view = groups.group_view(port, "standard", "standard held")
    assert (view.held, view.next, view.hole_through, view.waiting) == (2, 2, 2, 2)
    publish(port, "standard held", 4, ids=" again")
    judged(port, "standard", "standard held")
    publish(port, "standard held", 2)
    assert received(port, "standard") == ["2", "3", "5"]
    publish(port, "standard held", 4, ids=" late")
    judged(port, "standard", "standard held")
    assert aside(port, "standard held") == [
        ("dead", 4, DEAD),
        ("duplicate", 4, "its number was taken in before"),
        ("late", 4, "its number was skipped before"),
    ]


def test_all_that_was_held(port):
    """Nothing waits any more: no hole, no clock; and what never came passes the place."""
    publish(port, "standard all", 1, 3)
    assert received(port, "standard") == ["1"]
    assert take_out(port, "standard all", 3).after == "ready"
    view = groups.group_view(port, "standard", "standard all")
    assert (view.state, view.held, view.hole_since, view.next) == ("ready", 0, None, 2)
    publish(port, "standard all", 2, 4)
    assert received(port, "standard") == ["2", "4"]


def test_a_marker_ends_a_hole(port):
    publish(port, "standard ends", 1, 3, 5)
    assert received(port, "standard") == ["1"]
    take_out(port, "standard ends", 3)
    view = groups.group_view(port, "standard", "standard ends")
    assert (view.next, view.hole_through) == (2, 2)
    done = groups.skip_hole(port, "standard", "standard ends", **BY)
    assert [(one.first, one.last) for one in done.events if one.kind == "hole_skipped"] == [(2, 2)]
    view = groups.group_view(port, "standard", "standard ends")
    assert (view.next, view.hole_through) == (4, 4)


def test_an_arrived_and_a_queued_one(port):
    """The number of a released message is behind `next`: the message is late when it comes again."""
    publish(port, "standard queued", 1, 2, 3, 4)
    take_out(port, "standard queued", 2)  # which nobody has judged
    take_out(port, "standard queued", 3)  # which that has released
    publish(port, "standard queued", 2, 3, ids=" again")
    assert received(port, "standard") == ["1", "4"]
    assert aside(port, "standard queued") == [
        ("dead", 2, DEAD),
        ("dead", 3, DEAD),
        ("late", 2, "its number was skipped before"),
        ("late", 3, "its number was skipped before"),
    ]


@pytest.mark.parametrize("way", ["held", "queued"])
def test_what_was_taken_out_is_put_back(port, way):
    key = f"standard back-{way}"
    publish(port, key, *((1, 3) if way == "held" else (1, 2, 3)))
    if way == "held":
        assert received(port, "standard") == ["1"]
    take_out(port, key, 3)
    (letter,) = dead_letters.dead_letters(port, "standard", key=key)
    dead_letters.requeue(port, letter.entry_id, **BY)
    if way == "held":
        publish(port, key, 2)
    assert received(port, "standard") == (["2", "3"] if way == "held" else ["1", "2", "3"])
    publish(port, key, 3, ids=" again")
    judged(port, "standard", key)
    assert aside(port, key) == [("duplicate", 3, "its number was taken in before")]


def test_an_abort_waits_for_nothing_of_its_own(port):
    publish(port, "standard abort", 1, 2, 4, 6)
    groups.suspend(port, "standard", "standard abort", **BY)
    done = groups.abort(port, "standard", "standard abort", **BY)
    assert done.set_aside == 4
    view = groups.group_view(port, "standard", "standard abort")
    assert (view.waiting, view.next) == (0, 3)
    groups.resume(port, "standard", "standard abort", **BY)
    publish(port, "standard abort", 3, 5, 7)
    assert received(port, "standard") == ["3", "5", "7"]


def test_an_abort_of_what_was_released(port):
    publish(port, "standard released", 1, 2, 4)
    groups.suspend(port, "standard", "standard released", **BY)  # which judges what has come
    groups.resume(port, "standard", "standard released", **BY)
    groups.abort(port, "standard", "standard released", **BY)
    publish(port, "standard released", 1, 4, ids=" again")
    publish(port, "standard released", 3, 5)
    assert received(port, "standard") == ["3", "5"]
    again = [row[:2] for row in aside(port, "standard released") if row[0] != "dead"]
    assert again == [("late", 1), ("duplicate", 4)]


def test_by_arrival_in_a_suspended_group(port):
    publish(port, "fifo port", 1, 2, 3, 4, 5)
    groups.suspend(port, "fifo", "fifo port", **BY)
    take_out(port, "fifo port", 3)
    view = groups.group_view(port, "fifo", "fifo port")
    assert (view.state, view.suspended_by, view.waiting) == ("suspended", BY["actor"], 4)
    with pytest.raises(sq.ActionRefused, match="no message has stopped the group, which is suspended"):
        groups.skip_message(port, "fifo", "fifo port", **BY)
    groups.resume(port, "fifo", "fifo port", **BY)
    assert received(port, "fifo", "fifo port") == ["1", "2", "4", "5"]


def test_the_failed_one_by_its_name(port):
    publish(port, "fifo failed", 1, 2)
    with port.session() as tx:
        fail(tx.transaction, tx.receive("fifo", group="fifo failed"), 0, 1, BUSINESS)
    assert take_out(port, "fifo failed", 2).after == "faulted"
    assert take_out(port, "fifo failed", 1).after == "ready"
    assert received(port, "fifo", "fifo failed") == []


@pytest.mark.parametrize(("queue", "dead"), [("standard", [1]), ("fifo", [None]), ("sets", [1, 2, 3])])
def test_the_failed_one_of_a_suspended_group_stops_it_no_more(port, queue, dead):
    key = f"{queue} both"
    publish(port, key, 1, 2, 3)
    with port.session() as tx:
        fail(tx.transaction, tx.receive(queue, limit=3, group=key), 0, len(dead), BUSINESS)
    groups.suspend(port, queue, key, **BY)
    done = take_out(port, key, dead[-1] or 1)
    after = "closed" if queue == "sets" else "suspended"  # a set is all or nothing
    assert (done.before, done.after, done.set_aside) == ("suspended", after, len(dead))
    assert [one[:2] for one in aside(port, key)] == [("dead", number) for number in dead]
    if after == "suspended":
        assert groups.resume(port, queue, key, **BY).after == "ready"
        assert received(port, queue, key) == ["2", "3"]


def test_another_one_of_a_suspended_group_leaves_it_faulted(port):
    key = "fifo other"
    publish(port, key, 1, 2, 3)
    with port.session() as tx:
        fail(tx.transaction, tx.receive("fifo", group=key), 0, 1, BUSINESS)
    groups.suspend(port, "fifo", key, **BY)
    take_out(port, key, 2)
    assert groups.resume(port, "fifo", key, **BY).after == "faulted"
    assert groups.retry(port, "fifo", key, **BY).after == "ready"
    assert received(port, "fifo", key) == ["1", "3"]


def test_of_a_round_and_of_a_set(port):
    publish(port, "best round", 3, 1, 2)
    take_out(port, "best round", 1)
    assert groups.group_view(port, "best", "best round").held == 2
    publish(port, "sets set", 1, 3)
    take_out(port, "sets set", 1)
    publish(port, "sets set", 2)
    assert received(port, "sets") == ["2", "3"]
    assert groups.group_view(port, "sets", "sets set").state == "closed"


def test_without_groups(port):
    publish(port, "jobs one", 1, 2, 3)
    with port.session() as tx:
        delivery = tx.receive("jobs", limit=1)
        (taken,) = [one.message_id for one in delivery]
        with pytest.raises(sq.ActionRefused, match="is in a receiver's hands"):
            messages.take_out(port, taken, queue="jobs", **BY)
    others = [f"jobs one {number}" for number in (1, 2, 3) if f"jobs one {number}" != taken]
    (done,) = messages.take_out(port, others[0], queue="jobs", **BY)
    assert done.set_aside == 1
    assert [one.message_id for one in dead_letters.dead_letters(port, "jobs")] == [others[0]]
    assert received(port, "jobs") == [others[1].split()[2]]


def test_a_message_without_a_group_stays_while_a_lease_has_it(port):
    publish(port, "jobs leased", 1)
    handled: list[str] = []

    def handle(message, tx):
        with pytest.raises(sq.ActionRefused, match="is in a receiver's hands"):
            messages.take_out(port, message.message_id, queue="jobs", **BY)
        handled.append(message.message_id)

    sq.Worker(port, "jobs", handle, workers=1, mode="leased").run(until_idle=True)
    assert handled == ["jobs leased 1"]
    assert "jobs leased 1" not in [one.message_id for one in dead_letters.dead_letters(port, "jobs")]


def test_what_does_not_wait_is_refused_and_nothing_is_done(port):
    publish(port, "fifo refused", 1, 2)
    for group, message, why in (
        ("fifo refused", "nobody's", "does not wait there"),
        ("fifo port", "fifo refused 1", "does not wait there"),
    ):
        with pytest.raises(sq.ActionRefused, match=why):
            groups.skip_message(port, "fifo", group, message=message, **BY)
    with pytest.raises(sq.ActionRefused, match="does not wait there"):
        messages.take_out(port, ["fifo refused 2", "nobody's"], queue="fifo", **BY)
    with port.session() as tx:
        delivery = tx.receive("fifo", group="fifo refused", limit=1)
        refused: list[BaseException] = []

        def outside():
            try:
                take_out(port, "fifo refused", 2)
            except sq.ActionRefused as error:
                refused.append(error)

        thread = threading.Thread(target=outside)
        thread.start()
        thread.join()
        assert "cannot skip the message of a group that is locked" in str(refused[0])
        delivery.done()
    assert received(port, "fifo", "fifo refused") == ["2"]


def test_what_was_done_is_in_the_log(port):
    publish(port, "fifo log", 1, 2)
    take_out(port, "fifo log", 1)
    assert rows(
        port,
        "SELECT action, reason, details ->> 'message_id' FROM {schema}.operator_log WHERE group_key = %s",
        "fifo log",
    ) == [("take_out", BY["reason"], "fifo log 1")]


def test_only_who_skips_a_message_names_one_of_a_group(port):
    """A retry, or another action, that named one made it a dead letter."""
    key = "standard retried"
    publish(port, key, 1, 2, 3)
    with port.session() as tx:
        fail(tx.transaction, tx.receive("standard", limit=10, group=key), 0, 1, BUSINESS)
    with pytest.raises(sq.UsageError, match="a message of queue 'standard' stops its group"):
        groups.retry(port, "standard", key, message=f"{key} 2", **BY)
    with pytest.raises(sq.UsageError, match="suspend takes no message"):
        groups.act(port, groups.Action.SUSPEND, "standard", key, message=f"{key} 2", **BY)
    assert aside(port, key) == []
    assert groups.retry(port, "standard", key, **BY).before == "faulted"
    assert received(port, "standard", key) == ["1", "2", "3"]
