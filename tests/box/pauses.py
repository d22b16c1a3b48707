"""Tests that wait for connections to be tried again and again wait less: all pauses are shorter by the same factor."""

from __future__ import annotations

import pytest
from psycopg_pool.base import AttemptWithBackoff

from seriatim.box.connection import connections

#: By how much: the pauses of a pool, and the time after which it begins with short ones again.
FASTER = 10


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for before the box, whose pool has the pauses of the moment in which it was made."""
    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", AttemptWithBackoff.INITIAL_DELAY / FASTER)
    monkeypatch.setattr(connections, "_TRY_S", connections._TRY_S / FASTER)
