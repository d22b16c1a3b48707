"""The activation of a queue: declared, on and off, and what there is to do."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.workers import reader_slots
from seriatim.box.workers.reader_slots import Slots
from seriatim.cli.main import main
from seriatim.operations import queues
from seriatim.operations.grants import grant
from tests.box.operators.test_roles import team  # noqa: F401 -- a fixture
from tests.box.shop import define, publish

SOME = sq.Activation("orders:handle", maximum=3)


def ready(box, queue="shop"):
    (found,) = [one for one in queues.activations(box) if one.queue == queue]
    return found.ready


def test_what_is_declared_is_kept_and_what_an_operator_did_stays(box):
    define(box)
    assert queues.activations(box) == []
    define(box, activation=SOME)
    (found,) = queues.activations(box)
    assert (found.queue, found.activation, found.is_on, found.ready) == ("shop", SOME, True, 0)
    assert [str(one) for one in queues.deactivate(box, "shop")] == ["deactivated queue shop"]
    assert queues.deactivate(box, "shop") == []
    changed = sq.Activation("orders:other", maximum=3)
    define(box, activation=changed)
    (found,) = queues.activations(box)
    assert (found.activation, found.is_on) == (changed, False)
    define(box, activation=sq.Activation("orders:other", enabled=False))
    define(box, activation=changed)  # its own word has changed
    assert queues.activations(box)[0].is_on
    queues.turn_off(box, "shop")
    assert not queues.activations(box)[0].is_on


def test_what_is_set_for_the_queue_counts_before_the_numbers_of_readers_that_are_declared(box):
    define(box, activation=sq.Activation("orders:handle", minimum=2, maximum=3))
    for customer in "abcdef":
        publish(box, 1, customer=customer)

    def numbers():
        (found,) = queues.activations(box)
        return found.minimum, found.maximum, found.ready

    assert numbers() == (2, 3, 4)
    queues.set_queue(box, "shop", workers=5)
    assert numbers() == (2, 5, 6)
    queues.set_queue(box, "shop", in_flight=1)
    assert numbers() == (1, 1, 2)
    queues.set_queue(box, "shop", in_flight=None, workers=1000)
    assert numbers() == (2, 256, 6)
    queues.set_queue(box, "shop", workers=None)
    assert numbers() == (2, 3, 4)


def test_a_queue_without_one_cannot_be_activated(box):
    define(box)
    for name, told in (("shop", "the queue has no activation"), ("nowhere", "there is no queue")):
        with pytest.raises(sq.UsageError, match=told):
            queues.activate(box, name)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"handler": "nonsense"}, "doesn't name a function"),
        ({"minimum": -1}, "minimum can't be -1"),
        ({"maximum": 0}, "maximum can't be 0"),
        ({"maximum": 257}, "maximum can't be 257"),
        ({"handler": "a:b", "pace": 5}, "pace can't be 5"),
        ({"mode": "leased"}, "mode can't be 'leased' where the handlers are those of starting subscriptions"),
        ({"lease": 0.1}, "lease can't be 0.1"),
        ({"minimum": 2}, "minimum is 2, and maximum 1"),
        ({"run_as": ""}, "is not the name of a role"),
        ({"enabled": 1}, "enabled can't be 1"),
        ({"batch": "no"}, "batch can't be 'no'"),
        ({"port": ""}, "port can't be ''"),
        ({"port": "x" * 10_001}, "port can't be that"),
        ({"faults": sq.FaultKinds(business=[KeyError])}, "business has a class, which no box can keep"),
        ({"port": "queue: {name: q}", "handler": "a:b"}, "an activation takes a port or a handler, not both"),
    ],
)
def test_what_cannot_be_is_refused(given, told):
    with pytest.raises(sq.UsageError, match=told):
        sq.Activation(**given)
    with pytest.raises(sq.UsageError, match="activation can't be"):
        sq.Queue("q", group="key", activation="orders:handle")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: sq.Pace(run_length=0), "Pace: run_length can't be 0"),
        (lambda: sq.Pace(rate=0), "Pace: rate can't be 0"),
        (lambda: sq.Pace(rate="fast"), "Pace: rate can't be 'fast'"),
        (lambda: sq.Pace(turn_limit=0), "Pace: turn_limit can't be 0"),
        (lambda: sq.Lease(0.1), "Lease: time can't be 0.1"),
        (lambda: sq.Lease(heartbeat=20), "too short for a heartbeat of 20 s"),
        (lambda: sq.FaultKinds("a:E"), "FaultKinds: transient can't be 'a:E'"),
        (lambda: sq.FaultKinds(business=["a b:E"]), "business: 'a b:E' doesn't name a class of exceptions"),
        (lambda: sq.FaultKinds(business=["Nothing"]), "business: 'Nothing' doesn't name a class of exceptions"),
        (lambda: sq.FaultKinds([KeyError], [KeyError]), "KeyError can't be both transient and business"),
    ],
)
def test_what_no_value_can_be(make, told):
    with pytest.raises(sq.UsageError, match=told):
        make()


def test_groups_with_something_to_do_are_counted(box):
    define(box, activation=SOME)
    for customer in ("a", "b"):
        publish(box, 1, 2, 3, customer=customer)
    assert ready(box) == 2
    with box.session() as tx:
        assert tx.receive("shop", limit=1) is not None
        # Who has a group in hand is counted, and a group that is judged as much as one that isn't.
        assert ready(box) == 2
    for customer in ("c", "d", "e"):
        publish(box, 1, customer=customer)
    assert ready(box) == 4  # one more than there may be readers
    publish(box, 2, customer="held")
    for _ in range(20):
        with box.session() as tx:
            delivery = tx.receive("shop", limit=10)
            if delivery is not None:
                delivery.done()
    assert ready(box) == 0


def test_what_waits_is_not_counted_before_its_time(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("shop", policy=sq.Unordered(), activation=SOME),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )
    with box.session() as tx:
        tx.publish(sq.Message(type="order"), visible_at=datetime.now(UTC) + timedelta(days=1))
    assert ready(box) == 0
    publish(box, 1, 2)
    assert ready(box) == 2


def test_a_role_sees_those_that_it_may_receive_from(team):  # noqa: F811
    box, role = team
    box.define(
        sq.Queue("shop", policy=sq.Standard(), group="customer", sequence="version", activation=SOME),
        sq.Queue("vault", policy=sq.Fifo(), group="customer", activation=SOME),
    )
    name, dsn = role("clerk")
    grant(box, name, receive=["shop"])
    with sq.MessageBox.open(dsn, schema=box.schema) as mine, Slots(mine) as slots:
        assert [one.queue for one in queues.activations(mine)] == ["shop"]
        assert slots.look() == queues.activations(mine)
        assert slots.fill(1, 2) == 2
    other, dsn = role("other")
    grant(box, other, publish=["shop"])
    with sq.MessageBox.open(dsn, schema=box.schema) as theirs, pytest.raises(sq.SeriatimError, match="may not receive"):
        queues.activations(theirs)


def test_slots_are_one_process_s_at_a_time(box):
    with Slots(box) as first, Slots(box) as second:
        assert first.fill(1, 3) == 3
        assert second.fill(1, 3) == 0
        assert second.fill(1, 5) == 2
        assert second.fill(2, 3) == 3
        first.leave(1, 1)
        assert second.fill(1, 5) == 4
        assert (first.fill(1, 5), second.fill(1, 1)) == (1, 0)
        with box.session() as tx:  # somebody ends the connection that has them
            tx.connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
            )
        with pytest.raises(sq.Unavailable):
            first.fill(1, 9)
        assert first.fill(1, 2) == 2


def test_slots_of_one_that_is_lost_are_free_after_a_while(box, monkeypatch):
    with Slots(box) as first, Slots(box) as second:
        with monkeypatch.context() as patch:  # the second one isn't lost, however long the machine stands still
            patch.setattr(reader_slots, "_IDLE_MS", 1_000)
            assert first.fill(1, 3) == 3
        deadline = time.monotonic() + 120
        while second.fill(1, 3) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(sq.Unavailable):
            first.fill(1, 4)
        assert first.fill(1, 4) == 1


def test_the_command(box):
    def run(*words):
        return CliRunner().invoke(main, ["queue", *words, "--dsn", box.dsn, "--schema", box.schema])

    define(box)
    assert "the queue has no activation" in run("activation", "off", "shop").output
    define(box, activation=SOME)
    assert run("activation", "off", "shop").output == "deactivated queue shop\n"
    assert "activation: off, handler orders:handle, minimum 0, maximum 3" in run("show", "shop").output
    assert '"activated": false' in run("show", "shop", "--json").output
    assert run("activation", "on", "shop").output == "activated queue shop\n"
    assert run("activation", "on", "shop").output == "nothing to change\n"
