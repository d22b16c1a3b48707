"""A queue of two regions is worked on by their worker only: what else completed its copies would pass over the journal."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import messages
from tests.regions.two import Two, message
from tests.regions.working import Handled


def test_nobody_but_a_worker_of_the_regions_receives(two: Two) -> None:
    two.regions.publish([message("s", 1), message("s", 2)])
    box = two.first

    def receive() -> None:
        with box.session() as tx:
            tx.receive("status")

    def receive_group() -> None:
        with box.session() as tx:
            tx.next_group("status")

    for attempt in (
        receive, receive_group, lambda: sq.Worker(box, "status", lambda received, tx: None),
        lambda: sq.Worker(box, "status", lambda received, tx: None, mode="leased"),
    ):  # fmt: skip
        with pytest.raises(sq.ActionRefused, match=r"journal says which region .*RegionalWorker\(regions, 'status'"):
            attempt()
    assert Handled(two.regions).work("a") == [("s", 1), ("s", 2)]


def test_one_box_alone_is_given_no_message_for_both(two: Two) -> None:
    box = two.first
    with pytest.raises(sq.UsageError, match=r"number its messages together.*Regions\.publish"):
        box.publish(message("s", 1))
    with box.session() as tx, pytest.raises(sq.UsageError, match=r"Regions\.publish"):
        tx.publish(message("s", 1))
    with box.session() as tx:  # SQL is told when it is routed
        statement = f"SELECT {box.schema}.publish('status', '', '{{\"session\": \"s\", \"number\": 1}}', 'm1')"
        tx.connection.execute(statement)
    box.tick()
    status = box.status_of("m1")
    assert (status.state, "Regions.publish" in status.reason) == ("unrouted", True)
    assert two.has(box) == []


def test_an_operator_of_one_box_does_not_route_a_message_for_both_again(two: Two) -> None:
    box = two.first
    with box.session() as tx:
        statement = f"SELECT {box.schema}.publish('status', '', '{{\"session\": \"s\", \"number\": 1}}', 'm1')"
        tx.connection.execute(statement)
    box.tick()
    done = messages.resubmit(box)
    assert (done.routed, done.left, two.has(box)) == (0, 1, [])
    status = box.status_of("m1")
    assert (status.state, "Regions.publish" in status.reason) == ("unrouted", True)


def test_an_operator_does_not_route_an_invalid_message_of_before_into_the_queue_of_two_regions(two: Two) -> None:
    box = two.first
    plain = sq.Queue("late", sq.Standard(restart_after=0), group="session", sequence="number")
    for one in two.boxes:
        one.define(plain, sq.Subscription("to-late", where="type = 'late'", to="late"))
    box.publish(sq.Message(type="late", context={"session": "s"}, message_id="m1"))
    two.regions.define(plain)
    with pytest.raises(sq.UsageError, match=r"number its messages together.*Regions\.publish"):
        messages.resubmit(box, queue="late")
    assert ([one.message_id for one in messages.messages(box, status="invalid")], two.has(box)) == (["m1"], [])


def test_a_process_that_knew_the_queue_before_is_refused_too(two: Two) -> None:
    plain = sq.Queue("late", sq.Standard(restart_after=0), group="session", sequence="number")
    for box in two.boxes:
        box.define(plain)
    box = two.first
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        with other.session() as tx:
            assert tx.receive("late") is None
        two.regions.define(plain)
        with other.session() as tx, pytest.raises(sq.ActionRefused, match="journal says"):
            tx.receive("late")


def test_it_takes_no_requests(two: Two) -> None:
    with pytest.raises(sq.UsageError, match=r"one of the regions .* takes no requests"):
        two.first.request(message("s", 1), reply="answer")
