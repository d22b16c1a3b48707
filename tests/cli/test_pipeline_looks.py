"""What `pipeline list|show` and `events --pipeline` read in a checkpoint, without Spark."""

from __future__ import annotations

import fcntl
import json
import time
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.errors import CheckpointMismatch
from seriatim.operations.pipelines.found import find
from seriatim.operations.pipelines.log import operator_log as operator_log_of
from seriatim.operations.pipelines.pipelines import counts_of
from seriatim.runtime.pipelines.resubmit import resubmit
from seriatim.spark.control import operator_log
from seriatim.spark.control.commands import Command
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import ANSWER, EVENT, OperatorLog
from seriatim.spark.control.pace import WINDOW_S, Pace
from seriatim.spark.control.source import FIRST_OFFSET

FILE = """
name: orders
checkpoint: {folder}/checkpoint
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/ordered}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path))
    identity = {"pipeline": "orders", "id": "1", "buckets": 3, "layout": 3}
    (tmp_path / "checkpoint" / "pipeline.json").write_text(json.dumps(identity))
    return tmp_path


def invoked(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def event(number):
    told = {"event": "hole_skipped", "queue": "ordered", "group": f"c{number}", "incarnation": 0}
    return {"kind": EVENT, **told, "first": number, "last": number, "at": number, "count": 1}


def paged(folder, *words):
    done = invoked("events", "--pipeline", folder / "pipeline.yaml", "--json", *words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    return [one["first"] for one in found], [one["position"] for one in found]


def test_events_are_read_in_pages_both_ways_also_while_files_are_put_together(folder, monkeypatch):
    monkeypatch.setattr(operator_log, "_TOGETHER", 2)
    log = OperatorLog(folder / "checkpoint" / "operator-log")
    answer = {"kind": ANSWER, "verb": "look"}
    numbers = iter(range(1, 100))
    for batch in (0, 3, 4, 9):
        log.keep(batch, [answer, event(next(numbers)), event(next(numbers))])
        newest, before = paged(folder, "--limit", "1")
        found, last = list(newest), before
        while newest:
            newest, before = paged(folder, "--limit", "3", "--before", before[-1])
            found += newest
            last = before or last
        most = (batch != 0) + (batch > 3) + (batch > 4)
        assert found == list(range(2 * most + 2, 0, -1))
        oldest, positions = paged(folder, "--after", "0", "--limit", "3")
        assert oldest == list(range(1, 4))[: 2 * most + 2]
        assert positions[0] == last[-1]
        rest, _ = paged(folder, "--after", positions[-1])
        assert rest == list(range(len(oldest) + 1, 2 * most + 3))
    assert any("-" in file.name for file in (folder / "checkpoint" / "operator-log").iterdir())


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--after", "0", "--group", "c"), "--after can only be combined with --queue, --kind and --limit"),
        (("--after", "0", "--before", "7"), "--after can only be combined with --queue, --kind and --limit"),
        (("--before", "7", "--by", "kind"), "--by counts all, and --before goes on with a list"),
    ],
)
def test_options_that_contradict_each_other_are_refused(folder, words, what):
    done = invoked("events", "--pipeline", folder / "pipeline.yaml", *words)
    assert (done.exit_code, what in done.stderr) == (2, True), done.output


def shown(folder):
    done = invoked("pipeline", "show", folder / "pipeline.yaml", "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_run_tells_how_fast_it_is_and_how_far_behind(folder):
    root = folder / "checkpoint"
    now = time.time()
    Pace(((now - 2 * WINDOW_S, 600, 600), (now, 120, 60)), behind=7, since=now - 1_000).keep(root)
    names = ("running", "behind", "received_per_s", "released_per_s")
    assert [shown(folder)[name] for name in names] == [False, None, None, None]
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [shown(folder)[name] for name in names] == [True, 7, 2.0, 1.0]
        assert "received/s" in invoked("pipeline", "show", folder / "pipeline.yaml").output
        for damaged in ("", "{", "[]", '{"batches": [1], "behind": 1, "since": 0}'):
            (root / "pace.json").write_text(damaged)
            assert [shown(folder)[name] for name in names] == [True, None, None, None]


def test_the_age_is_that_of_the_group_that_has_waited_longest(folder):
    assert [shown(folder)[name] for name in ("oldest", "age_s")] == [None, None]
    since = int((time.time() - 100) * 1_000_000)
    report = {"bucket": 0, "held": {"ordered": 1}, "holes": {"ordered": 1}, "groups": {"ordered": 1}}
    report |= {"held_groups": {"ordered": 1}, "longest": [["ordered", "c", 1, 2, 2, since, "waits"]]}
    standing = {"batch": 0, "counts": {}, "reports": {"0": report}}
    (folder / "checkpoint" / "tally.json").write_text(json.dumps({"standing": standing, "before": standing}))
    found = shown(folder)
    assert [found[name] for name in ("held", "held_groups", "waiting_groups", "holes")] == [1, 1, 1, 1]
    assert found["age_s"] >= 100


def test_the_pace_forgets_what_is_older_than_a_minute_and_stays_small():
    pace = Pace(since=0.0)
    for moment in range(10_000):
        pace = pace.after(moment / 100, 2, 1, None)
    assert len(pace.batches) <= 120
    assert pace.received_per_s(100.0) == pytest.approx(200, rel=0.02)
    assert pace.after(1_000.0, 0, 0, 3) == Pace((), 3, 0.0)
    assert Pace((), None, 0.0).released_per_s(0.0) == 0


#: Who reads the control log without running the pipeline; at which look into its folder a command is obeyed; and what he finds
#: where two of four commands are.
READERS = {
    "check": (lambda found: found.place.check_log(), 1, None),
    "count": (lambda found: counts_of(found).queued, 1, 2),
    "list": (lambda found: [one.group for one in operator_log_of(found)], 1, ["c4", "c3"]),
    "put back": (lambda found: resubmit(found.place, found.declared, [], actor="ada", reason="a test"), 2, []),
}


@pytest.mark.parametrize(("read", "look", "finds"), READERS.values(), ids=READERS)
def test_commands_that_a_run_forgets_while_somebody_reads_are_not_missed(folder, monkeypatch, read, look, finds):
    root = folder / "checkpoint"
    control = ControlLog(root / "control", "1")
    for number in range(1, 5):
        control.append([Command("suspend", "ordered", f"c{number}", "ada", "a test").entry()])
    for part in ("offsets", "commits"):
        (root / "query" / part).mkdir(parents=True)

    def obey(through):
        """A batch obeys commands and is committed; the next one forgets them."""
        offset = json.dumps({**FIRST_OFFSET, "log": through})
        (root / "query" / "offsets" / str(through)).write_text(f"v1\n{{}}\n{offset}\n")
        (root / "query" / "commits" / str(through)).write_text("v1\n{}")
        control.forget(through)

    whole, looks = Path.iterdir, count(1)

    def beside_a_run(at):
        files = list(whole(at))
        if at == root / "control" and next(looks) == look:
            obey(2)
        return iter(files)

    obey(1)
    found = find(folder / "pipeline.yaml")
    monkeypatch.setattr(Path, "iterdir", beside_a_run)
    assert read(found) == finds
    assert sorted(file.name for file in (root / "control").iterdir()) == ["0000000003", "0000000004"]
    (root / "control" / "0000000003").unlink()
    with pytest.raises(CheckpointMismatch, match="0000000003: the file of the control log can't be read"):
        read(found)
