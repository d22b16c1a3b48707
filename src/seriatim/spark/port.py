"""A port of files: a folder to which each micro-batch adds one folder, in one step.

    out/orders/
    ├── .seriatim                     whose folder this is
    ├── .staging/                     what isn't complete; gone when nothing is written
    ├── batch=0000000000/
    │   ├── part-00000.json
    │   └── part-00001.json
    └── batch=0000000003/             a batch that brings nothing here writes nothing

Batches in order of name, and in each its files in order of name, give every group in order. Names that
begin with a dot are left out by Spark, pyarrow and the shell's ``*``, so each of them sees every row once.

*Exactly once.* A batch's files are written and synced under ``.staging`` and renamed into place as one
folder. A process that is killed before the rename leaves only staging, which the next batch removes. One
killed after it left a batch that Spark runs again, because it was not committed; the same batch is then
replaced: the old folder is renamed away, the new one into place, the old one removed. Killed between those
two renames, the batch is missing until the replay, never there twice.

Owns the folder and its steps; the files are written by `parts.py`, in the workers.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seriatim.errors import CheckpointMismatch, EnvironmentProblem

__all__ = ["Port", "sync_folder", "write_synced"]

_MANIFEST = ".seriatim"
_STAGING = ".staging"
_LAYOUT = 1


@dataclass(frozen=True, slots=True)
class Port:
    """A folder that one destination of one pipeline writes to.

    Args:
        destination: its name.
        root: the folder, absolute.
        format: json, csv or parquet.
        options: the format's options.
    """

    destination: str
    root: Path
    format: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def staging(self) -> Path:
        """Where the files of the batch in hand are written."""
        return self.root / _STAGING

    def folder(self, batch: int) -> Path:
        """Where the files of a batch are read."""
        return self.root / f"batch={batch:010d}"

    def claim(self, pipeline: str, identity: str) -> None:
        """Make the folder this pipeline's own, or see that it is.

        Args:
            pipeline: the pipeline's name, for people.
            identity: what tells one checkpoint from another.

        Raises:
            CheckpointMismatch: it holds batches of another checkpoint, or of another format.
            EnvironmentProblem: it can't be written.
        """
        wanted = {
            "layout": _LAYOUT,
            "pipeline": pipeline,
            "identity": identity,
            "destination": self.destination,
            "format": self.format,
        }
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            found = self._manifest()
            if found is None and next(self.root.glob("batch=*"), None) is not None:
                raise CheckpointMismatch(
                    "the folder holds batches, but doesn't say of what",
                    where=str(self.root),
                    remedy="deliver to another one",
                )
            if found is None:
                write_synced(self.root / _MANIFEST, json.dumps(wanted, indent=2).encode())
        except OSError as error:
            raise EnvironmentProblem(f"can't deliver: {error.strerror}", where=str(self.root)) from error
        for key, what in (
            ("layout", "layout"),
            ("identity", "checkpoint"),
            ("destination", "destination"),
            ("format", "format"),
        ):
            if found is not None and found.get(key) != wanted[key]:
                raise CheckpointMismatch(
                    f"the folder holds batches of another {what}: pipeline {found.get('pipeline')!r}, "
                    f"destination {found.get('destination')!r}, {found.get('format')}",
                    where=str(self.root),
                    remedy="deliver to another folder, or remove this one if it is not needed",
                )

    def _manifest(self) -> dict[str, object] | None:
        try:
            text = (self.root / _MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CheckpointMismatch(
                "the file is damaged", where=str(self.root / _MANIFEST), remedy="restore or remove it"
            )
        return found

    def begin(self) -> None:
        """Remove what a batch that didn't end left behind."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def publish(self, batch: int, parts: Iterable[tuple[str, str]]) -> None:
        """Put a batch in place, in place of itself if it was there.

        Args:
            batch: its id.
            parts: (name under `staging`, name in the folder) of each file of the batch; others under
                `staging` are of tasks that failed.
        """
        complete, replaced = self.staging / "complete", self.staging / "replaced"
        listed = list(parts)
        if listed:
            complete.mkdir()
            for staged, name in listed:
                (self.staging / staged).rename(complete / name)
            sync_folder(complete)
        final = self.folder(batch)
        if final.exists():
            self.staging.mkdir(exist_ok=True)
            final.rename(replaced)
        if listed:
            complete.rename(final)
        if listed or replaced.exists():
            sync_folder(self.root)
        shutil.rmtree(self.staging, ignore_errors=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a small file so that after a crash it holds the old content or the new, never half of one."""
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames in a folder last."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
