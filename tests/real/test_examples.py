"""The examples: what comes out of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from examples.run import HERE, NAMES, laid_out, outcome

from seriatim.cli.main import main
from tests.own_modules import work_in

#: The one that stands for all pipelines of files in `make test`, from end to end.
TELLING = "orders"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.telling] * (name == TELLING)) for name in NAMES]
)
def test_an_example_gives_what_it_promises(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    laid_out(name, tmp_path / name)
    work_in(tmp_path / name, monkeypatch)
    done = CliRunner().invoke(main, ["run", "pipeline.yaml", "--finish"])
    assert done.exit_code == 0, done.output
    assert outcome(tmp_path / name) == promised(name)


def promised(name: str) -> object:
    """The outcome that an example promises."""
    return json.loads((HERE / name / "expected.json").read_text())


def test_all_examples_of_this_kind_are_there() -> None:
    assert NAMES == ["changes", "feeds", "orders", "shipments", "split-and-gather", "topic"]
