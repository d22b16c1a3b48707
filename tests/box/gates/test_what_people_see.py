"""What people see of a gate: which places are open, what each waits for, and the command that helps."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from seriatim.box.faults.faults import Fault, fail
from seriatim.cli.main import main
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import find, groups, invariants, messages, queues, trace
from seriatim.operations.doctor import work_checks
from seriatim.operations.grants import grant
from tests.box import roles
from tests.box.gates.test_gate import ALL, BY, OUT, WAY, WORK, publish, received, work
from tests.box.shop import rows
from tests.databases import box_with

FAILED = Fault(FaultKind.BUSINESS, "ValueError", "no price", "worker 1")


def prepare(opened):
    opened.define(*ALL[:3], WAY, OUT, replace(WORK, gate=replace(WORK.gate, through=["price"])))


box = box_with(prepare)


@pytest.fixture
def seen(box):
    yield box
    assert invariants.broken(box) == []


def run(box, line):
    found = CliRunner().invoke(main, [*line.split(), "--dsn", box.dsn, "--schema", box.schema])
    assert found.exit_code == 0, found.output
    return found.output


def fails(box, queue, group):
    with box.session() as tx:
        fail(tx.transaction, tx.receive(queue, group=group), 0, 1, FAILED)


def counts(box, queue="out"):
    (found,) = [one for one in queues.queues(box) if one.queue == queue]
    return found


def test_a_gate_to_which_nothing_has_come(seen):
    assert counts(seen).open_places == 0
    assert counts(seen, "work").open_places is None
    publish(seen, 2)
    assert groups.groups(seen, "out") == []  # without numbers there are no places
    work(seen, "p1 q1".replace("q1", ""), limit=1)
    (view,) = groups.groups(seen, "out")
    assert (view.group, view.state, view.places, view.open_places, view.open_number) == ("a", "ready", 2, 2, 1)
    assert groups.count(seen, "out") == 1
    assert counts(seen).open_places == 2
    assert counts(seen).oldest_open is not None
    standing = groups.standing(seen, "out", "a")
    (on_way,) = standing.place.waits_for
    assert (standing.place.number, on_way.queue, on_way.group, on_way.why) == (1, "price", "p1", "ready")
    assert standing.why == (
        f"place 1 is open: it waits for message {on_way.message_id} in queue price, group p1"
        " (it is ready, or nobody has looked at it yet)"
    )


def test_results_of_an_open_place_are_held(seen):
    publish(seen, 3)
    work(seen, "p1 x1", "x2", "")
    (held, _) = messages.messages(seen, queue="out", status="held")
    assert (held.status, held.reason, held.sequence) == ("held", "place_open", 1)
    assert counts(seen).held == 2
    assert [(one.status, one.message.sequence) for one in seen.peek("out")] == [("held", 1), ("held", 2)]
    found = seen.status_of(held.message_id)
    assert (found.state, found.reason.partition(",")[0]) == ("waiting", "its place at the gate is open")
    (one,) = queues.not_done(seen, "out")
    assert (one.why, one.messages) == ("place_open", 2)
    assert {(one.status, one.reason) for one in find.find(seen, "a").messages if one.queue == "out"} == {
        ("held", "place_open")
    }
    assert [step.text for step in trace.trace_message(seen, held.message_id) if step.kind == "held"] == [
        "place 1 at the gate is open, or one before it"
    ]
    assert (groups.groups(seen, "out")[0].held, groups.groups(seen, "out")[0].open_places) == (2, 1)


def test_what_an_open_place_waits_for_and_what_helps(seen):
    publish(seen, 4)
    work(seen, "p1 x1", "x2", "p3", "x4")
    fails(seen, "price", "p1")
    assert received(seen) == []
    standing = groups.standing(seen, "out", "a")
    (on_way,) = standing.place.waits_for
    assert (standing.view.state, standing.view.hole_through, standing.view.places) == ("waiting", 1, 4)
    assert (on_way.why, on_way.error) == ("faulted", "ValueError: no price")
    assert standing.place.helps == "seriatim group retry p1 --queue price"
    assert standing.helps == ("skip_hole",)
    shown = run(seen, "group show a --queue out")
    assert "places that haven't passed: 4, 2 of them open" in shown
    assert f"    {on_way.message_id} (done) in queue price, group p1: its group is faulted" in shown
    assert "  helps: seriatim group retry p1 --queue price\n  helps: seriatim group skip-hole a --queue out\n" in shown
    told = json.loads(run(seen, "group show a --queue out --json"))["place"]
    assert (told["number"], told["messages"], told["waits_for"][0]["helps"]) == (1, 1, standing.place.helps)
    (line,) = [one for one in run(seen, "queues").splitlines() if one.startswith("out ")]
    assert "  2  " in line
    assert "oldest open" in run(seen, "groups --queue out")
    with seen.session() as tx:
        tx.receive("price", group="p3")
        standing = groups.standing(seen, "out", "a")
        groups.skip_message(seen, "price", "p1", **BY)
        assert received(seen) == [("x1", 1, False), ("x2", 2, False)]
        standing = groups.standing(seen, "out", "a")
        assert standing.place.waits_for[0].why == "in_hand"
        assert (standing.place.helps, standing.helps) == (None, ())  # it is worked on
    groups.skip_hole(seen, "out", "a", **BY)
    assert received(seen) == [("x4", 3, False)]
    work(seen, "y3", queue="price", group="p3")
    standing = groups.standing(seen, "out", "a")
    assert (standing.view.places, standing.place, standing.view.open_places) == (0, None, 0)


def told(box, check):
    found = work_checks.CHECKS[check](work_checks.Work(box))
    return str(found.state), found.found, found.remedy


def test_the_doctor_names_what_a_gate_waits_for(seen):
    publish(seen, 3)
    work(seen, "p1", "p2", "x3")
    fails(seen, "price", "p1")
    assert received(seen) == []
    assert told(seen, "gates") == ("ok", "no gate has waited for long", "")
    rows(
        seen, "UPDATE {schema}.known_groups SET since = since - 60000000 WHERE group_key = 'a' AND next = 1 RETURNING 1"
    )
    state, found, remedy = told(seen, "gates")
    assert (state, remedy) == (
        "wrong", "seriatim group retry p1 --queue price; seriatim group show a --queue out says more"
    )  # fmt: skip
    assert found.startswith("gate 'out', group 'a': place 1 is open: it waits for message ")
    assert "'out'" not in told(seen, "waiting")[1]
    with seen.session() as tx:
        groups.skip_message(seen, "price", "p1", **BY)
        assert tx.receive("price", group="p2") is not None
        assert received(seen) == []
        rows(
            seen,
            "UPDATE {schema}.known_groups SET since = since - 60000000 WHERE group_key = 'a' AND next = 2 RETURNING 1",
        )
        assert told(seen, "gates")[0] == "ok"  # somebody works on it
    rows(seen, "UPDATE {schema}.entries SET rank = rank - 60000000 RETURNING 1")
    rows(
        seen,
        "UPDATE {schema}.known_groups SET ready_rank = ready_rank - 60000000, touched_at = touched_at - interval '1 min' RETURNING 1",
    )
    assert told(seen, "gates")[2].startswith("seriatim work price --handler MODULE:FUNCTION; ")


def test_a_gate_that_nobody_receives_from(seen):
    publish(seen, 1)
    work(seen, "x1")
    assert counts(seen).is_idle
    assert told(seen, "at work")[0] == "ok"
    rows(seen, "UPDATE {schema}.requests SET rank = rank - 60000000 RETURNING 1")
    state, found, _ = told(seen, "at work")
    assert (state, found.partition(" has had")[0]) == ("wrong", "queue 'out'")
    assert groups.standing(seen, "out", "a").why == (
        "nobody has looked yet at what has ended before the gate: nobody receives from the queue: seriatim work out"
        " --handler MODULE:FUNCTION"
    )


def test_a_role_sees_the_places_of_a_gate_and_the_messages_of_the_queues_that_it_sees(seen):
    publish(seen, 2)
    work(seen, "p1", "x2")
    roles.make(seen, "watcher")
    grant(seen, "watcher", see=["out"])
    with roles.as_role(seen, "watcher") as own:
        (view,) = groups.groups(own, "out")
        assert (view.places, view.open_places, view.open_number) == (2, 1, 1)
        assert counts(own).open_places == 1
        assert (
            groups.standing(own, "out", "a").why == "place 1 is open: a message of it is in a queue that you don't see"
        )
        grant(seen, "watcher", see=["price"])
        (on_way,) = groups.standing(own, "out", "a").place.waits_for
        assert on_way.queue == "price"


def test_a_trace_goes_through_the_hops_and_the_gate(seen):
    seen.define(replace(WORK, gate=replace(WORK.gate, through=["price"]), keep="everything"))
    publish(seen, 3)
    work(seen, "p1 x1", "", "x3")
    work(seen, "y1", queue="price", group="p1")
    publish(seen, 1)
    work(seen, "p4")
    (x1, x3, y1) = [
        rows(seen, "SELECT message_id, context FROM {schema}.spool WHERE context ->> 'of' = %s", of)[0]
        for of in ("x1", "x3", "y1")
    ]
    steps = trace.trace_message(seen, y1.message_id)
    told = [(step.message_id, step.queue) for step in steps if step.kind == "routed"]
    assert (x1.message_id, "out") in told
    assert (y1.message_id, "out") in told
    assert x3.message_id not in {one for one, _ in told}
    own = next(step for step in steps if step.message_id == y1.message_id and step.kind == "received")
    assert own.text.endswith(f", result of {y1.context['parent_id']}, place 1 of queue work, group a")
    assert run(seen, f"trace {x1.message_id}").splitlines()[0].split()[:3] == ["at", "step", "message"]
    root = x1.context["parent_id"]
    assert (root, "work") in told
    price = y1.context["parent_id"]  # it is done, and its queue keeps nothing of it
    assert {step.message_id for step in trace.trace_message(seen, price)} == {price, y1.message_id, x1.message_id, root}
    assert {x1.message_id, y1.message_id} <= {step.message_id for step in trace.trace_message(seen, root)}
    assert received(seen) == [("x1", 1, False), ("y1", 2, False), ("x3", 3, False)]
    steps = trace.trace_group(seen, "out", "a")
    assert [step.text.partition(":")[0] for step in steps if step.kind in ("event", "waits")] == [
        "void",
        "place 4 is open",
    ]


def test_pages_of_a_gates_groups(seen):
    keys = ["a", "ab", "b", "b%", "c", "d"]
    for key in keys:
        publish(seen, 2, key)
    for key in keys[:5]:  # of the last no place is open: nobody has judged its messages
        work(seen, *{"a": ("x1", "x2"), "b": ("p1", "x2")}.get(key, ("p1", "")), group=key)
    received(seen)
    pages, after = [], None
    while found := groups.groups(seen, "out", after=after, limit=2):
        pages += found
        after = ("out", found[-1].group)
    assert [(one.group, one.open_number) for one in pages] == [
        ("a", None), ("ab", 1), ("b", 1), ("b%", 1), ("c", 1)
    ]  # fmt: skip
    assert [one.group for one in groups.groups(seen, "out", key="b*")] == ["b", "b%"]
    assert groups.count(seen, "out") == 5
    assert groups.count(seen, "out", key="b*") == 2
    assert [one.group for one in groups.named(seen, ["ab"], "out")] == ["ab"]
