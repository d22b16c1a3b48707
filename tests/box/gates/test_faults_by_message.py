"""Faults in an unordered queue with a gate: a message that failed for good stops itself alone, and its place stays open."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.cli.main import main
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import dead_letters, edits, faults, groups, messages, queues
from seriatim.operations.doctor import work_checks
from seriatim.operations.grants import grant
from seriatim.testing.work import work_off
from tests.box.gates.test_numbers import WORK, message, numbers, prepare
from tests.box.roles import as_role, make
from tests.databases import box_with

ONCE = replace(WORK, retry=replace(WORK.retry, attempts=1))


def once(opened):
    prepare(opened)
    opened.define(ONCE, sq.Queue("plain", policy=sq.Unordered(), retry=sq.Retry(1)))


box = box_with(once)


WHO = {"actor": "me", "reason": "test"}


def publish(box, *names, bad=(), customer="c"):
    box.publish([replace(message(name, customer), body=b"bad" if name in bad else b"") for name in names])


def work(box, queue="work", **options):
    """Work until nothing can be handed out; the handler fails at bodies that are bad. What it got, with the attempts."""
    got = []

    def handler(one, tx):
        got.append(f"{one.message_id}{one.attempt}")
        if one.body == b"bad":
            raise ValueError(one.message_id)

    work_off(box, queue, handler, fails=True, **options)
    return got


def redefine(box, **changes):
    box.define(replace(ONCE, **changes))


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_only_the_message_stops_and_its_place_stays_open(box, mode):
    publish(box, "a", "b", "c", bad="b")
    publish(box, "d", customer="d")
    assert sorted(work(box, mode=mode)) == ["a1", "b1", "c1", "d1"]
    assert numbers(box) == [("c", 2, "b")]  # its row, by which its place is open
    assert work(box, mode=mode) == []
    (placed,) = messages.messages(box, status="faulted")
    assert (placed.message_id, placed.queue, placed.group, placed.ordinal, placed.attempt) == ("b", "work", "c", 2, 1)
    assert placed.error == "ValueError: b"
    (fault,) = faults.faults(box, queue="work", group="c")
    assert (fault.message_id, fault.group, fault.ordinal, fault.error) == ("b", "c", 2, "b")
    found = box.status_of("b")
    assert (found.state, found.reason) == (
        "waiting", "it is faulted: its handler failed for good, and an operator has to mend it"
    )  # fmt: skip
    (counts,) = [one for one in queues.queues(box) if one.queue == "work"]
    assert (counts.faulted, counts.arrived, counts.stopped) == (1, 0, 0)
    told = work_checks.CHECKS["faulted"](work_checks.Work(box))
    assert (told.state, told.found) == ("wrong", "queue 'work': 1 message (each stops itself alone)")
    assert "seriatim messages list --queue work --status faulted" in told.remedy


@pytest.fixture
def stopped(box):
    """Of three messages the middle one is faulted."""
    publish(box, "a", "b", "c", bad="b")
    work(box)
    return box


def test_retried_it_is_handed_out_again_with_another_body_or_without(stopped):
    (done,) = messages.retry(stopped, "b", queue="work", **WHO)
    assert (done.group, done.before, done.after) == ("c", "faulted", "ready")
    assert work(stopped) == ["b2"]
    (done,) = messages.retry(stopped, "b", queue="work", body=b"good", **WHO)
    assert work(stopped) == ["b3"]
    assert numbers(stopped) == []
    with stopped.session() as tx:
        rows = f"SELECT action, queue, group_key, details FROM {stopped.schema}.operator_log ORDER BY operation_id"
        first, second = tx.connection.execute(rows).fetchall()
    assert first[:3] == second[:3] == ("retry", "work", "c")
    assert first[3] == {"obeyed": True, "message_id": "b", "before": "faulted"}
    assert second[3]["edited_bytes"] == 4


def test_as_the_action_of_a_group_it_names_the_message(stopped):
    assert groups.retry(stopped, "work", "c", message="b", **WHO).before == "faulted"
    assert work(stopped) == ["b2"]
    done = groups.skip_message(stopped, "work", "c", message="b", **WHO)
    assert (done.before, done.after, done.set_aside) == ("faulted", "ready", 1)
    assert numbers(stopped) == []
    (dead,) = dead_letters.dead_letters(stopped, "work")
    assert (dead.message_id, dead.group, dead.ordinal) == ("b", "c", 2)
    for refused, why in (
        (lambda: groups.retry(stopped, "work", "c", message="a", **WHO), "does not wait there"),
        (lambda: groups.retry(stopped, "work", "c", **WHO), "stops by itself"),
        (lambda: groups.suspend(stopped, "work", "c", **WHO), "its groups have no state"),
        (
            lambda: messages.retry(stopped, "x", queue="work", **WHO),
            "is not faulted or postponed, and waits for no attempt",
        ),
        (lambda: messages.retry(stopped, ["a", "b"], queue="work", body=b"", **WHO), "a new body is for one message"),
        (lambda: messages.retry(stopped, "b", queue="plain", **WHO), "is not faulted or postponed"),
        (lambda: messages.retry(stopped, "b", queue="out", **WHO), "a message of queue 'out' stops its group"),
    ):
        with pytest.raises(sq.UsageError, match=why):
            refused()


def test_taken_out_it_is_a_dead_letter_and_put_back_it_has_its_place_again(stopped):
    messages.take_out(stopped, "b", queue="work", **WHO)
    (dead,) = dead_letters.dead_letters(stopped, "work")
    dead_letters.requeue(stopped, dead.entry_id, **WHO)
    assert numbers(stopped) == [("c", 2, "b")]


def test_mended_by_a_file_each_in_its_own_way(box):
    publish(box, *"abcdef", bad="bdf")
    work(box)
    lines = [json.loads(edits.line_of(one)) for one in edits.export(box, state="faulted")]
    assert [(one["message_id"], one["group"], one["status"], one["error"]) for one in lines] == [
        (name, "c", "faulted", f"ValueError: {name}") for name in "bdf"
    ]
    lines[0]["body"], lines[1]["context"]["to_all"] = "good", True
    del lines[2]
    plan = edits.plan(box, edits.read(json.dumps(one).encode() for one in lines))
    assert [(one.message_id, one.changed, one.was_waiting) for one in plan.planned] == [
        ("b", ("body",), False), ("d", ("context.to_all",), False)
    ]  # fmt: skip
    messages.retry(box, "d", queue="work", **WHO)  # meanwhile
    work(box)
    done = list(edits.retry(box, plan, **WHO))
    assert [(one.message_id, one.before, one.after) for one in done] == [(one, "faulted", "ready") for one in "bd"]
    assert work(box) == ["b2", "d3"]
    lines[1]["context"]["customer"] = "d"
    plan = edits.plan(box, edits.read(json.dumps(one).encode() for one in lines))
    assert [one.what for one in plan.faults] == [
        "property 'customer' can't be changed by an edit: queue 'work' takes the group of messages from it"
    ]
    lines[1] = lines[1] | {"message_id": "e", "entry_id": lines[1]["entry_id"] + 1}
    (gone, other) = edits.plan(box, edits.read(json.dumps(one).encode() for one in lines)).planned
    assert gone.why == other.why.replace("'e'", "'b'") == "message 'b' is not in the queue any more"


def test_one_that_waits_for_its_next_attempt_is_tried_now(box):
    redefine(box, retry=sq.Retry(3, delay=3600))
    publish(box, "a", "b", bad="b")

    def handler(one, tx):
        if one.body == b"bad":
            raise TimeoutError(one.message_id)

    for attempt in (1, 2):
        work_off(box, "work", handler, fails=True)
        assert box.status_of("b").reason == "it, or the message before it, failed and is tried again later"
        (done,) = messages.retry(box, "b", queue="work", **WHO)
        assert done.before == "ready", attempt
    work_off(box, "work", handler, fails=True)
    assert [one.attempt for one in faults.faults(box, queue="work")] == [3, 2, 1]
    assert [one.message_id for one in messages.messages(box, status="faulted")] == ["b"]


def test_recovered_by_itself_so_many_times(box):
    redefine(box, recover=sq.Recover(2, delay=0))
    publish(box, "a", "b", bad="ab")
    work(box)
    for _ in range(2):
        assert box.tick().recovered == 2
        assert [one[0] for one in work(box)] == ["a", "b"]
    assert box.tick().recovered == 0
    assert [one.message_id for one in messages.messages(box, status="faulted")] == ["a", "b"]


def test_where_errors_continue_it_is_a_dead_letter_and_where_they_stop_the_queue_is_off(box):
    redefine(box, errors="continue")
    publish(box, "a", "b", bad="a")
    assert work(box) == ["a1", "b1"]
    assert numbers(box) == []
    (dead,) = dead_letters.dead_letters(box, "work")
    assert (dead.message_id, dead.group, dead.ordinal) == ("a", "c", 1)
    redefine(box, errors="stop")
    publish(box, "c", bad="c")
    assert work(box) == ["c1"]
    assert numbers(box) == [("c", 3, "c")]
    (counts,) = [one for one in queues.queues(box) if one.queue == "work"]
    assert (counts.faulted, counts.enabled) == (1, False)


def test_without_a_gate_nothing_changes(box):
    publish(box, "a")
    box.publish(replace(message("b", to_all=True), body=b"bad"))
    assert work(box, "plain") == ["b1"]
    (dead,) = dead_letters.dead_letters(box, "plain")
    assert (dead.message_id, dead.group) == ("b", "")
    assert {one.status for one in messages.messages(box, queue="plain")} == {"dead"}


def test_handlers_that_get_many_at_once_fail_alone_in_the_end(box):
    publish(box, "a", "b", bad="b")
    publish(box, "c", customer="d")

    def handler(batch, tx):
        if any(one.body == b"bad" for one in batch):
            raise ValueError

    work_off(box, "work", handler, batch=True, fails=True)
    assert numbers(box) == [("c", 2, "b")]
    assert [one.message_id for one in messages.messages(box, status="faulted")] == ["b"]


def test_a_worker_that_dies_at_it_faults_it(box):
    publish(box, "a", "b")
    (entry_id, _) = [one.entry_id for one in edits.export(box, queue="work")]
    lost = LostTurn("work", None, entry_id)
    with box.session() as tx:
        note_lost(tx.transaction, lost, Fault(FaultKind.POISON, "WorkerDied", "signal 9", "w1"), 1)
    assert [one.message_id for one in messages.messages(box, status="faulted")] == ["a"]
    assert {one.group for one in faults.faults(box, queue="work")} == {"c"}
    assert work(box) == ["b1"]


def test_the_log_names_the_message_and_what_helps(box, caplog):
    publish(box, "b", bad="b")
    with caplog.at_level(logging.ERROR, "seriatim.failures"):
        work(box)
    assert "message faulted: it waits for an operator (seriatim messages retry b --queue work)" in caplog.text


def test_a_role_that_operates_retries_and_takes_out(stopped):
    make(stopped, "watcher", "mender", "worker")
    grant(stopped, "watcher", see=["work"])
    grant(stopped, "mender", operate=["work"])
    grant(stopped, "worker", receive=["work"], see=["work"])
    with as_role(stopped, "watcher") as own:
        assert [one.message_id for one in messages.messages(own, status="faulted")] == ["b"]
        for action in (messages.retry, messages.take_out):
            with pytest.raises(sq.EnvironmentProblem, match='the role "watcher" may not operate on the queue "work"'):
                action(own, "b", queue="work", **WHO)
    with as_role(stopped, "mender") as own:
        assert len(messages.retry(own, "b", queue="work", **WHO)) == 1
    with as_role(stopped, "worker") as own:
        assert work(own) == ["b2"]
    with as_role(stopped, "mender") as own:
        assert len(messages.take_out(own, "b", queue="work", **WHO)) == 1
    assert numbers(stopped) == []


def test_a_role_that_publishes_gives_places_like_the_owner(box):
    make(box, "publisher")
    grant(box, "publisher", publish=["work"])
    with as_role(box, "publisher") as own:
        publish(own, "a", "b")
        own.publish(message("c"))
        with own.session() as tx:
            tx.publish(message("d"))
    assert numbers(box) == [("c", n, name) for n, name in enumerate("abcd", 1)]


def test_by_commands(box, tmp_path):
    def call(*words):
        result = CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.output

    why = ("--reason", "test")
    publish(box, *"abcd", bad="abcd")
    work(box)
    assert call("messages", "retry", "a", "--queue", "work", *why) == (0, "retried 1 message\n")
    assert (
        call("group", "retry", "c", "--queue", "work", "--message", "b", *why)[1] == "work, group c: faulted → ready\n"
    )
    assert work(box) == ["a2", "b2"]
    assert "retry would be done to 4 messages" in call("messages", "retry", "--all", "--dry-run")[1]
    assert call("messages", "retry", "--all", "--error", "ValueError: c", "--yes", *why)[1] == "retried 1 message\n"
    assert work(box) == ["c2"]
    code, told = call("group", "skip-message", "c", "--queue", "work", "--message", "c", *why)
    assert (code, told) == (0, "work, group c: faulted → ready, 1 set aside\n")
    assert (
        call("messages", "delete", "d", "--queue", "work", "--yes", *why)[1]
        == "moved 1 waiting message to the dead letters\n"
    )
    lines = [
        json.loads(one) | {"body": "good"}
        for one in call("messages", "export", "--status", "faulted")[1].splitlines()[:2]
    ]
    file = tmp_path / "mended.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    code, told = call("messages", "retry", "--edits", str(file), *why)
    assert (code, told.splitlines()[-1]) == (0, "2 of 2 messages: retry (2 changed)")
    assert work(box) == ["a3", "b3"]
    assert numbers(box) == []
    for words, wrong in (
        (("a",), "the queue of the messages is missing"),
        ((), "name messages, or give --all, or --edits"),
        (("a", "--all"), "name messages, or give --all, or --edits"),
        (("a", "--queue", "work", "--error", "x"), "filters need --all"),
        (("a", "b", "--queue", "work", "--edit", __file__), "--edit works on one message only"),
        (("a", "--queue", "work"), "message 'a' is not faulted"),
    ):
        code, told = call("messages", "retry", *words, *why)
        assert code == 2
        assert wrong in told
