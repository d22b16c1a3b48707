"""The sessions before a key: every state that the model of their closing can reach, and broken variants, each with the shortest way to its fault."""

from __future__ import annotations

import pytest

from tests.models.closing import BROKEN, ClosingModel
from tests.models.search import search

WORLDS: dict[str, dict[str, object]] = {
    "all are there": {}, "box b is away": {"away": 1}, "the journal votes": {"away": 3}, "a box is restored": {"restores": True, "senders": 1},
}  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize("world", WORLDS)
def test_nothing_is_lost_and_nothing_is_handled_twice(world: str) -> None:
    found = search(ClosingModel(**WORLDS[world]))  # type: ignore[arg-type]
    assert found.fault is None, str(found)


@pytest.mark.dear
@pytest.mark.parametrize("broken", BROKEN)
def test_each_rule_is_needed(broken: str) -> None:
    found = search(ClosingModel(broken, restores=broken in BROKEN[-2:], senders=1 if broken in BROKEN[-2:] else 2))
    assert found.fault is not None
    assert found.trace
