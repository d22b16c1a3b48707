"""Every mutation of the kernel is caught: a rule that can be broken unseen is a rule without a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import seriatim
from tests.kernel.corpus import CAUGHT
from tests.kernel.mutations import MUTATIONS, Mutation

_PACKAGE = Path(seriatim.__file__).parent
_ROOT = Path(__file__).parents[2]
_NEEDED = ("kernel", "pipeline")


def copy_of_the_kernel(folder: Path) -> Path:
    """The package as far as the kernel needs it, to be changed."""
    copy = folder / "seriatim"
    for part in _NEEDED:
        shutil.copytree(_PACKAGE / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
    for module in ("__init__.py", "errors.py"):
        shutil.copy(_PACKAGE / module, copy / module)
    return copy


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    """The corpus against the package in the folder."""
    path = os.pathsep.join([str(folder), str(_ROOT)])
    return subprocess.run(
        [sys.executable, "-B", "-m", "tests.kernel.corpus"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_kernel_itself_passes(tmp_path: Path) -> None:
    copy_of_the_kernel(tmp_path)
    played = play(tmp_path)
    assert played.returncode == 0, played.stderr


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    file = copy_of_the_kernel(tmp_path) / "kernel" / mutation.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, "the mutation's text must occur exactly once; bring it up to date"
    mutated = text.replace(mutation.old, mutation.new)
    compile(mutated, str(file), "exec")
    file.write_text(mutated, encoding="utf-8")
    played = play(tmp_path)
    assert played.returncode == CAUGHT, f"survived: {mutation.rule}\n{played.stderr}"
