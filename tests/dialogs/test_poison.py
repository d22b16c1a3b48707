"""Poison: a message that is rolled back again and again suspends its conversation group, and nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import dialogs, invariants
from seriatim.operations.groups import groups, resume
from tests.box.given_up import given_up
from tests.dialogs.talking import begun, far_of, taken

ROOT = Path(__file__).parents[2]
#: Receives, and dies of it; as an application, or as a worker's handler.
VICTIM = """
import os, signal, sys
import seriatim as sq

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

role, dsn, schema = sys.argv[1:]
box = sq.MessageBox.open(dsn, schema=schema)
if role == "worker":
    sq.Worker(box, "inventory", die, workers=1).run()
while True:  # until PostgreSQL has noticed that the victim before is gone
    with box.session() as tx:
        if tx.receive("inventory", limit=10, wait=0.1) is not None:
            die()
"""


def roll_back(box, times, limit=10):
    """What is received by transactions that are rolled back, so many."""
    found = []
    for _ in range(times):
        with given_up(box.session()) as tx:
            delivery = tx.receive("inventory", limit=limit)
            found.append(None if delivery is None else delivery.messages[0].body)
    return found


def limit_to(box, rollbacks):
    box.define(sq.Queue("inventory", group="conversation_group", retry=sq.Retry(rollbacks=rollbacks)))


def shown(box):
    (found,) = groups(box, "inventory", state="suspended")
    return found


def test_five_rollbacks_in_a_row_suspend_the_group_and_no_other(talk):
    poison = begun(talk, b"poison", b"behind")
    assert roll_back(talk, 5) == [b"poison"] * 5
    begun(talk, b"other")
    assert taken(talk, "inventory") == [("AddItem", b"other")]
    assert taken(talk, "inventory") == []
    group = shown(talk)
    assert (group.suspended_by, group.queued + group.arrived) == ("seriatim", 2)
    assert group.suspended_because.startswith("the message ")
    assert group.suspended_because.endswith(" of type AddItem was rolled back 5 times in a row")
    (side,) = dialogs.dialogs(talk, handle=far_of(talk, poison))
    assert side.suspended == f"seriatim: {group.suspended_because}"
    assert dialogs.dialogs(talk, handle=poison)[0].suspended is None
    assert talk.definitions().queue("inventory").enabled
    begun(talk, b"later")
    assert taken(talk, "inventory") == [("AddItem", b"later")]
    assert invariants.broken(talk) == []


def test_four_do_not_and_what_is_done_counts_no_more(talk):
    begun(talk, b"1", b"2", b"3")
    assert roll_back(talk, 4) == [b"1"] * 4
    assert taken(talk, "inventory", limit=1) == [("AddItem", b"1")]
    # What was behind it, and was rolled back together with it, begins at nothing.
    assert roll_back(talk, 4) == [b"2"] * 4
    assert taken(talk, "inventory") == [("AddItem", b"2"), ("AddItem", b"3")]
    assert groups(talk, "inventory", state="suspended") == []


def test_what_was_done_in_the_transaction_makes_no_difference(talk):
    """Completed or not, ended or answered: rolled back is rolled back."""
    limit_to(talk, 2)
    begun(talk, b"1", b"2")
    for _ in range(2):
        with given_up(talk.session()) as tx:
            for message in tx.receive("inventory", limit=1):
                tx.send(message.dialog.handle, "ItemAdded")
                tx.end(message.dialog.handle)
    assert taken(talk, "inventory") == []
    assert shown(talk).suspended_because.endswith("rolled back 2 times in a row")


def test_a_commit_that_puts_it_back_is_no_rollback(talk):
    limit_to(talk, 1)
    begun(talk, b"1")
    for _ in range(3):
        with talk.session() as tx:
            assert tx.next_group("inventory") is not None
        with talk.session() as tx:
            assert len(tx.receive("inventory")) == 1
    assert taken(talk, "inventory") == [("AddItem", b"1")]


def test_an_operator_resumes_it_and_counting_begins_anew(talk):
    limit_to(talk, 2)
    handle = begun(talk, b"1")
    assert roll_back(talk, 3) == [b"1", b"1", None]
    group = shown(talk).group
    words = ["group", "show", group, "--queue", "inventory", "--dsn", talk.dsn, "--schema", talk.schema]
    told = CliRunner().invoke(main, words)
    assert "seriatim suspended it: the message " in told.output
    words = ["dialogs", "show", str(far_of(talk, handle)), "--json", "--dsn", talk.dsn, "--schema", talk.schema]
    told = json.loads(CliRunner().invoke(main, words).stdout)
    assert told["suspended"].endswith("rolled back 2 times in a row")
    resume(talk, "inventory", group, actor="ann", reason="mended")
    assert dialogs.dialogs(talk, handle=far_of(talk, handle))[0].suspended is None
    assert roll_back(talk, 1) == [b"1"]
    assert taken(talk, "inventory") == [("AddItem", b"1")]


def test_it_stays_suspended_though_who_found_it_rolls_back(talk):
    limit_to(talk, 1)
    begun(talk, b"1")
    assert roll_back(talk, 3) == [b"1", None, None]
    assert shown(talk).suspended_because.endswith("rolled back 1 times in a row")
    with talk.session() as tx:
        (logged,) = tx.connection.execute(
            f"SELECT count(*) FROM {talk.schema}.operator_log WHERE action = 'suspend'"
        ).fetchone()
    assert logged == 1


def test_never_if_the_queue_says_so(talk):
    limit_to(talk, None)
    begun(talk, b"1")
    assert roll_back(talk, 8) == [b"1"] * 8
    assert taken(talk, "inventory") == [("AddItem", b"1")]


def test_ending_the_dialog_helps_too(talk):
    limit_to(talk, 1)
    handle = begun(talk, b"1")
    assert roll_back(talk, 2) == [b"1", None]
    with talk.session() as tx:
        tx.end(far_of(talk, handle), error=(7, "poison"))
    assert [kind for kind, _ in taken(talk, "orders")] == ["Error"]
    assert invariants.broken(talk) == []
    with talk.session() as tx:
        tx.end(handle)
        tx.connection.execute(f"SELECT {talk.schema}.forget_closed('0')")
        assert tx.connection.execute(f"SELECT FROM {talk.schema}.rollbacks").fetchall() == []


@pytest.mark.proves("a message of a dialog that kills its process counts as rolled back")
@pytest.mark.dear
@pytest.mark.parametrize("role", ["application", "worker"])
def test_who_is_killed_by_it_has_rolled_back(talk, role):
    limit_to(talk, 2)
    begun(talk, b"deadly")
    for _ in range(2):
        words = [sys.executable, "-c", VICTIM, role, talk.dsn, talk.schema]
        done = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True, timeout=180)
        assert done.returncode == -signal.SIGKILL, done.stderr
    until = time.monotonic() + 120
    while not groups(talk, "inventory", state="suspended"):  # here, too
        assert time.monotonic() < until
        assert taken(talk, "inventory", wait=0.1) == []
    assert shown(talk).suspended_because.endswith("rolled back 2 times in a row")


def test_not_now_is_no_rollback(talk):
    """However often it is postponed, also after a rollback."""
    limit_to(talk, 2)
    begun(talk, b"later", b"behind")
    roll_back(talk, 1)
    for _ in range(4):
        with talk.session() as tx:
            delivery = tx.receive("inventory")
            assert delivery.messages[0].body == b"later"
            delivery.postpone(0)
    assert groups(talk, "inventory", state="suspended") == []
    assert [body for _, body in taken(talk, "inventory")] == [b"later", b"behind"]
    assert invariants.broken(talk) == []
