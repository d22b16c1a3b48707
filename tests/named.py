"""Which of the tests that must run didn't."""

from __future__ import annotations

from collections.abc import Iterable


def unmet(named: str, passed: Iterable[str]) -> list[str]:
    """The lines of `named` that are part of no passed test's id. Empty lines and those with # don't count."""
    ids = list(passed)
    lines = (line.strip() for line in named.splitlines())
    return [line for line in lines if line and not line.startswith("#") and not any(line in one for one in ids)]
