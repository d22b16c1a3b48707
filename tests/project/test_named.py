"""The list of tests that must run: a test of that name that is skipped, failed or gone is told."""

from __future__ import annotations

from pathlib import Path

from tests.named import unmet

NAMED = "# why\n\ntests/a.py::test_one\ntest_two\n"


def test_all_have_passed():
    assert unmet(NAMED, ["tests/a.py::test_one[3]", "tests/b.py::test_two"]) == []


def test_one_has_not():
    assert unmet(NAMED, ["tests/b.py::test_two"]) == ["tests/a.py::test_one"]
    assert unmet(NAMED, []) == ["tests/a.py::test_one", "test_two"]


def test_the_list_names_tests_that_are_there():
    root = Path(__file__).parents[2]
    for line in (root / "tests/named.txt").read_text(encoding="utf-8").splitlines():
        if "::" in line:
            path, name = line.split("::")[:2]
            assert f"def {name.split('[')[0]}(" in (root / path).read_text(encoding="utf-8"), line
