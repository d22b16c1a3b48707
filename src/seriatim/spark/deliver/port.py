"""A port of files: a folder to which each micro-batch adds one folder, in one step.

    out/orders/
    ├── .seriatim                     whose folder this is
    ├── .staging-7/                   what isn't complete; gone when nothing is written
    ├── .staging-7-carried/           likewise, of a batch that waited and is copied here
    ├── batch=0000000000/
    │   ├── part-00000.json
    │   └── part-00001.json
    └── batch=0000000003/             a batch that brings nothing here writes nothing

A reader that takes batches in order of name, and the files of a batch in order of name, gets every group in order.
Spark, pyarrow and the shell's ``*`` ignore names that begin with a dot, so each of them sees every row once.

*Exactly once.* A batch's files are written and synced under ``.staging-…`` and renamed into place as one
folder. Waiting rows are copied by another thread than the one that begins the next batch, so it has a staging of its own. A
process that is killed before the rename leaves only staging, which the next batch removes. If it is killed
after the rename, Spark runs the batch again, because it was not committed; the batch is then
replaced: the old folder is renamed away, the new folder into place, and the old folder removed. After a kill between
these two renames, the batch is missing until the replay, but never there twice.

*Fencing.* A driver may have lost its checkpoint to another one without knowing it: over a shared folder, on a machine that stood still. A
run writes its number into the folder when it claims it, and then removes what other runs have staged. A batch is
renamed into place from the run's own staging, after a look at that number: a driver that was superseded before the look sees
it, and of one that was superseded after it the files are gone.

Batches that wait for a port that can't be written (`outbox.py`) lie in a folder of the same kind.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from seriatim.errors import CheckpointMismatch, EnvironmentProblem
from seriatim.spark.state.checkpoint_files import sync_folder, write_synced

_MANIFEST = ".seriatim"
_STAGING = ".staging"
_REMOVED = ".removed-"
_LAYOUT = 1
_COPY_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Port:
    """A folder that one destination of one pipeline writes to."""

    destination: str
    root: Path
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    #: The number of the run that writes, higher than that of each run before it; see above.
    fence: int = 0

    @property
    def staging(self) -> Path:
        """The folder where the files of the present batch are written."""
        return self.root / (f"{_STAGING}-{self.fence}" if self.fence else _STAGING)

    @property
    def _carried(self) -> Path:
        """The folder to which a batch that waited is copied."""
        return self.root / f"{self.staging.name}-carried"

    def folder(self, batch: int) -> Path:
        return self.root / f"batch={batch:010d}"

    def claim(self, pipeline: str, identity: str) -> None:
        given = {"pipeline": pipeline, "identity": identity, "destination": self.destination, "format": self.format}
        wanted = {"layout": _LAYOUT, **given}
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            manifest = self.manifest()
            if manifest is not None:
                self._check_owner(manifest, wanted)
            elif next(self.root.glob("batch=*"), None) is not None:
                raise CheckpointMismatch(
                    "the folder has batches, but no manifest that names their pipeline",
                    where=str(self.root),
                    remedy="deliver to another folder",
                )
            if manifest is None or self._is_superseding(manifest):
                self._sign(wanted | ({"fence": self.fence} if self.fence else {}))
        except OSError as error:
            raise EnvironmentProblem(f"can't deliver: {error.strerror}", where=str(self.root)) from error

    def _check_owner(self, manifest: Mapping[str, object], wanted: Mapping[str, object]) -> None:
        differs = [key for key in wanted if manifest.get(key) != wanted[key]]
        key = next((key for key in ("layout", "identity", "destination", "format") if key in differs), None)
        if key is None:
            return
        remedy = "deliver to another folder, or remove this one if it is not needed"
        if key == "identity" and not {"pipeline", "destination"} & {*differs}:
            remedy = (
                "if the checkpoint was lost, restore it from a backup; to deliver everything anew, remove this folder, or "
                "deliver to another one"
            )
        raise CheckpointMismatch(
            f"the folder has batches of another {'checkpoint' if key == 'identity' else key}: pipeline {manifest.get('pipeline')!r}, "
            f"destination {manifest.get('destination')!r}, {manifest.get('format')}",
            where=str(self.root),
            remedy=remedy,
        )

    def check_fence(self) -> None:
        """Check that no later run has claimed the folder."""
        manifest = self.manifest()
        if manifest is None:
            # An unmounted disk may leave its folder behind: empty, and not the port.
            (self.root / _MANIFEST).stat()
        else:
            self._is_superseding(manifest)

    def _is_superseding(self, manifest: Mapping[str, object]) -> bool:
        """Return whether an earlier run made the last claim of the folder. Raises `CheckpointMismatch` if a later run made it."""
        last = manifest.get("fence", 0)
        if not isinstance(last, int) or last > self.fence:
            raise CheckpointMismatch(
                "a later run of this pipeline has taken over",
                where=str(self.root),
                remedy="let that run go on; stop it first, if this one is to",
            )
        return last < self.fence

    def _sign(self, manifest: Mapping[str, object]) -> None:
        """Write the folder's owner, and then remove what other runs have staged."""
        write_synced(self.root / _MANIFEST, json.dumps(manifest, indent=2).encode())
        for staging in self.root.glob(f"{_STAGING}*"):
            if staging not in (self.staging, self._carried):
                shutil.rmtree(staging, ignore_errors=True)

    def manifest(self) -> dict[str, object] | None:
        """Return what the folder says of its owner; None: nothing. Raises `CheckpointMismatch` if it is damaged."""
        try:
            text = (self.root / _MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        try:
            manifest = json.loads(text)
        except ValueError:
            manifest = None
        if not isinstance(manifest, dict):
            raise CheckpointMismatch(
                "the file is damaged", where=str(self.root / _MANIFEST), remedy="restore or remove it"
            )
        return manifest

    def is_signed(self) -> bool:
        return (self.root / _MANIFEST).exists()

    def batches(self) -> list[int]:
        names = [path.name.removeprefix("batch=") for path in self.root.glob("batch=*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def disk(self) -> int:
        """The number of the file system that the folder is on, or would be."""
        for folder in (self.root, *self.root.parents):
            with suppress(FileNotFoundError, NotADirectoryError):
                return folder.stat().st_dev
        raise FileNotFoundError(self.root)

    def begin(self) -> None:
        """Remove the remains of an unfinished batch."""
        shutil.rmtree(self.staging, ignore_errors=True)

    def take(self, batch: int, folder: Path) -> None:
        """Put a copy of a finished batch in place."""
        shutil.rmtree(self._carried, ignore_errors=True)
        self._carried.mkdir()
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        for name in names:
            with (folder / name).open("rb") as source, (self._carried / name).open("wb") as copy:
                shutil.copyfileobj(source, copy, _COPY_BYTES)
                copy.flush()
                os.fsync(copy.fileno())
        self._publish(self._carried, batch, [(name, name) for name in names])

    def publish(self, batch: int, parts: Iterable[tuple[str, str]]) -> None:
        """Put a batch in place; it replaces an earlier copy of itself."""
        self._publish(self.staging, batch, list(parts))

    def _publish(self, staging: Path, batch: int, parts: Sequence[tuple[str, str]]) -> None:
        # Before the look, and never after it: a later run removes the folder when it claims the port, and each step then fails.
        staging.mkdir(exist_ok=True)
        self.check_fence()
        complete, replaced = staging / "complete", staging / "replaced"
        if parts:
            complete.mkdir()
            for staged, name in parts:
                (staging / staged).rename(complete / name)
            sync_folder(complete)
        final = self.folder(batch)
        if final.exists():
            final.rename(replaced)
        if parts:
            complete.rename(final)
        if parts or replaced.exists():
            sync_folder(self.root)
        shutil.rmtree(staging, ignore_errors=True)

    def remove(self, batch: int) -> None:
        """Remove a batch in one step, so that readers never see half of it. Allowed while another batch is being written."""
        removed = self.root / f"{_REMOVED}{batch:010d}"
        self.folder(batch).rename(removed)
        sync_folder(self.root)
        shutil.rmtree(removed, ignore_errors=True)

    def sweep(self) -> None:
        """Remove the rests of batches that a killed process was writing or removing."""
        for staging in self.root.glob(f"{_STAGING}*"):
            shutil.rmtree(staging, ignore_errors=True)
        for removed in self.root.glob(f"{_REMOVED}*"):
            shutil.rmtree(removed, ignore_errors=True)
