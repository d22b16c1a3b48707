"""Which of the tests that must run didn't."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["Named", "unmet"]


class Named:
    """Watches what becomes of every test; fails a run in which one that a file names didn't run and pass."""

    def __init__(self, path: Path) -> None:
        self._named = path.read_text(encoding="utf-8")
        self._passed: set[str] = set()
        self._unmet: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._unmet = unmet(self._named, self._passed)
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
