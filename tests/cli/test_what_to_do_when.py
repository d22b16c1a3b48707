"""Each finding of the doctor about work that stands still, and what the page has on it, with the command that mends it.

Faults that are caused by real processes: `test_nightly_faults.py`.
"""

from __future__ import annotations

import json
import shlex
from uuid import uuid4

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.faults.faults import Fault
from seriatim.box.workers.heartbeat import Process, Report, beat
from seriatim.cli.main import main
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import bulk_operations, groups, subscriptions
from seriatim.operations.doctor import advice, work_checks
from seriatim.operations.doctor.finding import PAGE, State
from tests.box.console import BUSINESS, BY, define, failing, publish, rows
from tests.databases import box_with

POISON = Fault(FaultKind.POISON, "WorkerDied", "the process ended by signal 9", "w1")


def prepared(box):
    """A box with all of it, each in a queue or a group of its own."""
    define(box, retry=sq.Retry(delay=0))
    publish(box, 2, 3, group="hole")
    with box.session() as tx:
        assert tx.receive("shop", group="hole") is None
    for group, what, attempts in (("handler", BUSINESS, 1), ("poison", POISON, 5), ("dead", BUSINESS, 1)):
        publish(box, 1, group=group)
        for _ in range(attempts):
            failing(box, what, group=group)
    groups.skip_message(box, "shop", "dead", **BY)
    publish(box, 1, group="asked")
    groups.suspend(box, "shop", "asked", **BY)
    for name, more in (
        ("small", {"max_messages": sq.Limit(1, when_full="refuse")}),
        ("quiet", {}),
        ("alone", {}),
        ("dark", {}),
    ):
        box.define(
            sq.MessageType(name, properties={"customer": "string"}),
            sq.Queue(name, group="customer", enabled=name != "dark", **more),
            sq.Subscription(name, f"type = '{name}'", name),
        )
        box.publish(sq.Message(type=name, context={"customer": "c1"}))
    subscriptions.stop(box, "quiet")
    box.publish(sq.Message(type="nobody's"))
    views = groups.groups(box, "shop", key="asked", state="suspended")
    found = bulk_operations.gather(box, groups.Action.RESUME, views, chosen_by={}, **BY)
    bulk_operations.begin(box, found.bulk_id)
    rows(box, "UPDATE {schema}.bulk_operations SET begun_at = begun_at - interval '1 minute' RETURNING 1")
    # A minute later; what is `small` is worked on by a receiver that waits.
    rows(box, "UPDATE {schema}.known_groups SET since = since - 60000000 WHERE group_key = 'hole' RETURNING 1")
    rows(box, "UPDATE {schema}.entries SET rank = rank - 60000000 RETURNING 1")


box = box_with(prepared, scope="module")


@pytest.fixture(scope="module")
def told(box):
    """What the doctor says of that box, in JSON."""
    result = CliRunner().invoke(main, ["doctor", "--json", "--dsn", box.dsn, "--schema", box.schema])
    assert result.exit_code == 1, result.output
    found = json.loads(result.stdout)
    assert found["ok"] is False
    return {one["name"]: one for one in found["findings"]}


mending = box_with(prepared, scope="module")


@pytest.mark.parametrize(
    ("name", "said", "command"),
    [
        ("faulted", "queue 'shop': 2 groups ('handler' since ", "seriatim group retry c1"),
        ("faulted", "queue 'shop': 2 groups ('handler' since ", "or its process ended each time (`poison`)"),
        ("waiting", "queue 'shop': 1 group ('hole' since ", "seriatim group skip-hole c1"),
        ("suspended", "queue 'shop': 1 group ('asked' since ", "seriatim group resume c1"),
        ("dead letters", "queue 'shop': 1", "seriatim dead-letters requeue"),
        ("unrouted", '1 message, such as type "nobody\'s", since ', "seriatim unrouted --resubmit"),
        ("queues off", "queue 'dark', with 1 message", "seriatim queue on Q"),
        ("queues full", "queue 'small', with 1 message", "seriatim groups --queue Q"),
        ("at work", "queue 'alone' has had work for ", "seriatim work Q --handler MODULE:FUNCTION"),
        ("subscriptions", "'quiet' is stopped, and 1 message in queue 'quiet' wait", "seriatim subscription start S"),
        ("bulk", "number 1 (resume, 1 group) has 1 left, and nobody works on it", "seriatim bulk follow NUMBER"),
    ],
)
def test_the_doctor_names_it_and_the_page_leads_to_the_command(told, name, said, command):
    finding = told[name]
    assert finding["state"] == "wrong"
    assert said in finding["found"]
    assert finding["page"].startswith(f"{PAGE}#")
    leads_to = advice(finding["page"].partition("#")[2])
    assert command in leads_to.why + leads_to.remedy


def test_it_takes_no_spark(told):
    assert "spark" not in told


def test_a_person_reads_the_same(box):
    result = CliRunner().invoke(main, ["doctor", "--dsn", box.dsn, "--schema", box.schema])
    assert result.exit_code == 1
    assert "wrong   faulted       queue 'shop': " in result.stdout
    assert "more: seriatim doctor --explain faulted" in result.stdout
    last = result.stdout.splitlines()[-1]
    assert "need a hand: faulted, suspended, waiting, dead letters, unrouted, queues off, queues full, at work" in last


@pytest.mark.parametrize(
    ("check", "command", "gone"),
    [
        ("faulted", "seriatim group retry handler", "'handler'"),
        ("faulted", "seriatim group skip-message poison", "'poison'"),
        ("waiting", "seriatim group skip-hole hole", "'hole'"),
        ("suspended", "seriatim group resume asked", "'asked'"),
        ("dead letters", "seriatim dead-letters requeue --all --yes", "'shop': 2"),
        ("unrouted", "seriatim messages delete --all --status unrouted --yes", "nobody's"),
        ("queues off", "seriatim queue on dark", "'dark'"),
        ("subscriptions", "seriatim subscription start quiet", "'quiet'"),
        ("bulk", "seriatim bulk cancel 1", "number 1"),
    ],
)
def test_the_command_mends_it(mending, check, command, gone):
    before = work_checks.CHECKS[check](work_checks.Work(mending))
    assert before.state is State.WRONG
    assert gone in before.found
    switches = command.startswith(("seriatim queue", "seriatim subscription"))
    words = [*shlex.split(command)[1:], *([] if switches else ["--reason", "mended"])]
    result = CliRunner().invoke(main, [*words, "--dsn", mending.dsn, "--schema", mending.schema])
    assert result.exit_code == 0, result.output
    assert gone not in work_checks.CHECKS[check](work_checks.Work(mending)).found


def test_at_work_again(mending):
    """A receiver that takes the messages, or waits for more, is seen."""
    look = work_checks.CHECKS["at work"]
    assert "'alone'" in look(work_checks.Work(mending)).found
    with mending.session() as tx:
        delivery = tx.receive("alone")
        assert "'alone'" not in look(work_checks.Work(mending)).found  # its group is locked
        delivery.put_back()
    assert "'alone'" not in look(work_checks.Work(mending)).found  # and was touched a moment ago


def test_a_process_that_is_silent(mending):
    look = work_checks.CHECKS["workers"]
    assert look(work_checks.Work(mending)).state is State.OK
    with mending.access.transaction() as transaction:
        report = Report("small", "transactional", 8, 8, 50, None)
        beat(transaction, Process(uuid4(), "far:4711", "far", 4711), [report])
    assert look(work_checks.Work(mending)).state is State.OK
    assert "'small'" not in work_checks.CHECKS["at work"](work_checks.Work(mending)).found
    rows(mending, "UPDATE {schema}.known_workers SET seen_at = now() - interval '130 s' RETURNING 1")
    found = look(work_checks.Work(mending))
    assert found.state is State.WARNING
    assert "process 4711 on far, which works on queue 'small', has been silent for 2 min" in found.found
    assert "kill -9 4711" in found.remedy
    assert "kill -9 PID" in advice("workers").remedy
    left = work_checks.CHECKS["at work"](work_checks.Work(mending)).found
    assert "it has silent processes: seriatim workers --queue small" in left


def test_a_pipeline_that_does_not_run(mending):
    look = work_checks.CHECKS["pipelines"]
    rows(mending, "UPDATE {schema}.queues SET owner = 'orders' WHERE queue = 'small' RETURNING 1")
    found = look(work_checks.Work(mending))
    assert (found.state, found.found) == (
        State.WRONG, "queue 'small' belongs to 'orders', which does not run, with 1 message",
    )  # fmt: skip
    assert "seriatim queue release small" in found.remedy
    (queue_id,) = rows(mending, "SELECT queue_id FROM {schema}.queues WHERE queue = 'small'")[0]
    with mending.session() as tx:
        assert tx.transaction.value("hold_reader_briefly", queue_id=queue_id)
        found = look(work_checks.Work(mending))
    assert (found.state, "which reads it" in found.found) == (State.OK, True)
