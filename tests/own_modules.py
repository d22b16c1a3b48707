"""Work in a folder with modules of its own, although this process may have imported others of their names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def work_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change to a folder, and let its modules be imported from there, until the test ends."""
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    for file in folder.glob("*.py"):
        monkeypatch.delitem(sys.modules, file.stem, raising=False)
