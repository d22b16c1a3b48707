"""What is set aside or left unrouted without a handler is told as well: by publishers, pipelines, turns and operators."""

from __future__ import annotations

import json
import time
from collections import Counter

import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box import notices
from seriatim.box.faults.faults import Fault, fail
from seriatim.box.pipelines.staging import Staging
from seriatim.box.postgres import statements
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import dead_letters, invariants
from seriatim.operations import messages as message_operations
from seriatim.operations.messages import resubmit
from seriatim.testing.work import work_off
from tests.box.faults.test_failures import ask, by_itself, by_session, by_sql, failures, stray
from tests.box.shop import define

BUSINESS = Fault(FaultKind.BUSINESS, "ValueError", "no", "w1")
DEADLINE_S = 120.0
WHO = {"actor": "me", "reason": "test"}
LOOKS = {"kept_out", "failed_messages", "behind_holes"}
TOLD = ("failed_queue", "failed_group", "failed_type", "fault_kind", "error_class", "dead_letter", "error")


@pytest.fixture
def asked(monkeypatch):
    """The statements with which notices were looked up, in order."""
    found, read = [], statements.statement

    def noted(name, *given, **options):
        found.extend({name} & LOOKS)
        return read(name, *given, **options)

    monkeypatch.setattr(statements, "statement", noted)
    return found


def short(found):
    return [tuple(one[key] for key in TOLD) for one in found]


def test_failures_with_the_body(box):
    """Of what a queue finds invalid, and of what its handler fails at; what reaches no queue is told as always."""
    define(box, errors="continue", failures="with_body", retry=sq.Retry(attempts=1))
    ask(box)
    parts = [sq.Part("picture", "image/png", b"png")]
    given = {"type": "order", "body": b"whole", "content_type": "text/plain", "parts": parts}
    box.publish([
        sq.Message(**given, message_id="invalid", context={"customer": "c1"}),
        sq.Message(**given, message_id="fails", context={"customer": "c1", "version": 1}),
        stray(message_id="stray"),
    ])  # fmt: skip

    def refuse(message, tx):
        raise sq.Business("too much")

    work_off(box, "shop", refuse, fails=True)
    with box.session() as tx:
        told = {one.context["parent_id"]: one for one in tx.receive("alarms", limit=10)}
    assert json.loads(told.pop("stray").body)["message_id"] == "stray"
    whole = {name: (one.body, one.content_type, list(one.parts)) for name, one in told.items()}
    assert whole == dict.fromkeys(("invalid", "fails"), (b"whole", "text/plain", parts))
    said = {name: (one.context["fault_kind"], one.context["error_text"]) for name, one in told.items()}
    assert said == {"invalid": ("invalid", "the sequence is missing"), "fails": ("business", "too much")}
    assert told["fails"].context["failed_ordinal"] == 1


@pytest.mark.parametrize("how", [by_session, by_itself, by_sql])
def test_what_has_no_place_in_its_queue(box, how):
    define(box)
    how(box, sq.Message(type="order", context={"customer": "c1"}))  # reads the definitions
    ask(box)
    how(box, sq.Message(type="order", message_id="m1", context={"customer": "c1"}))
    (one,) = failures(box)
    told = ("shop", "c1", "order", "invalid", "Invalid", False, "the sequence is missing")
    assert short([one]) == [told]
    assert (one["message_id"], one["customer"], one["attempts"]) == ("m1", "c1", 0)


def test_a_queue_of_failures_that_takes_none_is_only_logged(box, caplog):
    define(box)
    ask(box, group="failed_group", policy=sq.Fifo())
    box.publish([stray(message_id="m1"), sq.Message(type="order", context={"version": 7})])  # they have no group
    assert failures(box) == []
    assert caplog.text.count("a failure of a failure isn't published: Invalid: the group key is missing") == 2
    assert [one.status for one in message_operations.messages(box, queue="alarms")] == ["invalid", "invalid"]


def test_what_turns_find_invalid(box):
    define(box, policy=sq.Standard(increment=2))
    ask(box)
    box.publish([sq.Message(type="order", context={"customer": "c1", "version": one}) for one in (1, 4)])
    with box.session() as tx:
        assert [one.sequence for one in tx.receive("shop", limit=5)] == [1]
    (one,) = failures(box)
    assert (one["fault_kind"], one["version"], one["failed_group"]) == ("invalid", 4, "c1")
    assert one["error"] == message_operations.messages(box, status="invalid")[0].reason


def test_what_is_found_where_a_dead_letter_is_put_back(box):
    define(box, policy=sq.Standard(increment=2), errors="continue")
    box.publish([sq.Message(type="order", context={"customer": "c1", "version": one}) for one in (1, 3)])
    with box.session() as tx:
        fail(tx.transaction, tx.receive("shop"), 0, 1, BUSINESS)
    ask(box)
    box.publish(sq.Message(type="order", context={"customer": "c1", "version": 4}))
    (letter,) = dead_letters.dead_letters(box)
    dead_letters.requeue(box, letter.entry_id, **WHO)
    assert [(one["fault_kind"], one["version"]) for one in failures(box)] == [("invalid", 4)]


def test_what_is_resubmitted_and_still_has_no_place(box):
    box.publish([sq.Message(type="order", message_id="m1"), stray(message_id="m2")])
    ask(box)
    define(box)
    assert resubmit(box).routed == 1
    (one,) = failures(box)  # the other one is as unrouted as it was
    assert (one["message_id"], one["fault_kind"], one["failed_queue"]) == ("m1", "invalid", "shop")


def test_a_message_whose_instance_has_ended(box):
    box.define(
        sq.MessageType("order", properties={"order_id": "long", "shipment_id": "string"}),
        sq.Queue("work", policy=sq.Fifo(), group="order_id"),
        sq.Subscription("new", "type = 'order'", "work", starts="a:b", correlate=["order_id", "shipment_id"]),
    )
    ask(box)

    def handle(does):
        with box.session() as tx:
            if (delivery := tx.receive("work")) is not None:
                for _ in delivery:
                    does(tx.instance)

    box.publish(sq.Message(type="order", context={"order_id": 7}))
    handle(lambda instance: instance.correlate(shipment_id="S1"))
    box.publish([sq.Message(type="order", context=one) for one in ({"order_id": 7}, {"shipment_id": "S1"})])
    handle(lambda instance: instance.end())
    handle(lambda _: pytest.fail("nobody is there for it"))
    (one,) = failures(box)
    assert short([one]) == [("work", "7", "order", "dead", "DeadLetter", True, "its instance has ended")]
    assert (one["shipment_id"], one["ordinal"], one["attempts"]) == ("S1", 3, 0)


def batch(*messages):
    """A part of a pipeline's batch: (id, type, customer, version)."""
    names = ("message_id", "type", "customer", "version")
    return pa.RecordBatch.from_pydict(dict(zip(names, map(list, zip(*messages, strict=True)), strict=True)))


def test_what_a_pipeline_publishes(box, monkeypatch):
    monkeypatch.setattr(notices, "_PORTION", 2)  # so that there are several
    define(box)
    ask(box)
    with Staging(box.dsn, box.schema) as staging:
        rows = [
            ("a", "order", "c1", 1), ("b", "stray", "c1", 1), ("c", "order", None, 1), ("d", "order", "c1", None),
            ("e", "stray", "c2", 2), ("f", "stray", "c3", 3), ("g", "order", "c2", 1),
        ]  # fmt: skip
        parts = [staging.stage("w", 0, [batch(*rows)])]
        assert staging.merge("w", 0, parts) == 7
        found = failures(box)
        assert {one["message_id"]: one["error"] for one in found} == {
            "b": "no subscription wants it", "c": "the group key is missing", "d": "the sequence is missing",
            "e": "no subscription wants it", "f": "no subscription wants it",
        }  # fmt: skip
        assert len(found) == 5
        assert Counter(one["fault_kind"] for one in found) == {"unrouted": 3, "invalid": 2}
        assert {one["failed_queue"] for one in found if one["fault_kind"] == "invalid"} == {"shop"}
        assert staging.merge("w", 0, [staging.stage("w", 0, [batch(*rows)])]) == 0  # as a batch that comes again
        assert failures(box) == []
    assert invariants.broken(box) == []


def test_how_many_there_are_makes_no_difference_to_how_often_the_box_is_asked(box, asked):
    define(box)
    ask(box)
    for size in (1, 300):
        asked.clear()
        with box.session() as tx:
            tx.publish([stray() for _ in range(size)])
        assert asked == ["kept_out"]
        assert len(failures(box)) == min(size, 100)


def test_holes_of_many_groups_are_looked_up_together(box, asked):
    define(box, policy=sq.Standard(hole_timeout=0.01, on_hole="skip"))
    ask(box)
    box.publish([sq.Message(type="order", context={"customer": f"c{one}", "version": 3}) for one in range(20)])
    found, deadline = [], time.monotonic() + DEADLINE_S
    while len(found) < 20:
        box.tick()  # judges all of them, and some time later again
        with box.session() as tx:
            tx.receive("shop")
        found += failures(box)
        assert time.monotonic() < deadline
    assert {one["error"] for one in found} == {"the numbers 1 to 2 are missing"}
    assert asked.count("failed_messages") == asked.count("behind_holes")


def test_where_nobody_asks_a_pipeline_looks_nothing_up(box, asked):
    define(box)
    with Staging(box.dsn, box.schema) as staging:
        parts = [staging.stage("w", 0, [batch(("b", "stray", "c1", 1), ("c", "order", None, 1))])]
        assert staging.merge("w", 0, parts) == 2
    assert {one.status for one in message_operations.messages(box)} == {"unrouted", "invalid"}
    assert asked == []
