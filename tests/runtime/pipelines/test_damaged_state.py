"""A damaged file of Spark's state is named, with what to do: Spark itself says neither."""

from __future__ import annotations

import json
import shutil

import pytest

from seriatim.errors import CheckpointMismatch, QueryFailed
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.state_files import state_failure
from tests.upgrade.checkpoint import stored as stored_form
from tests.upgrade.checkpoint import unpack

#: A checkpoint whose state has a snapshot, and changes after it.
STORED = stored_form("3-by-key")
LOADING = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030"


def truncate(file):
    file.write_bytes(file.read_bytes()[: -(len(file.read_bytes()) // 3)])


def empty(file):
    file.write_bytes(b"")


def remove(file):
    file.unlink()


#: Files of an operator's state, and what is said where they are damaged: nothing of those that nobody loads.
FILES = {
    "0/0/1.changelog": dict.fromkeys((truncate, empty, remove)),
    "0/0/1.zip": {truncate: "is damaged", empty: "is damaged", remove: "is missing, which names the others"},
    "0/0/2.changelog": {truncate: "is damaged", empty: "is damaged", remove: "is missing"},
    "0/0/SSTs/*.sst": {truncate: "is damaged: it has 5,206 bytes of 7,808", empty: "is damaged", remove: "is missing"},
    "0/_metadata/v2/0": dict.fromkeys((truncate, empty, remove)),
    "0/_metadata/v2/1": {truncate: "is damaged", empty: "is damaged", remove: None},
    "0/_stateSchema/default/0_*": {truncate: "is damaged", empty: "is damaged", remove: "is missing"},
}
CASES = [
    pytest.param(file, damage, said, id=f"{damage.__name__} {file}")
    for file, damages in FILES.items()
    for damage, said in damages.items()
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    unpack(STORED, folder)
    return folder


@pytest.mark.parametrize(("file", "damage", "said"), CASES)
def test_which_file_is_damaged(stored, tmp_path, file, damage, said):
    shutil.copytree(stored / "checkpoint" / "query", tmp_path / "query")
    (damaged,) = (tmp_path / "query" / "state").glob(file)
    damage(damaged)
    error = state_failure(tmp_path / "query", LOADING)
    if said is None:
        assert "which file is damaged it doesn't say" in error.what
        assert error.where == str(tmp_path / "query" / "state")
    else:
        assert said in error.what
        assert error.where in (str(damaged), str(damaged.with_name("*.zip")))
    assert "restore the checkpoint from a backup" in error.remedy


def test_another_failure_is_none_of_the_state(stored):
    assert state_failure(stored / "checkpoint" / "query", "KeyError: 'customer'") is None
    assert state_failure(stored / "no such folder", "KeyError: 'customer'") is None


@pytest.mark.parametrize("file", ["0/_metadata/v2/1", "1/0/1.zip"])
def test_a_run_names_the_damaged_file(spark, tmp_path, file):
    unpack(STORED, tmp_path)
    damaged = tmp_path / "checkpoint" / "query" / "state" / file
    truncate(damaged)
    (tmp_path / "shop" / "3.json").write_text(json.dumps({"kind": "standard", "customer": "zz", "version": 1}))
    with pytest.raises(CheckpointMismatch, match="the file of Spark's state is damaged") as refused:
        run(load(tmp_path / "pipeline.yaml"), once=True)
    assert refused.value.where == str(damaged)
    assert not isinstance(refused.value.__cause__, QueryFailed)  # with --verbose people see what Spark has said
