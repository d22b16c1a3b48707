"""`Pipelines`: those whose files the console was given. Spark is imported with the first page that shows one, and never started.

Where Spark isn't installed, the console shows the box, and says in place of the pipelines what is missing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from seriatim.errors import MissingExtra, NotFound, SeriatimError, UsageError, shown
from seriatim.extras import need

if TYPE_CHECKING:  # it imports Spark, which may be missing
    from seriatim.operations.pipelines.found import FoundPipeline


class Pipelines:
    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._files: dict[str, Path] = {}
        self._roots: dict[str, Path] = {}
        self._lock = threading.Lock()
        if not files:
            return
        from seriatim.pipeline.files import pipeline_file  # noqa: PLC0415 -- what reads YAML, when it is needed

        for file in files:
            declared = pipeline_file.load(file)
            if declared.name in self._files:
                raise UsageError(
                    f"two pipelines are named {declared.name!r}", where=str(file), remedy="leave one of the files out"
                )
            self._files[declared.name] = file.absolute()
            self._roots[declared.name] = declared.checkpoint.absolute()

    @property
    def names(self) -> list[str]:
        return sorted(self._files)

    def find(self, name: str) -> FoundPipeline:
        if name not in self._files:
            raise NotFound(f"there is no pipeline {shown(name, 80)}", remedy="the console knows those of --pipelines")
        need("spark")
        from seriatim.operations.pipelines.found import find  # noqa: PLC0415 -- Spark is slow to import

        with self._lock:  # what reads YAML and imports a pipeline's functions isn't for several threads
            return find(self._files[name])

    def changes(self) -> Mapping[str, int]:
        """A number for each of them that is another one after a batch, a command or an answer."""
        found: dict[str, int] = {}
        for name, root in self._roots.items():
            total = 0
            for part in ("tally.json", "control", "operator-log"):
                try:
                    total += (root / part).stat().st_mtime_ns
                except OSError:
                    continue
            found[f"pipeline {name}"] = total
        return found

    def all(self) -> list[tuple[str, FoundPipeline | str]]:
        """Each by its name: as it has run, or why nothing is known of it."""
        found: list[tuple[str, FoundPipeline | str]] = []
        for name in self.names:
            try:
                found.append((name, self.find(name)))
            except SeriatimError as error:
                remedy = f" ({error.remedy})" if isinstance(error, MissingExtra) else ""
                found.append((name, f"{error.what}{remedy}"))
        return found
