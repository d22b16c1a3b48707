"""Parties that don't answer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seriatim.errors import Unavailable
from tests.regions.two import Two

__all__ = ["away"]


@contextmanager
def away(two: Two, *parties: str) -> Iterator[None]:
    """These parties can't be reached: ``a``, ``b`` or ``journal``."""
    found = [two.regions._journal if one == "journal" else two.regions._boxes[one] for one in parties]
    opened = [(one._open, one._resource) for one in found]

    def fails() -> None:
        raise Unavailable("cut off")

    for one in found:
        one._resource, one._open = None, fails
    yield
    for one, (open_, resource) in zip(found, opened, strict=True):
        one._open, one._resource, one._away_until = open_, resource, 0.0
