"""Which tests one worker of a parallel run has to keep, and which come first.

Whatever isn't named here may run anywhere and beside anything.
"""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["Shares"]

#: The tests that share a worker's one Spark session, in two shares, and those that kill processes, which don't
#: run beside each other. They are the longest, so they begin first, each on a worker of its own.
_SPARK, _FAULTS, _SPARK_ELSEWHERE = "spark", "faults", "spark elsewhere"
_FIRST = (_SPARK, _FAULTS, _SPARK_ELSEWHERE)


class Shares:
    """Gives each test its share, a group of pytest-xdist, and the marks that `make quick` leaves out: `faults` and `spark`.

    Args:
        tests: the folder of all tests.
    """

    def __init__(self, tests: Path) -> None:
        self._faults, self._spark = tests / "faults", tests / "spark"

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Before pytest-xdist looks for groups."""
        if item.path.is_relative_to(self._faults):
            item.add_marker(pytest.mark.faults)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        share = self._share(item)
        if share is not None:
            item.add_marker(pytest.mark.xdist_group(share))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The long shares first, each in its own order."""
        items.sort(key=_place)  # stable

    def _share(self, item: pytest.Item) -> str | None:
        if item.get_closest_marker("spark"):
            return _SPARK if item.path.is_relative_to(self._spark) else _SPARK_ELSEWHERE
        if item.get_closest_marker(_FAULTS):
            return _FAULTS
        if not isinstance(item, pytest.Function) or _shares_a_fixture(item):
            return str(item.path.relative_to(item.config.rootpath))  # a document's examples follow one another, too
        return None


def _place(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    return _FIRST.index(mark.args[0]) if mark and mark.args[0] in _FIRST else len(_FIRST)


def _shares_a_fixture(item: pytest.Function) -> bool:
    found = item._fixtureinfo.name2fixturedefs.values()
    return any(one.scope in ("module", "class", "package") for each in found for one in each)
