"""The page of the states is what the kernel's tables say."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_drawn_from_the_tables():
    script = runpy.run_path(str(ROOT / "scripts" / "states_page.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["page"](), "run python -m scripts.states_page"
