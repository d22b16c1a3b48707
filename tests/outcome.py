"""What a run has brought: which tests passed, and how long those of each file took; with what the run's earlier part brought."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

__all__ = ["Outcome"]


class Outcome:
    """Counts, and hands on what it has counted.

    Args:
        path: a file with the outcome of the parts before this one, which gets this one's, too; None: this run has no parts.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path is not None and path.exists() else ""
        found = json.loads(text or "{}")
        self.passed: set[str] = set(found.get("passed", ()))
        #: Seconds of its tests, and their number, by file; with several workers it is the sum of what each has spent.
        self.spent = defaultdict[str, float](float, found.get("spent", {}))
        self.tests: Counter[str] = Counter(found.get("tests", {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.split("::", maxsplit=1)[0]
        self.spent[file] += report.duration
        if report.when == "call":
            self.tests[file] += 1
            if report.passed and not hasattr(report, "wasxfail"):
                self.passed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if self._path is not None:
            found = {"passed": sorted(self.passed), "spent": self.spent, "tests": self.tests}
            self._path.write_text(json.dumps(found), encoding="utf-8")
