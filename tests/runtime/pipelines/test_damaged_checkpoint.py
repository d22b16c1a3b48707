"""Each file of a checkpoint, truncated, emptied, swapped with an older one, removed: a start refuses it by name, or goes on as it would have.

A refusal comes before Spark is started, so it is asked of what a run does before that.
"""

from __future__ import annotations

import json
import shutil

import pytest

from seriatim.errors import SeriatimError
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.runtime.pipelines.tally import Tally
from seriatim.spark.control.commands import Command
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import EVENT, OperatorLog
from seriatim.spark.deliver.stage import Delivered
from tests.upgrade.checkpoint import PRESENT, STORED, unpack


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A checkpoint after two batches, with two commands of which it has read one."""
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED / f"{PRESENT}.tar.xz", folder)
    checkpoint = Checkpoint(load(folder / "pipeline.yaml").checkpoint.absolute())
    control = ControlLog.of_checkpoint(checkpoint.control)
    for key in ("a", "b"):
        control.append([Command("suspend", "standard", key, "ada", "a test").entry()])
    last = checkpoint.query / "offsets" / "1"
    last.write_text(last.read_text().replace('"log": 0', '"log": 1'))
    log = OperatorLog(checkpoint.operator_log, checkpoint.identify(load(folder / "pipeline.yaml"), {}).id)
    for batch in (0, 1):
        log.keep(batch, [{"kind": EVENT, "event": "hole_skipped"}])
    tally = Tally(checkpoint.tally)
    tally.add(Delivered(1, {}))
    found = json.loads(checkpoint.tally.read_text())
    (checkpoint.root / "older-tally.json").write_text(json.dumps({**found, "standing": found["before"]}))
    return folder


def start(folder):
    """What a run does before it starts Spark."""
    pipeline = load(folder / "pipeline.yaml")
    checkpoint = Checkpoint(pipeline.checkpoint.absolute())
    with checkpoint.held():
        identity = checkpoint.identify(pipeline, {})
        checkpoint.check_logs(identity)
        checkpoint.take_over()
        tally = Tally(checkpoint.tally)
        tally.begin(begun=checkpoint.last_begun(), committed=checkpoint.last_committed())
        checkpoint.former(pipeline)
        return tally.is_lost


def truncate(file, older):
    file.write_bytes(file.read_bytes()[: -(len(file.read_bytes()) // 3)])


def empty(file, older):
    file.write_bytes(b"")


def swap(file, older):
    shutil.copyfile(older, file)


def remove(file, older):
    file.unlink()


GOES_ON = ""
#: A file, an older one, and by damage what the refusal says: nothing where the start goes on.
FILES = [
    ("pipeline.json", None, {truncate: "damaged", empty: "damaged", remove: "doesn't say of which pipeline it is"}),
    ("declaration.yaml", None, {truncate: GOES_ON, empty: GOES_ON, remove: GOES_ON}),
    (
        "tally.json",
        "older-tally.json",
        {truncate: "the tally is damaged", empty: "the tally is damaged", swap: GOES_ON, remove: GOES_ON},
    ),
    (
        "control/0000000002",
        "control/0000000001",
        {truncate: "damaged", empty: "damaged", swap: "file 1 of the control log", remove: GOES_ON},
    ),
    # The command in it was obeyed, so nobody reads the file any more.
    ("control/0000000001", None, {truncate: GOES_ON, empty: GOES_ON, remove: GOES_ON}),
    (
        "operator-log/0000000001",
        "operator-log/0000000000",
        {
            truncate: "damaged",
            empty: "damaged",
            swap: "the file is that of batch 0",
            remove: "the operator log was cut",
        },
    ),
    ("operator-log/0000000000", None, {truncate: "damaged", empty: "damaged", remove: "comes before 0000000001"}),
    ("operator-log.json", None, {truncate: "damaged", empty: "damaged", remove: GOES_ON}),
    ("query/metadata", None, {truncate: "damaged", empty: "damaged", remove: GOES_ON}),
    (
        "query/offsets/1",
        "query/offsets/0",
        {truncate: "damaged", empty: "damaged", swap: "the file is that of batch 0", remove: "batch 1 is committed"},
    ),
    ("query/offsets/0", None, {truncate: "damaged", empty: "damaged", remove: GOES_ON}),
    # Without it the batch runs once more, as it ran.
    ("query/commits/1", "query/commits/0", {truncate: "damaged", empty: "damaged", swap: GOES_ON, remove: GOES_ON}),
    ("query/commits/0", None, {truncate: GOES_ON, empty: GOES_ON, remove: GOES_ON}),
    *(
        (
            f"query/sources/{place}/1",
            f"query/sources/{place}/0",
            {
                truncate: "damaged",
                empty: "damaged",
                swap: "the file is that of number 0",
                remove: "the file is missing",
            },
        )
        for place in (0, 1)
    ),
]
CASES = [
    pytest.param(file, older, damage, said, id=f"{damage.__name__} {file}")
    for file, older, damages in FILES
    for damage, said in damages.items()
]


@pytest.mark.parametrize(("file", "older", "damage", "said"), CASES)
def test_a_start_refuses_it_by_name_or_goes_on(stored, tmp_path, file, older, damage, said):
    shutil.copytree(stored / "checkpoint", tmp_path / "checkpoint")
    text = (stored / "pipeline.yaml").read_text().replace(f"{stored}/checkpoint", f"{tmp_path}/checkpoint")
    (tmp_path / "pipeline.yaml").write_text(text)
    damaged = tmp_path / "checkpoint" / file
    damage(damaged, None if older is None else tmp_path / "checkpoint" / older)
    if said == GOES_ON:
        assert start(tmp_path) is (file == "tally.json")
        return
    with pytest.raises(SeriatimError) as refused:
        start(tmp_path)
    assert said in str(refused.value)
    assert str(damaged if damage is not remove or file != "pipeline.json" else tmp_path / "checkpoint") in str(
        refused.value
    )
    assert refused.value.remedy


def test_a_whole_checkpoint_is_taken_as_it_is(stored):
    assert start(stored) is False
