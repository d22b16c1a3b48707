"""Moments as people read them."""

from __future__ import annotations

from datetime import datetime


def local(at: datetime) -> str:
    """A moment in this machine's time zone, to the second: ``2026-11-30 07:15:00+00:00``."""
    return at.astimezone().isoformat(" ", "seconds")
