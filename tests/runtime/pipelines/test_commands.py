"""Commands to a pipeline: obeyed in the order of the log, before the batch's data, once, and answered."""

from __future__ import annotations

import json
import os
import shutil

import pytest

from seriatim.errors import CheckpointMismatch
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.spark.control import operator_log
from seriatim.spark.control.commands import LOOK, Command
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

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


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


def test_each_command_is_obeyed_before_the_batch_s_data_and_answered(folder):
    put(
        folder,
        "a",
        [
            ("hole", 1),
            ("hole", 4),
            ("hole", 6),
            ("stop", 1),
            ("reset", 5),
            ("abort", 3),
            ("close", 1),
            ("anew", 3),
            ("out", 3),
            ("out", 4),
        ],
    )
    run(pipeline(folder), once=True)
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
        command("suspend", "nobody", "unknown"),
        command("skip_hole", "hole", "dry", dry_run=True),
    )
    put(
        folder,
        "b",
        [("hole", 3), ("stop", 2), ("reset", 4), ("abort", 1), ("abort", 2), ("close", 2), ("out", 1), ("out", 2)],
    )
    run(pipeline(folder), once=True)
    found = by_id(folder)
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
    assert delivered(folder) == {
        "hole": [(1, 1), (3, 2), (4, 3)],
        "stop": [(1, 1)],
        "reset": [(4, 1), (5, 2)],
        "abort": [(1, 1), (2, 2)],
        "close": [(1, 1)],
        "out": [(1, 1), (2, 2), (4, 3)],
    }
    aside = sorted((one.group, one.sequence, one.reason) for one in read_set_aside(folder / "checkpoint" / "set-aside"))
    assert aside == [
        ("abort", 3, "an operator aborted the group"),
        ("close", 2, "the group is closed"),
        ("out", 3, "an operator skipped the message"),
    ]


def test_a_command_comes_once_whoever_repeats_it_and_a_look_sees_what_was_done_before_it(folder):
    put(folder, "a", [("one", 1), ("one", 3), ("one", 5), ("two", 2)])
    run(pipeline(folder), once=True)
    same = command("skip_hole", "one", "same")
    look = Command(LOOK, None, None, "ada", "to see", {"states": ["waiting", "timed_out"], "key": "*"}, id="look")
    told(folder, same, same, command("skip_hole", "two", "other"), look)
    told(folder, same)
    run(pipeline(folder), once=True)
    told(folder, same)
    run(pipeline(folder), once=True)
    assert delivered(folder) == {"one": [(1, 1), (3, 2)], "two": [(2, 1)]}
    of_same = [(one.batch, one.result) for one in answers(folder) if one.id == "same"]
    assert of_same == [(1, "done"), (1, "repeated"), (1, "repeated"), (2, "repeated")]
    looked = [one for one in answers(folder) if one.id == "look"]
    assert len(looked) == 3  # of each bucket
    groups = [group for one in looked for group in one.groups]
    assert [(one["group"], one["state"], one["missing_first"], one["held"]) for one in groups] == [
        ("one", "waiting", 4, 1)
    ]


def test_unknown_groups_make_no_state_and_the_log_is_cleaned_up_behind_the_checkpoint(folder):
    put(folder, "a", [("c", 1)])
    run(pipeline(folder), once=True)
    numbers = []
    for name in ("x", "y", "z"):
        told(folder, command("suspend", name), command("suspend", name, dry_run=True))
        run(pipeline(folder), once=True)
        numbers.append(sorted(int(file.name) for file in (folder / "checkpoint" / "control").iterdir()))
    assert [one.result for one in answers(folder)] == ["unknown"] * 6
    assert numbers == [[1], [2], [3]]
    last = folder / "checkpoint" / "control" / "0000000003"
    last.unlink()
    with pytest.raises(CheckpointMismatch, match="was cut"):
        run(pipeline(folder), once=True)
    tally = json.loads((folder / "checkpoint" / "tally.json").read_text())
    assert sum(report["groups"].get("ordered", 0) for report in tally["standing"]["reports"].values()) == 1


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda file, _: file.write_text(file.read_text().replace("suspend", "resumes")), "was changed"),
        (lambda file, _: file.write_text(file.read_text()[:-20]), "damaged"),
        (lambda file, _: file.write_text(""), "damaged"),
        (lambda file, _: file.rename(file.with_name("0000000004")), "can't be read: No such file"),
        (
            lambda file, _: [one.unlink() for one in file.parent.iterdir()],
            "the control log was cut: file 2 of it was read",
        ),
        (lambda file, other: file.write_bytes(other.read_bytes()), "of another checkpoint"),
    ],
    ids=["edited", "truncated", "emptied", "moved", "removed", "of another pipeline"],
)
def test_a_control_log_that_is_not_as_it_was_written_is_refused(
    folder, damage, what, ran_with_two_commands, another_log
):
    shutil.copytree(ran_with_two_commands, folder / "checkpoint")
    told(folder, command("suspend", "c"))
    damage(folder / "checkpoint" / "control" / "0000000003", another_log)
    with pytest.raises(CheckpointMismatch, match=what):
        PipelinePlace.of(folder / "checkpoint", "orders").check_log()


@pytest.fixture(scope="module")
def another_log(tmp_path_factory):
    from seriatim.spark.control.log import ControlLog

    folder = tmp_path_factory.mktemp("other") / "control"
    log = ControlLog(folder, "another")
    for _ in range(3):
        log.append([command("suspend", "c").entry()])
    return folder / "0000000003"


@pytest.fixture(scope="module")
def ran_with_two_commands(tmp_path_factory):
    """A checkpoint in which two files of the control log were read."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "in").mkdir()
    put(folder, "a", [("c", 1)])
    run(pipeline(folder), once=True)
    for verb in ("suspend", "resume"):
        told(folder, command(verb, "c"))
        run(pipeline(folder), once=True)
    return folder / "checkpoint"


def test_events_are_kept_once_also_if_a_batch_runs_again(folder):
    declared = pipeline(folder, ", hole_timeout: 1h, on_hole: skip")
    put(folder, "a", [("c", 1), ("c", 4), ("d", 2)])
    run(declared, finish=True)
    log = PipelinePlace.of(folder / "checkpoint", "orders").operator_log

    def kept():
        return [
            (one["batch"], one["group"], one["event"], one["first"], one["last"]) for one in log.entries(kind=EVENT)
        ]

    found = kept()
    assert sorted(one[1:] for one in found) == [
        ("c", "hole_overdue", 2, 3),
        ("c", "hole_skipped", 2, 3),
        ("d", "hole_overdue", 1, 1),
        ("d", "hole_skipped", 1, 1),
    ]
    # As a kill leaves it before the commit.
    commits = folder / "checkpoint" / "query" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    assert {one[0] for one in found} == {last}
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    run(declared, once=True)
    assert kept() == found


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
