"""What a run tells of itself: its seed, the figures of its long tests, and where its time went beside what each folder may take."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.soak import SEED, seed

__all__ = ["FIGURES", "Summary", "folder_of"]

FIGURES = "figures"
_REST = "the rest"


class Summary:
    """Adds up the time of tests by folder; with several workers it is the sum of what each has spent.

    Args:
        budget: a TOML file with the seconds that each folder may take; None: no table is printed.
    """

    def __init__(self, budget: Path | None) -> None:
        self._budget = tomllib.loads(budget.read_text(encoding="utf-8")) if budget else None
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._tests: defaultdict[str, int] = defaultdict(int)
        self._figures: list[str] = []

    def pytest_report_header(self) -> str:
        return f"seed: {seed()} ({SEED}={seed()} repeats it)"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = folder_of(report.nodeid, self._budget or {})
        self._spent[folder] += report.duration
        if report.when == "call":
            self._tests[folder] += 1
            self._figures += [f"{report.nodeid}: {text}" for name, text in report.user_properties if name == FIGURES]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._figures:
            terminalreporter.section("figures")
            for line in self._figures:
                terminalreporter.write_line(line)
        if self._budget is not None:
            terminalreporter.section("time by folder, in seconds")
            for line, is_over in self.table():
                terminalreporter.write_line(line, red=is_over)
        if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
            terminalreporter.write_line(f"{SEED}={seed()} takes the same chances again")

    def table(self) -> list[tuple[str, bool]]:
        """A line for each folder, the most expensive first, and whether it is over its budget."""
        budget = self._budget or {}
        rows = [(f"{'folder':24} {'tests':>6} {'spent':>7} {'budget':>7}", False)]
        for folder, spent in sorted(self._spent.items(), key=lambda one: -one[1]):
            most = budget.get(folder)
            is_over = most is not None and spent > most
            text = f"{folder:24} {self._tests[folder]:>6} {spent:>7.0f} {'-' if most is None else most:>7}"
            rows.append((text + (f"  over by {spent - most:.0f}" if is_over and most else ""), is_over))
        total, most = sum(self._spent.values()), sum(budget.values())
        rows.append((f"{'all':24} {sum(self._tests.values()):>6} {total:>7.0f} {most or '-':>7}", False))
        return rows


def folder_of(nodeid: str, budget: dict[str, int]) -> str:
    """The longest name in the budget that a test's path begins with."""
    path = PurePosixPath(nodeid.split("::", maxsplit=1)[0])
    names = [str(path), *map(str, path.parents)]
    return next((name for name in names if name in budget), _REST)
