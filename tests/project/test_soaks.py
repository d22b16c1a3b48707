"""`make soak` runs every test that has a full size."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_what_has_a_full_size_has_the_mark():
    texts = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__)}
    sized = {
        path
        for path, text in texts.items()
        if re.search(r"tests\.soak import .*(full|sized)|soak\.(full|sized)\(", text)
    }
    assert len(sized) > 8
    assert {path for path in sized if "mark.soak" not in texts[path]} == set()
