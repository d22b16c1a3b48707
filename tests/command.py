"""``seriatim`` as a command, the way a user starts it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

import seriatim
from seriatim.cli.main import main
from seriatim.spark.session.builder import is_running
from tests.classes import sharing

#: Small queries gain nothing from code that is optimised well; to optimise it takes a quarter of the processor's time, and
#: to start a collector of several threads some more. Without the optimising compiler Java keeps 48 MB of compiled code, of which a few
#: queries fill three quarters: then it throws away code and compiles it again. Young objects get half of a larger heap: fewer collections.
_QUICK_JAVA = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:InitialRAMPercentage=4 -XX:NewRatio=1"
)


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


def run_pipeline(line: str, code: int = 0) -> str:
    """What a command prints that needs Spark: in this process if it has a session, which takes a fifth of the time, else in its own."""
    words = shlex.split(line)[1:]
    if is_running():
        inside = CliRunner().invoke(main, words)
        assert inside.exit_code == code, inside.output
        return inside.stdout
    done = called(Path.cwd(), *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout
