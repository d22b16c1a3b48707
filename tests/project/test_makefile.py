"""What `make` says before it begins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What `make test`, which may run this, would pass on.
PASSED_ON = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "SERIATIM_SIZE", "WORKERS"}


def made(*words: str) -> str:
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    own = {name: value for name, value in os.environ.items() if name not in PASSED_ON}
    return subprocess.run(
        ["make", "--no-print-directory", *words], cwd=ROOT, env=own, capture_output=True, text=True, check=True
    ).stdout


def test_says_how_long_the_tests_take():
    budget = tomllib.loads((ROOT / "tests" / "budget.toml").read_text(encoding="utf-8"))
    told = made("test-time", "WORKERS=4")
    assert "`make test-all`" in told
    assert re.findall(r"up to (\d+)", told) == [
        f"{budget['test'] / 4 / 60:.0f}",
        f"{sum(budget['all'].values()) / 4 / 60:.0f}",
    ]
    assert "test-time" in made("-n", "test")
    assert budget["test"] / 2 < 600


def test_what_test_leaves_out_is_the_rest():
    few, rest = (re.search(r"pytest .*-m \"(.+?)\"", made("-n", name))[1] for name in ("test", "test-rest"))
    assert (few, rest) == ("not dear or telling", "dear and not telling")
    assert '-m "' not in made("-n", "test-all")
