"""The page of limits says what the source enforces, and where."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\|(.*)\| (.*) \|$", (ROOT / "docs/reference/limits.md").read_text(encoding="utf-8"), re.MULTILINE)
PLACES = [(row, *found) for row, cell in ROWS for found in re.findall(r"`([a-z_/]+\.py):(\w+)`", cell)]


def test_every_number_is_that_of_the_source():
    assert len(PLACES) > 25
    for row, file, name in PLACES:
        module = importlib.import_module(f"seriatim.{file.removesuffix('.py').replace('/', '.')}")
        value = getattr(module, name)
        assert f"{value:,}" in row, f"{file}: {name} = {value:,}, but the page says {row}"


def test_every_place_is_there():
    for _, cell in ROWS:
        for place in re.findall(r"`([a-z_/]+/(?:\w+\.py)?)(?::\w+)?`", cell):
            assert (ROOT / "src/seriatim" / place).exists() or (ROOT / place).exists(), place
