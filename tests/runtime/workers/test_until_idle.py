"""A worker that runs until nothing can be handed out, and what it leaves."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.operations import queues
from seriatim.runtime.workers.idleness import Idleness
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.unhurried import take_all_time


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_it_ends_when_nothing_is_left(box, mode):
    """Also what a handler publishes meanwhile is worked on, whichever thread is free."""
    define(box)
    box.define(
        sq.Subscription("more", where="type = 'more'", to="shop"),
        sq.MessageType("more", {"customer": "string", "version": "long"}),
    )
    publish(box, *range(1, 21), customer="a")
    publish(box, *range(1, 6), customer="b")

    def handle(message, tx):
        see(box, message, tx)
        if message.context["customer"] == "a" and message.sequence == 20:
            return [sq.Message(type="more", context={"customer": f"x{n}", "version": 1}) for n in range(5)]
        return None

    worker = sq.Worker(box, "shop", handle, workers=3, mode=mode)
    assert worker.run(until_idle=True) == 30
    assert left(box) == 0
    assert len(seen(box)) == 30
    assert worker.run(until_idle=True) == 0
    publish(box, 6, customer="b")
    assert worker.run(until_idle=True) == 1


def test_it_waits_for_no_time_no_number_and_no_operator(box):
    define(box, retry=sq.Retry(3, delay=3600, ceiling=3600))
    define(box, "off", enabled=False)
    box.define(sq.Queue("loose", policy=sq.Unordered(), retry=sq.Retry(delay=3600, ceiling=3600)),
               sq.Subscription("loose", where="type = 'order'", to="loose"))  # fmt: skip
    publish(box, 1, 3, customer="hole")
    publish(box, 1, 2, customer="again")
    publish(box, 1, 2, customer="bad")
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "later", "version": 1}), delay=3600)

    def handle(message, tx):
        match message.context["customer"]:
            case "again":
                raise RuntimeError
            case "bad":
                raise sq.Business("no")

    def counts(queue):
        found = queues.not_done(box, queue)
        assert all(one.queue == queue and one.reason for one in found)
        return {(one.why, one.messages, one.until is not None) for one in found}

    assert sq.Worker(box, "shop", handle, workers=2).run(until_idle=True) == 3
    assert counts("shop") == {("held", 1, False), ("retry", 2, True), ("faulted", 2, False), ("later", 1, True)}
    assert sq.Worker(box, "off", handle, workers=2).run(until_idle=True) == 0
    assert counts("off") == {("off", 7, False)} or counts("off") == {("off", 7, True)}
    assert sq.Worker(box, "loose", handle, workers=2).run(until_idle=True) == 6
    assert counts("loose") == {("retry", 2, True), ("later", 1, True)}
    with pytest.raises(sq.UsageError, match="there is no queue 'nowhere'"):
        queues.not_done(box, "nowhere")


@pytest.mark.parametrize("policy", ["standard", "unordered"])
def test_what_another_has_in_hand_isn_t_waited_for(box, policy):
    given = {} if policy == "standard" else {"policy": sq.Unordered(), "group": None, "sequence": None}
    define(box, **given)
    publish(box, 1)
    with box.session() as tx:
        tx.receive("shop").messages  # noqa: B018 -- it is in hand
        assert sq.Worker(box, "shop", lambda message, tx: None).run(until_idle=True) == 0
        assert [(one.why, one.messages) for one in queues.not_done(box, "shop")] == [("in_hand", 1)]
    assert sq.Worker(box, "shop", lambda message, tx: None).run(until_idle=True) == 1


def test_a_handler_that_is_stuck_isn_t_waited_for_either(box):
    define(box, retry=sq.Retry(1))
    publish(box, 1)
    free = threading.Event()
    try:
        worker = sq.Worker(box, "shop", lambda message, tx: free.wait(120), workers=1, pace=sq.Pace(turn_limit=0.3))
        assert worker.run(until_idle=True) == 0
    finally:
        free.set()
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")] == ["timeout"]


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_it_goes_on_with_another_thread_where_all_handlers_are_stuck(box, mode):
    """Also where none of them has been replaced yet."""
    define(box, retry=sq.Retry(1))
    for customer in ("a", "b", "c"):
        publish(box, 1, customer=customer)
    free, tried = threading.Event(), []

    def handle(message, tx):
        tried.append(message.context["customer"])
        if len(tried) == 1:
            free.wait(120)
        take_all_time()

    try:
        sq.Worker(box, "shop", handle, workers=1, pace=sq.Pace(turn_limit=0.5), mode=mode).run(until_idle=True)
    finally:
        free.set()
    assert sorted(tried) == ["a", "b", "c"]
    assert left(box) == 1  # the one that took too long


def test_nobody_is_idle_before_all_have_looked_since_the_last_turn():
    idleness, ended = Idleness(workers=2), []

    def finds_nothing(thread):
        idleness.found_nothing(thread, idleness.looks(thread), 0)

    idleness.joins("a")
    idleness.begins(lambda: ended.append("first"))
    finds_nothing("a")
    assert ended == []  # the other worker hasn't begun
    idleness.joins("b")
    idleness.begins(lambda: ended.append("second"))
    assert ended == []
    seen_by_b = idleness.looks("b")
    idleness.worked()  # of a: b has to look again
    idleness.found_nothing("b", seen_by_b, 0)
    finds_nothing("a")
    assert ended == []
    idleness.looks("a")  # it looks once more, and may find something
    finds_nothing("b")
    assert ended == []
    finds_nothing("a")
    assert ended == ["first", "second"]


def test_who_is_given_up_is_not_waited_for():
    idleness, ended = Idleness(), []
    for thread in ("a", "b"):
        idleness.joins(thread)
    idleness.begins(lambda: ended.append("all"))
    idleness.found_nothing("a", idleness.looks("a"), 0)
    assert ended == []
    idleness.leaves("b")
    assert ended == ["all"]
