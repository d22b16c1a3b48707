"""A message box for each test: `seriatim_box` has a database of its own, with what `define` makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import seriatim as sq
from publish import define

pytest_plugins = ["seriatim.testing.pytest"]


@pytest.fixture(scope="session")
def seriatim_define() -> Callable[[sq.MessageBox], None]:
    """Defines what each box has."""
    return define
