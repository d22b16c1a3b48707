"""``seriatim journal``."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import QueueRules
from tests.regions.journal.given import NAME, QUEUE, asked, claim_of, claimed, let_pass

_WHY = ("--reason", "a test", "--actor", "ann")


@pytest.fixture
def journal(databases):
    def make(dsn):
        with Journal.open(dsn) as made:
            made.define(NAME, QUEUE, QueueRules(attempts=1))

    with databases.clone(databases.template("journal of commands", make)) as dsn, Journal.open(dsn) as opened:
        opened.dsn = dsn
        yield opened


def _run(journal, *words, code=0):
    found = CliRunner().invoke(main, ["journal", *words, "--dsn", journal.dsn])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.stderr


def test_an_operator_sees_a_session_that_stands_and_mends_it(journal):
    assert "there are no sessions" in _run(journal, "list")
    claim = claim_of(claimed(journal, "a", asked("1Z9", 1, 2) + asked("1Z8", 1)))
    assert "1Z8" in _run(journal, "list", "--busy")
    journal.fail(claim, 1, "no such parcel")
    (one,) = json.loads(_run(journal, "list", "--standing", "--json"))
    assert (one["session"], one["state"], one["next_number"], one["message_id"]) == ("1Z9", "suspended", 1, "m1")
    shown = _run(journal, "show", "1Z9")
    assert "message 1 has failed: retry or skip" in shown
    assert "no such parcel" in shown
    assert "cannot resume" in _run(journal, "resume", "1Z9", *_WHY, code=2)
    done = json.loads(_run(journal, "retry", "1Z9", *_WHY, "--json"))
    assert (done["state"], done["detail"]) == ("idle", "1 is tried again at once")
    assert "skipped 1 to 2; known: m1, m2" in _run(journal, "skip", "1Z9", "--through", "2", *_WHY)
    assert "off" not in _run(journal, "suspend", "1Z8", *_WHY)
    told = json.loads(_run(journal, "show", "1Z9", "--json"))
    assert [entry["state"] for entry in told["numbers"]] == ["skipped", "skipped"]
    assert [entry["action"] for entry in told["log"]] == ["skip", "retry"]
    assert "suspend" in _run(journal, "log")


def test_what_a_lost_region_had_is_skipped_for_all_sessions_at_once(journal):
    for session, first in (("1Z7", 2), ("1Z8", 4)):
        claimed(journal, "b", asked(session, first))
    claimed(journal, "b", asked("1Z9", 1))
    listed = json.loads(_run(journal, "skip", "--all", "--dry-run", "--json"))
    assert [(one["session"], one["next_number"], one["hole_through"]) for one in listed] == [
        ("1Z7", 1, 1),
        ("1Z8", 1, 3),
    ]
    assert "helps: seriatim journal skip 1Z8 --queue status --name shop --through 3" in _run(journal, "show", "1Z8")
    told = _run(journal, "skip", "--all", "--yes", *_WHY)
    assert "1Z8: skipped 1 to 3; done through 3, idle" in told
    assert told.endswith("skipped the missing numbers of 2 sessions\n")
    assert json.loads(_run(journal, "skip", "--all", "--json")) == []
    claimed(journal, "b", asked("1Z5", 3))
    done = json.loads(_run(journal, "skip", "1Z5", "--missing", "--json", *_WHY))
    assert (done["skipped_from"], done["skipped_through"], done["message_ids"]) == (1, 2, [])
    for wrong in (["--all", "--through", "3"], ["1Z5", "--all"], [], ["1Z5", "--dry-run"]):
        _run(journal, "skip", *wrong, code=2)


def test_a_session_is_told_from_others_of_its_key(journal):
    journal.define("other", QUEUE, QueueRules())
    for name in (NAME, "other"):
        journal.claim(name, QUEUE, "a", asked("1Z9", 1))
    told = _run(journal, "release", "1Z9", *_WHY, code=2)
    assert f"several queues have a session '1Z9': {QUEUE} of other, {QUEUE} of {NAME} (give --queue or --name)" in told
    assert "the claim of region a is over" in _run(journal, "release", "1Z9", "--name", NAME, *_WHY)
    assert "knows no session 'x'" in _run(journal, "release", "x", *_WHY, code=2)


def test_a_journal_is_recovered_with_what_the_boxes_know(journal, tmp_path):
    claimed(journal, "a", asked("1Z9", 1))
    (tmp_path / "known").write_text(
        '{"queue": "status", "session": "1Z9", "through": 7}\n\n{"queue": "status", "session": "1Z9", "through": 5}\n'
    )
    done = json.loads(_run(journal, "recover", NAME, "--known", str(tmp_path / "known"), "--yes", *_WHY, "--json"))
    assert done == {"incarnation": 2, "stopped": 1, "raised": 1, "asked": []}
    assert json.loads(_run(journal, "list", "--json"))[0]["done_through"] == 7
    (tmp_path / "known").write_text('{"queue": "status"}\n')
    assert "known:1: the line isn't" in _run(
        journal, "recover", NAME, "--known", str(tmp_path / "known"), "--yes", *_WHY, code=2
    )


def test_a_journal_forgets(journal):
    claim = claim_of(claimed(journal, "a", asked("1Z9", 1)))
    with journal.transaction() as tx:
        tx.complete(claim)
    let_pass(journal, 86_400 * 40)
    assert json.loads(_run(journal, "purge", NAME, "--json")) == {"sessions": 0, "numbers": 1}
    for region in "aba":
        journal.report(NAME, region, 1, outbox_age=0, queue_age=0, others=journal.others_outbox(NAME, region))
    assert [one["region"] for one in json.loads(_run(journal, "regions", NAME, "--json"))] == ["a", "b"]
    assert json.loads(_run(journal, "purge", NAME, "--json")) == {"sessions": 1, "numbers": 0}


def test_pipelines_that_run_in_both_regions_are_listed(journal):
    assert "no pipeline has run with claims: journal" in _run(journal, "pipelines")
    journal.pipelines.claim("parcels", "b", "a host, process 7", lease=100.0)
    assert re.search(r"parcels +b +a host, process 7 ", _run(journal, "pipelines"))
    (found,) = json.loads(_run(journal, "pipelines", "--json"))
    assert (found["region"], found["is_over"], found["take_overs"], found["version"]) == ("b", False, 0, 1)


def test_what_is_delivered_of_a_group_is_listed_and_forgotten(journal):
    assert "nothing is delivered" in _run(journal, "delivered", "parcels")
    held = journal.pipelines.claim("parcels", "a", "a host", lease=100.0)
    journal.pipelines.deliver(held, "out", {"1Z9": 7, "1Z8": 3})
    told = json.loads(_run(journal, "delivered", "parcels", "--group", "1Z9", "--json"))
    assert [(one["destination"], one["group"], one["through"]) for one in told] == [("out", "1Z9", 7)]
    assert "forgotten" in _run(journal, "forget-delivered", "parcels", "out", "1Z9", *_WHY)
    assert json.loads(_run(journal, "forget-delivered", "parcels", "out", "1Z8", *_WHY, "--json"))["through"] == 3
    told = _run(journal, "forget-delivered", "parcels", "out", "1Z9", *_WHY, code=2)
    assert "(seriatim journal delivered parcels lists what is)" in told


def test_a_journal_that_isnt_there_is_told(monkeypatch, journal):
    monkeypatch.delenv("SERIATIM_JOURNAL", raising=False)
    found = CliRunner().invoke(main, ["journal", "list"])
    assert (found.exit_code, "give --dsn, or set SERIATIM_JOURNAL" in found.stderr) == (2, True)
    assert "no journal in the schema other" in _run(journal, "list", "--schema", "other", code=3)
