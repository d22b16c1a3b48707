"""Commands to a pipeline: obeyed in the order of the log, before the batch's data, once, and answered."""

from __future__ import annotations

import json
import os
import shutil
from types import SimpleNamespace

import pytest

from seriatim.errors import CheckpointMismatch
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.spark.control import operator_log
from seriatim.spark.control.commands import LOOK, Command
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import EVENT
from seriatim.spark.control.pipeline_place import PipelinePlace
from tests.delivered import table_of

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 3
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version{options}}}
    deliver: {{format: json, path: {folder}/out/ordered}}
"""


def pipeline(folder, options=""):
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(folder=folder, options=options))
    return load(file)


def put(folder, name, rows):
    hidden = folder / "in" / f".{name}"
    hidden.write_text("".join(json.dumps({"customer": one, "version": version}) + "\n" for one, version in rows))
    moment = 1_700_000_000 + len(list((folder / "in").glob("*.json")))
    os.utime(hidden, (moment, moment))
    hidden.rename(folder / "in" / f"{name}.json")


def delivered(folder):
    """Per customer the versions and ordinals."""
    found = {}
    for row in table_of(folder / "out" / "ordered", "json").to_pylist():
        found.setdefault(row["group"], []).append((row["version"], row["ordinal"]))
    return found


def command(verb, key, id_=None, dry_run=False, **arguments):
    more = {} if id_ is None else {"id": id_}
    return Command(verb, "ordered", key, "ada", "a test", arguments, dry_run, **more)


def told(folder, *commands):
    """Write commands to the log, as one call does."""
    place = PipelinePlace.of(folder / "checkpoint", "orders")
    return place.control.append([one.entry() for one in commands])


def answers(folder):
    return list(PipelinePlace.of(folder / "checkpoint", "orders").operator_log.answers())


def by_id(folder):
    return {one.id: one for one in answers(folder)}


@pytest.fixture(scope="module")
def story(spark, tmp_path_factory):
    """One pipeline, run by run, and what was seen after each."""
    folder = tmp_path_factory.mktemp("commands")
    (folder / "in").mkdir()
    declared = pipeline(folder, ", hole_timeout: 1h, on_hole: skip")
    seen = SimpleNamespace(folder=folder, numbers=[])

    def ran(**how):
        run(declared, **how)
        seen.numbers.append(sorted(int(file.name) for file in (folder / "checkpoint").glob("control/*")))

    waiting = [
        ("hole", 1),
        ("hole", 4),
        ("hole", 6),
        ("stop", 1),
        ("reset", 5),
        ("abort", 3),
        ("close", 1),
        ("anew", 3),
    ]
    more = [("out", 3), ("out", 4), ("look-one", 1), ("look-one", 3), ("look-one", 5), ("look-two", 2)]
    put(folder, "a", [*waiting, *more, ("c", 1), ("c", 4), ("d", 2)])
    ran(once=True)
    told(
        folder,
        command("skip_hole", "hole", "h", through=2),
        command("suspend", "stop", "s"),
        command("reset", "reset", "r", next=4),
        command("abort", "abort", "a"),
        command("close", "close", "c", at_once=True),
        command("restart", "anew", "n"),
        command("skip_message", "out", "o", message="crm/a.json:9"),
        command("resume", "hole", "refused"),
        command("abort", "nobody", "unknown"),
        command("skip_hole", "hole", "dry", dry_run=True),
    )
    same = command("skip_hole", "look-one", "same")
    filter_ = {"states": ["waiting", "timed_out"], "key": "look-*"}
    look = Command(LOOK, None, None, "ada", "to see", filter_, id="look")
    told(folder, same, same, command("skip_hole", "look-two", "other"), look)
    told(folder, same)
    of_b = [("hole", 3), ("stop", 2), ("reset", 4), ("abort", 1), ("abort", 2), ("close", 2), ("out", 1), ("out", 2)]
    put(folder, "b", of_b)
    ran(once=True)
    told(folder, same, command("abort", "x"), command("abort", "x", dry_run=True))
    ran(once=True)
    seen.delivered = delivered(folder)
    seen.answers = answers(folder)
    seen.reports = json.loads((folder / "checkpoint" / "tally.json").read_text())["standing"]["reports"].values()
    seen.checkpoint = folder / "as-it-was"
    shutil.copytree(folder / "checkpoint", seen.checkpoint)

    ran(finish=True)
    seen.events = events(folder)
    # As a kill leaves it before the commit.
    commits = folder / "checkpoint" / "query" / "commits"
    seen.last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    for name in (str(seen.last), f".{seen.last}.crc"):
        (commits / name).unlink(missing_ok=True)
    ran(once=True)
    return seen


def events(folder):
    """Those that no command caused."""
    log = PipelinePlace.of(folder / "checkpoint", "orders").operator_log
    found = [one for one in log.entries(kind=EVENT) if "operation_id" not in one]
    return [(one["batch"], one["group"], one["event"], one["first"], one["last"]) for one in found]


def test_each_command_is_obeyed_before_the_batch_s_data_and_answered(story):
    found = {one.id: one for one in story.answers if one.id in {*"hsracno", "refused", "unknown", "dry"}}
    assert {one: found[one].result for one in found} == dict.fromkeys("hsracno", "done") | {
        "refused": "refused", "unknown": "unknown", "dry": "done",
    }  # fmt: skip
    assert (found["h"].before, found["h"].after) == ("waiting", "waiting")
    assert found["h"].events == [["hole_skipped", 2, 2, 1], ["hole_opened", 3, 3, 1]]
    assert found["refused"].why == "cannot resume a group that is waiting"
    assert "skip_hole" in found["refused"].remedy
    # As the hole would be skipped, with what was done before it.
    assert (found["dry"].released, found["dry"].dry_run) == (1, True)
    assert found["unknown"].why == "destination 'ordered' has no group 'nobody'"
    assert {one.batch for one in found.values()} == {1}
    assert {group: rows for group, rows in story.delivered.items() if "look" not in group} == {
        "hole": [(1, 1), (3, 2), (4, 3)],
        "stop": [(1, 1)],
        "reset": [(4, 1), (5, 2)],
        "abort": [(1, 1), (2, 2)],
        "close": [(1, 1)],
        "out": [(1, 1), (2, 2), (4, 3)],
        "c": [(1, 1)],
    }
    aside = sorted((one.group, one.sequence, one.reason) for one in read_set_aside(story.checkpoint / "set-aside"))
    assert aside == [
        ("abort", 3, "an operator aborted the group"),
        ("close", 2, "the group is closed"),
        ("out", 3, "an operator skipped the message"),
    ]


def test_a_command_comes_once_whoever_repeats_it_and_a_look_sees_what_was_done_before_it(story):
    assert (story.delivered["look-one"], story.delivered["look-two"]) == ([(1, 1), (3, 2)], [(2, 1)])
    of_same = [(one.batch, one.result) for one in story.answers if one.id == "same"]
    assert of_same == [(1, "done"), (1, "repeated"), (1, "repeated"), (2, "repeated")]
    looked = [one for one in story.answers if one.id == "look"]
    assert len(looked) == 3  # of each bucket
    groups = [group for one in looked for group in one.groups]
    assert [(one["group"], one["state"], one["missing_first"], one["held"]) for one in groups] == [
        ("look-one", "waiting", 4, 1)
    ]


def test_unknown_groups_make_no_state_and_the_log_is_cleaned_up_behind_the_checkpoint(story):
    assert [one.result for one in story.answers if one.group == "x"] == ["unknown"] * 2
    # What a batch has obeyed is deleted by the next one, when it is committed.
    assert story.numbers[:3] == [[], [1, 2, 3], [4]]
    groups = {"hole", "stop", "reset", "abort", "close", "anew", "out", "look-one", "look-two", "c", "d"}
    assert sum(report["groups"].get("ordered", 0) for report in story.reports) == len(groups)


def test_events_are_kept_once_also_if_a_batch_runs_again(story):
    found = [one for one in story.events if one[0] == story.last]
    holes = {"c": (2, 3), "d": (1, 1), "hole": (5, 5), "look-one": (4, 4), "anew": (1, 2)}
    assert sorted(one[1:] for one in found) == sorted(
        (group, event, *holes[group]) for group in holes for event in ("hole_overdue", "hole_skipped")
    )
    assert events(story.folder) == story.events


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda file, _: file.write_text(file.read_text().replace("suspend", "resumes")), "was changed"),
        (lambda file, _: file.write_text(file.read_text()[:-20]), "damaged"),
        (lambda file, _: file.write_text(""), "damaged"),
        (lambda file, _: file.rename(file.with_name("0000000006")), "can't be read: No such file"),
        (
            lambda file, _: [one.unlink() for one in file.parent.iterdir()],
            "the control log was cut: file 4 of it was read",
        ),
        (lambda file, other: file.write_bytes(other.read_bytes()), "of another checkpoint"),
    ],
    ids=["edited", "truncated", "emptied", "moved", "removed", "of another pipeline"],
)
def test_a_control_log_that_is_not_as_it_was_written_is_refused(story, tmp_path, damage, what):
    shutil.copytree(story.checkpoint, tmp_path / "checkpoint")
    told(tmp_path, command("suspend", "c"))
    other = ControlLog(tmp_path / "other", "another")
    for _ in range(5):
        other.append([command("suspend", "c").entry()])
    damage(tmp_path / "checkpoint" / "control" / "0000000005", tmp_path / "other" / "0000000005")
    with pytest.raises(CheckpointMismatch, match=what):
        PipelinePlace.of(tmp_path / "checkpoint", "orders").check_log()


def test_a_run_is_refused_whose_control_log_was_cut(story, tmp_path):
    text = (story.folder / "pipeline.yaml").read_text().replace(f"{story.folder}/checkpoint", f"{tmp_path}/checkpoint")
    (tmp_path / "pipeline.yaml").write_text(text)
    shutil.copytree(story.checkpoint, tmp_path / "checkpoint")
    (tmp_path / "checkpoint" / "control" / "0000000004").unlink()
    with pytest.raises(CheckpointMismatch, match="was cut"):
        run(load(tmp_path / "pipeline.yaml"), once=True)


def test_a_former_file_of_many_batches_is_read_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(operator_log, "_TOGETHER", 3)
    log = operator_log.OperatorLog(tmp_path / "log")
    for batch in range(0, 20, 2):
        log.keep(batch, [{"kind": EVENT, "at": batch}, {"kind": EVENT, "at": batch + 1}])
    log.keep(18, [{"kind": EVENT, "at": 18}])  # it runs again
    log.keep(20, [])
    names = sorted(file.name for file in (tmp_path / "log").iterdir())
    assert names[:2] == ["0000000000-0000000004", "0000000006-0000000010"]
    assert [one["at"] for one in log.entries()] == list(range(19))
    assert [one["at"] for one in log.entries(after=10, newest_first=True)] == list(range(18, 11, -1))
    (tmp_path / "log" / names[0]).write_text("no JSON\n")
    with pytest.raises(CheckpointMismatch, match="the file of the operator log is damaged"):
        list(log.entries())
