"""Runs the code in README.md and docs/ as tests.

Python blocks of one document run one after another in one namespace and in an empty folder of their own; the message
boxes that they open are closed at its end. Blocks ``sh`` that begin with ``openssl`` run between them. YAML blocks that begin with ``name:`` are whole pipeline files and must be
free of faults; the input folders that they name are made for them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

from seriatim import MessageBox
from seriatim.pipeline.files import pipeline_file
from tests import command
from tests.box.embedding import data_of, has_gone, put_box


class _PipelineFiles(CodeBlockParser):
    language = "yaml"

    def evaluate(self, example: Example) -> str | None:
        text = str(example.parsed)
        if not text.startswith("name:"):
            return None
        with _folder() as folder:
            for inbox in ("inbox", "export", "region-a", "region-b"):
                (folder / inbox).mkdir()
            (folder / "first_numbers.csv").write_text("group,next\nc1,7\n")
            (folder / "pipeline.yaml").write_text(text)
            faults = pipeline_file.check(
                folder / "pipeline.yaml",
                {
                    "OUT": "out",
                    "BOX_A": "postgresql://a/db",
                    "BOX_B": "postgresql://b/db",
                    "SERIATIM_JOURNAL": "postgresql://j/db",
                    "REGION": "a",
                },
            )
        return "\n".join(map(str, faults)) or None


class _Certificates(CodeBlockParser):
    language = "sh"

    def evaluate(self, example: Example) -> str | None:
        text = str(example.parsed)
        if not text.startswith("openssl"):
            return None
        done = subprocess.run(["/bin/sh", "-ec", text], check=False, capture_output=True, text=True)
        return done.stderr if done.returncode else None


@contextmanager
def _folder() -> Iterator[Path]:
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)


class _Page(Document):
    """A document whose code knows whether it opens a box in its folder, and whether it runs pipelines: both take long without preparation.

    In a tutorial there is no box, unless the page prepares one out of sight: its readers have done nothing before.
    """

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text, path)
        is_readers = "tutorials" in Path(path).parts and "_server = sq.MessageBox.open()" not in text
        self.namespace["_opens_a_box"] = "MessageBox.open()" in text and not is_readers
        self.namespace["_runs_pipelines"] = "run_pipeline(" in text
        self.namespace["run_pipeline"] = command.run_pipeline


@contextmanager
def _place(namespace: dict[str, Any]) -> Iterator[None]:
    """Where a document's code runs: at most an empty box is there, and the embedded PostgreSQL that it starts goes with it."""
    with _folder() as folder, pytest.MonkeyPatch.context() as environment:
        environment.delenv("SERIATIM_DSN", raising=False)
        if namespace["_opens_a_box"]:
            put_box(folder)
        yield
        for box in [value for value in namespace.values() if isinstance(value, MessageBox)]:
            box.close()
        if data_of(folder).exists() and not has_gone(folder):  # it writes there until it has ended
            pytest.fail("the embedded PostgreSQL of a document doesn't stop")


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_place"] = ExitStack()
    namespace["_place"].enter_context(_place(namespace))


def _leave(namespace: dict[str, Any]) -> None:
    namespace["_place"].close()


_documents = Sybil(
    setup=_enter,
    teardown=_leave,
    parsers=[_PipelineFiles(), _Certificates(), PythonCodeBlockParser(), SkipParser()],
    patterns=["README.md", "docs/**/*.md", "docs/*.md"],
    document_types={".md": _Page},
).pytest()


def pytest_configure(config: pytest.Config) -> None:
    """Notes of this user's data last as long as the run."""
    state = TemporaryDirectory(prefix="seriatim-state-")
    config.add_cleanup(state.cleanup)
    os.environ["XDG_STATE_HOME"] = state.name


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Pages that run pipelines go where the session is."""
    example = getattr(item, "example", None)
    if example is not None and example.document.namespace["_runs_pipelines"]:
        item.add_marker(pytest.mark.spark)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return _documents(file_path, parent)  # type: ignore[no-any-return]  # sybil's hook has no types
