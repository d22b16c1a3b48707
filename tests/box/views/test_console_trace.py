"""The way of a message: each step that the box knows, in order, and an honest word where it doesn't."""

from __future__ import annotations

import re

import pytest

import seriatim as sq
from seriatim.operations import dead_letters, groups, subscriptions, trace
from tests.box.console import BY, TRANSIENT, define, failing, publish, received, rows


def kinds(steps):
    return [str(one.kind) for one in steps]


def text(steps, kind):
    return [one.text for one in steps if one.kind == kind]


def test_from_its_reception_over_a_fault_to_its_end(box):
    define(box, keep="everything")
    first, second = publish(box, 1, 2)
    failing(box, done=1)
    groups.retry(box, "shop", "c1", body=b'{"mended": 1}', **BY)
    assert received(box) == [2]
    steps = trace.trace_message(box, second)
    assert kinds(steps) == ["received", "routed", "released", "fault", "operation", "done"]
    assert text(steps, "received") == ["at location box as order, ticket box/0/2"]
    assert text(steps, "routed") == ["into queue shop, group c1, by shop, sequence 2"]
    assert text(steps, "released") == ["with ordinal 2; the time isn't kept"]
    assert text(steps, "fault") == ["attempt 1 of w1, business: ValueError: no such customer"]
    assert text(steps, "operation") == ["retry by ann, with another body of 13 bytes: ticket 4711"]
    (done,) = text(steps, "done")
    assert re.fullmatch(r"done, by seriatim .*:\d+, handed out 1 time before", done), done
    times = [one.at for one in steps if one.at is not None]
    assert times == sorted(times)
    assert steps[-1].at == rows(box, "SELECT done_at FROM {schema}.history WHERE sequence = 2")[0][0]
    assert kinds(trace.trace_message(box, first)) == ["received", "routed", "released", "done"]  # the retry wasn't its


def test_held_behind_which_hole_and_waiting_for_what(box):
    define(box, retry=sq.Retry(delay=3600, ceiling=3600, jitter=0))
    (one,) = publish(box, 1)
    three, four = publish(box, 3, 4)
    assert trace.trace_message(box, one)[-1].text == "nobody has judged it yet"
    failing(box, TRANSIENT)
    steps = trace.trace_message(box, one)
    assert kinds(steps) == ["received", "routed", "released", "fault", "waits"]
    assert "to be handed out, not before " in steps[-1].text
    assert steps[-1].text.endswith("handed out 1 time before; its group is waiting")
    steps = trace.trace_message(box, four)
    assert kinds(steps) == ["received", "routed", "held"]
    assert steps[-1].text.startswith("behind the hole 2, which is there since ")
    groups.suspend(box, "shop", "c1", **BY)
    steps = trace.trace_message(box, three)
    assert kinds(steps) == ["received", "routed", "operation", "held"]
    assert steps[-1].text == "its group is suspended"
    groups.resume(box, "shop", "c1", **BY)
    groups.skip_hole(box, "shop", "c1", **BY)
    groups.reset(box, "shop", "c1", next=9, **BY)
    said = text(trace.trace_message(box, three), "operation")[2:]
    assert said == ["skip_hole by ann, past 2: ticket 4711", "reset by ann, past 5..8: ticket 4711"]


def test_set_aside_and_put_back(box):
    define(box)
    (first, _) = publish(box, 1, 2)
    failing(box)
    groups.skip_message(box, "shop", "c1", **BY)
    steps = trace.trace_message(box, first)
    assert kinds(steps)[-2:] in (["operation", "set_aside"], ["set_aside", "operation"])
    assert text(steps, "set_aside") == ["dead: an operator skipped the message, handed out 1 time before"]
    received(box)
    dead_letters.requeue(box, dead_letters.dead_letters(box)[0].entry_id, **BY)
    steps = trace.trace_message(box, first)
    assert text(steps, "operation")[-1] == "requeue by ann to the end: ticket 4711"
    assert text(steps, "released") == ["with ordinal 3, late; the time isn't kept"]
    assert text(steps, "set_aside") == ["dead: an operator skipped the message, put back since"]
    told = kinds(steps)
    assert told.index("fault") < told.index("set_aside") < len(told) - 1
    before = [(one.text, one.message_id) for one in trace.trace_group(box, "shop", "c1") if one.kind == "set_aside"]
    assert before == [("dead: an operator skipped the message, put back since", first)]


def test_what_a_queue_does_not_keep_is_said(box):
    define(box, keep="nothing")
    box.define(sq.Queue("copy", group="customer", keep="everything"), sq.Subscription("c", "type = 'order'", to="copy"))
    (one,) = publish(box, 1)
    received(box)
    steps = trace.trace_message(box, one)
    assert text(steps, "unknown") == ["1 more queue had it, and kept nothing of what was done there"]
    assert [one.queue for one in steps if one.kind == "routed"] == ["copy"]
    steps = trace.trace_group(box, "shop", "c1")
    assert text(steps, "unknown") == ["1 of 1 released message can't be shown: queue shop doesn't keep done messages"]
    subscriptions.unenlist(box, "c")
    (two,) = publish(box, 2)
    failing(box)
    groups.retry(box, "shop", "c1", **BY)
    received(box)
    steps = trace.trace_message(box, two)
    assert kinds(steps) == ["received", "unknown", "fault"]
    assert text(steps, "unknown") == [
        "it is gone: done in each queue that had it, which keep nothing of it, acknowledged by another box, or deleted"
    ]
    with pytest.raises(sq.UsageError, match="there is no message 'x'"):
        trace.trace_message(box, "x")


def test_unrouted_and_not_routed_yet(box):
    define(box)
    with box.session() as tx:
        (lost,) = tx.publish(sq.Message(type="note"))
    assert kinds(trace.trace_message(box, lost)) == ["received", "unrouted"]
    assert trace.trace_message(box, lost)[-1].text == "no subscription wanted it"
    rows(
        box,
        "SELECT {schema}.publish('order', '{{}}', '{{\"customer\": \"c1\", \"version\": 1}}', 'by-sql')".replace(
            "{{", "{"
        ).replace("}}", "}"),
    )
    steps = trace.trace_message(box, "by-sql")
    assert kinds(steps) == ["received", "waits"]
    assert steps[-1].text == "published through SQL, and nobody has routed it yet"


def test_a_group_with_all_its_messages(box):
    define(box, keep="everything")
    ids = publish(box, 1, 2, 4)
    failing(box, done=1)
    groups.skip_message(box, "shop", "c1", **BY)
    steps = trace.trace_group(box, "shop", "c1")
    assert {one.message_id for one in steps if one.message_id} == set(ids)
    counted = {kind: kinds(steps).count(kind) for kind in set(kinds(steps))}
    assert counted == {
        "received": 3, "routed": 3, "released": 2, "fault": 1, "operation": 1, "set_aside": 1, "done": 1, "held": 1,
            "event": 1,
    }  # fmt: skip
    assert kinds(steps)[-1] == "held"
    few = trace.trace_group(box, "shop", "c1", limit=1)
    assert [one.message_id for one in few if one.kind == "received"] == ids[-1:]
    assert (
        "2 of 2 released messages can't be shown: older than the messages that are listed, or purged"
        in text(few, "unknown")[0]
    )
    with pytest.raises(sq.UsageError, match="no group 'x'"):
        trace.trace_group(box, "shop", "x")
