"""Which tests one worker of a parallel run has to keep, which come first, and which are dear.

Whatever isn't named here may run anywhere and beside anything.
"""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["Shares"]

#: The tests that share a worker's one Spark session, in two shares, and those that kill processes, which don't
#: run beside each other. They are the longest, so they begin first, each on a worker of its own; only what tells much comes
#: before the second of them.
_SPARK, _FAULTS, _SPARK_ELSEWHERE = "spark", "faults", "spark elsewhere"
_TELLING = "telling"
_FIRST = (_SPARK, _TELLING, _FAULTS, _SPARK_ELSEWHERE)


class Shares:
    """Gives each test its share, a group of pytest-xdist, and the marks of whole kinds: `faults` and `spark`, which are `dear`, and so are
    the how-tos' code blocks: the tutorials stand for them.

    `make test` runs those that are "not dear or telling".

    Args:
        tests: the folder of all tests.
    """

    def __init__(self, tests: Path) -> None:
        self._faults, self._spark, self._how_tos = tests / "faults", tests / "spark", tests.parent / "docs" / "how-to"

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Before pytest-xdist looks for groups."""
        if item.path.is_relative_to(self._faults):
            item.add_marker(pytest.mark.faults)
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        is_kind = item.get_closest_marker("spark") or item.get_closest_marker("faults")
        if is_kind or item.path.is_relative_to(self._how_tos):
            item.add_marker(pytest.mark.dear)
        share = self._share(item)
        if share is not None:
            item.add_marker(pytest.mark.xdist_group(share))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The long shares first, and what tells much, each in its own order."""
        items.sort(key=_place)  # stable

    def _share(self, item: pytest.Item) -> str | None:
        if item.get_closest_marker("spark"):
            # The few of `make test` need one session.
            return _SPARK if item.path.is_relative_to(self._spark) or _tells(item) else _SPARK_ELSEWHERE
        if item.get_closest_marker("faults"):
            return _FAULTS
        if not isinstance(item, pytest.Function) or _shares_a_fixture(item):
            return str(item.path.relative_to(item.config.rootpath))  # a document's examples follow one another, too
        return None


def _place(item: pytest.Item) -> tuple[int, bool]:
    mark = item.get_closest_marker("xdist_group")
    share = mark.args[0] if mark and mark.args[0] in _FIRST else _TELLING if _tells(item) else None
    return _FIRST.index(share) if share else len(_FIRST), not _tells(item)


def _tells(item: pytest.Item) -> bool:
    return item.get_closest_marker("telling") is not None


def _shares_a_fixture(item: pytest.Function) -> bool:
    found = item._fixtureinfo.name2fixturedefs.values()
    return any(one.scope in ("module", "class", "package") for each in found for one in each)
