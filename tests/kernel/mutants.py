"""Plays the corpus against mutated kernels, each in a fork of one process that has imported all that isn't mutated.

Run as a module it reads mutations, a line of JSON each, and answers each with a line of JSON: the exit code of the corpus, and
what it wrote about a failure.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, Self

import tests.kernel.corpus  # noqa: F401 -- the forks find all that it imports, but for what may depend on a mutated module

__all__ = ["Mutants"]

_ROOT = Path(__file__).parents[2]


class Mutants:
    """The process that plays mutants, one after another."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kernel.mutants"],
            cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate(timeout=300)

    def play(self, module: str = "", text: str = "", first: str = "") -> tuple[int, str]:
        """The exit code of the corpus, and what it wrote, where the source of `module` is `text`; the check `first` goes ahead."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"module": module, "text": text, "first": first}) + "\n")
        self._process.stdin.flush()
        code, told = json.loads(self._process.stdout.readline())
        return code, told


class _Mutation(importlib.abc.MetaPathFinder):
    """Finds one module with another text."""

    def __init__(self, module: str, text: str) -> None:
        self._module, self._text = module, text

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self._module:
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec
        assert spec.origin
        spec.loader = _Mutated(name, spec.origin, self._text)
        return spec


class _Mutated(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec")


def _forked(mutation: dict[str, Any]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as told:
        child = os.fork()
        if child == 0:
            os.dup2(told.fileno(), 1)
            os.dup2(told.fileno(), 2)
            _end_with_the_corpus(mutation)
        _, status = os.waitpid(child, 0)
        told.seek(0)
        return os.waitstatus_to_exitcode(status), told.read().decode(errors="replace")


def _end_with_the_corpus(mutation: dict[str, Any]) -> None:
    code = 1
    try:
        if mutation["module"]:
            sys.meta_path.insert(0, _Mutation(mutation["module"], mutation["text"]))
        code = importlib.import_module("tests.kernel.corpus").play(mutation["first"])
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    for name in [name for name in sys.modules if name.partition(".")[0] in ("seriatim", "tests")]:
        del sys.modules[name]
    for line in sys.stdin:
        print(json.dumps(_forked(json.loads(line))), flush=True)  # noqa: T201 -- it is the answer
