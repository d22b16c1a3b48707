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
PASSED_ON = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "WORKERS"}


def made(*words: str) -> str:
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    own = {name: value for name, value in os.environ.items() if name not in PASSED_ON}
    return subprocess.run(
        ["make", "--no-print-directory", *words], cwd=ROOT, env=own, capture_output=True, text=True, check=True
    ).stdout


def test_says_how_long_the_tests_take_and_offers_the_quick_part():
    budget = tomllib.loads((ROOT / "tests" / "budget.toml").read_text(encoding="utf-8"))
    quick = sum(seconds for folder, seconds in budget.items() if folder not in ("tests/faults", "tests/spark"))
    told = made("test-time", "WORKERS=4")
    assert "`make quick`" in told
    assert re.findall(r"up to (\d+)", told) == [f"{sum(budget.values()) / 4 / 60:.0f}", f"{quick / 4 / 60:.0f}"]
    assert "test-time" in made("-n", "test")
    assert "test-time" not in made("-n", "test", "ARGS=tests/kernel")
