"""The examples: what comes out of each, and one of them run as its README says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples.run import HERE, NAMES, laid_out, outcome

from seriatim.cli.main import main
from tests.command import called

#: The one that is run in a process of its own, as its README says; the others take this process's Spark session.
AS_TOLD = "orders"


@pytest.mark.parametrize("name", [name for name in NAMES if name != AS_TOLD])
def test_an_example_gives_what_it_promises(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    laid_out(name, tmp_path / name)
    monkeypatch.chdir(tmp_path / name)
    done = CliRunner().invoke(main, ["run", "pipeline.yaml", "--finish"])
    assert done.exit_code == 0, done.output
    assert outcome(tmp_path / name) == promised(name)


@pytest.mark.spark
def test_an_example_runs_as_its_readme_says(tmp_path: Path) -> None:
    laid_out(AS_TOLD, tmp_path / AS_TOLD)
    done = called(tmp_path / AS_TOLD, "run", "pipeline.yaml", "--finish")
    assert done.returncode == 0, done.stderr
    assert outcome(tmp_path / AS_TOLD) == promised(AS_TOLD)


def promised(name: str) -> object:
    """The outcome that an example promises."""
    return json.loads((HERE / name / "expected.json").read_text())


def test_all_examples_of_this_kind_are_there() -> None:
    assert NAMES == ["changes", "orders", "shipments", "split-and-gather"]
