"""The examples, run as their READMEs say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from examples.run import HERE, NAMES, laid_out, outcome

from tests.command import called


@pytest.mark.parametrize("name", NAMES)
def test_an_example_gives_what_it_promises(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    laid_out(name, folder)
    done = called(folder, "run", "pipeline.yaml", "--finish")
    assert done.returncode == 0, done.stderr
    assert outcome(folder) == json.loads((HERE / name / "expected.json").read_text())


def test_all_examples_of_this_kind_are_there() -> None:
    assert NAMES == ["changes", "orders", "shipments", "split-and-gather"]
