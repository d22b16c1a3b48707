"""``LIKE`` in the kernel: the same in every way that it is computed, and in time that long texts take once."""

from __future__ import annotations

import random
import re

import pytest

from seriatim.kernel.filters import like as module
from seriatim.kernel.filters.filter import STRING, Like, Property
from seriatim.kernel.filters.filter_typing import like as built
from seriatim.kernel.filters.like import like, like_regex
from tests import soak


def segments(pattern: str) -> tuple[tuple[str | None, ...], ...]:
    expression = built(Property("s", STRING), pattern)
    assert isinstance(expression, Like)
    return expression.segments


@pytest.mark.parametrize(("few", "places"), [(2**16, 2**16), (0, 2**16), (0, 3), (0, 1)])
@pytest.mark.soak
def test_every_way_finds_what_the_regular_expression_finds(
    monkeypatch: pytest.MonkeyPatch, few: int, places: int
) -> None:
    monkeypatch.setattr(module, "_FEW_STEPS", few)
    monkeypatch.setattr(module, "_PLACES", places)
    chance = random.Random(soak.seed())
    for _ in range(soak.sized(200_000, 2_000)):
        pattern = "".join(chance.choices("%_abé😀", k=chance.randrange(9)))
        text = "".join(chance.choices("abé😀\n", k=chance.randrange(12)))
        expected = re.fullmatch(like_regex(segments(pattern)), text, re.DOTALL) is not None
        assert like(segments(pattern))(text) is expected, (pattern, text)


# Step by step each of these would take minutes.
@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (f"%{'a' * 900}b{'a' * 90}%", "a" * 10_000_000, False),
        (f"%_{'a' * 900}_b{'a' * 90}%", "a" * 10_000_000, False),
        (f"%{'a_' * 498}b%", "a" * 10_000_000, False),
        (f"%{'a_' * 498}b%", "a" * 10_000_000 + "b", True),
        (f"x%{'a' * 900}_b", "x" + "a" * 10_000_000, False),
        ("%" + "a_b%" * 240, "aab" * 3_000_000, True),
    ],
    ids=["text", "ends", "runs", "found", "last", "many"],
)
def test_a_long_text_takes_time_in_proportion_to_its_length(pattern: str, text: str, expected: bool) -> None:
    assert like(segments(pattern))(text) is expected
