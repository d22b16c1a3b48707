"""Turns of these tests are ended by what they find, and not because the machine stood still for a second."""

from __future__ import annotations

import pytest

from seriatim.runtime.workers import leased_turn, turn


@pytest.fixture(autouse=True)
def _turns_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (turn, leased_turn):
        monkeypatch.setattr(module, "LONG_S", 600.0)
