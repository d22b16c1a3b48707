"""What a run tells of itself: its seed, the figures of its long tests, and where its time went beside what each folder may take."""

from __future__ import annotations

import tomllib
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from tests.outcome import Outcome
from tests.soak import SEED, SIZE, seed, size

__all__ = ["FIGURES", "Summary", "folder_of"]

FIGURES = "figures"
_REST = "the rest"


class Summary:
    """Tells it.

    Args:
        outcome: what became of every test.
        budget: a TOML file with the seconds that each folder may take; None: no table is printed.
    """

    def __init__(self, outcome: Outcome, budget: Path | None) -> None:
        self._outcome = outcome
        self._budget = tomllib.loads(budget.read_text(encoding="utf-8"))["all"] if budget else None
        self._figures: list[str] = []

    def pytest_report_header(self) -> str:
        return f"size: {size()} ({SIZE}); seed: {seed()} ({SEED}={seed()} repeats it)"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
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
        spent_by, tests_by = defaultdict[str, float](float), Counter[str]()
        for file, seconds in self._outcome.spent.items():
            spent_by[folder_of(file, budget)] += seconds
            tests_by[folder_of(file, budget)] += self._outcome.tests[file]
        rows = [(f"{'folder':24} {'tests':>6} {'spent':>7} {'budget':>7}", False)]
        for folder, spent in sorted(spent_by.items(), key=lambda one: -one[1]):
            most = budget.get(folder)
            is_over = most is not None and spent > most
            text = f"{folder:24} {tests_by[folder]:>6} {spent:>7.0f} {'-' if most is None else most:>7}"
            rows.append((text + (f"  over by {spent - most:.0f}" if is_over and most else ""), is_over))
        total, most = sum(spent_by.values()), sum(budget.values())
        rows.append((f"{'all':24} {tests_by.total():>6} {total:>7.0f} {most or '-':>7}", False))
        return rows


def folder_of(file: str, budget: dict[str, int]) -> str:
    """The longest name in the budget that a file's path begins with."""
    path = PurePosixPath(file)
    names = [str(path), *map(str, path.parents)]
    return next((name for name in names if name in budget), _REST)
