"""Idle connections that are dropped on their way, and a process that asks each before it is used."""

from __future__ import annotations

from contextvars import ContextVar

import pytest

from seriatim import rested
from tests.box.cutting import Cutting

__all__ = ["LOSSES", "asked_at_once"]

#: How connections are dropped: a firewall has forgotten them, and says nothing; or both sides are told.
LOSSES = {"forgotten": Cutting.forget, "cut": Cutting.cut}


@pytest.fixture
def asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each connection counts as idle, and has little time to answer."""
    monkeypatch.setattr(rested, "RESTED_S", 0.0)
    monkeypatch.setattr(rested, "_ASK_S", ContextVar("asked in a test", default=0.5))
