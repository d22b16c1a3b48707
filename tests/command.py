"""``seriatim`` as a command, the way a user starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import seriatim
from tests.classes import sharing

#: Small queries gain nothing from code that is optimised well; to optimise it takes a quarter of the processor's time, and
#: to start a collector of several threads some more.
_QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def command(*arguments: str | Path) -> list[str]:
    """The words of a call."""
    return [sys.executable, "-m", "seriatim", *map(str, arguments)]


def environment() -> dict[str, str]:
    """Where the call finds this seriatim. Options of pytest are those of the run that calls, not of one that it starts."""
    java = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {_QUICK_JAVA}".strip()
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    shared = f"{java} {sharing(java)}".strip()
    return {**ours, "PYTHONPATH": str(Path(seriatim.__file__).parents[1]), "JAVA_TOOL_OPTIONS": shared}


def called(folder: Path, *arguments: str | Path, deadline_s: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Call it in a folder and wait for its end."""
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=deadline_s,
    )
