"""Which of the tests that must run didn't."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.outcome import Outcome

__all__ = ["Named", "unmet"]


class Named:
    """Fails a run in which a test that a file names didn't run and pass.

    Args:
        path: the file.
        outcome: what became of every test.
    """

    def __init__(self, path: Path, outcome: Outcome) -> None:
        self._named, self._outcome = path.read_text(encoding="utf-8"), outcome
        self._unmet: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._unmet = unmet(self._named, self._outcome.passed)
        if self._unmet and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for name in self._unmet:
            terminalreporter.write_line(f"NAMED BUT NOT PASSED: {name}", red=True)


def unmet(named: str, passed: Iterable[str]) -> list[str]:
    """The lines of `named` that are part of no passed test's id. Empty lines and those with # don't count."""
    ids = list(passed)
    lines = (line.strip() for line in named.splitlines())
    return [line for line in lines if line and not line.startswith("#") and not any(line in one for one in ids)]
