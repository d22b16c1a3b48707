"""The outbox of one destination whose port can't be written: finished batches, kept in the checkpoint.

    <checkpoint>/waiting/
    └── fulfilment/               a port of its own kind, see `port.py`
        ├── .seriatim
        └── batch=0000000007/
            ├── .about.json       how many rows, since when, and why
            └── part-00000.json   the files as the port will have them

A batch is put here and removed in one step, so after a kill it is here whole or not at all. It is removed only after
its port has it; after a kill between these two steps it is delivered once more: a port of files then replaces it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from seriatim.errors import CheckpointMismatch, EnvironmentProblem
from seriatim.pipeline.text.counted import counted
from seriatim.spark.deliver.port import Port
from seriatim.spark.state.checkpoint_files import write_synced

_ABOUT = ".about.json"
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Kept:
    batch: int
    rows: int
    #: The time when its destination began to wait, in seconds since 1970.
    since: float
    reason: str
    #: The names of its files' columns, in their order; none: the format names them.
    columns: tuple[str, ...] = ()
    #: The options of the format with which it was written.
    options: Mapping[str, str] = field(default_factory=dict)


def folder_name(destination: str) -> str:
    """A name for a folder, different for every destination, whatever its name."""
    plain = quote(destination, safe=" ").replace(".", "%2E", 1 if destination.startswith(".") else 0)
    if len(plain) <= _LONGEST:
        return plain
    return f"{plain[: _LONGEST - 33]}+{hashlib.sha256(destination.encode()).hexdigest()[:32]}"


def kept_in(folder: Path) -> tuple[str, tuple[Kept, ...]]:
    """The destination of an outbox's folder, and the batches that wait there, oldest first. Changes nothing. A run may put batches in and
    take them away meanwhile.
    """
    port = Port("", folder, "")
    destination = str((port.manifest() or {}).get("destination", folder.name))
    entries = (_about_if_there(port, batch) for batch in port.batches())
    return destination, tuple(entry for entry in entries if entry is not None)


def _about_if_there(port: Port, batch: int) -> Kept | None:
    """A waiting batch that was listed; None: a run has taken it away since."""
    try:
        return _about(port, batch)
    except CheckpointMismatch:
        # It may be back: the folder of a batch that is being replaced is missing for a moment.
        return _about(port, batch) if port.folder(batch).exists() else None


def _about(port: Port, batch: int) -> Kept:
    file = port.folder(batch) / _ABOUT
    try:
        content = json.loads(file.read_bytes())
        columns, options = tuple(content["columns"]), dict(content["options"])
        return Kept(batch, content["rows"], content["since"], content["reason"], columns, options)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise CheckpointMismatch("the file is damaged", where=str(file), remedy="restore it") from error


class Outbox:
    """The batches that wait for one destination. One thread puts them in while another takes them away."""

    def __init__(self, port: Port, pipeline: str, identity: str) -> None:
        #: The folder of these batches, in the format of the destination's port.
        self.port = port
        self._pipeline = pipeline
        self._identity = identity
        self._claimed = False
        self._lock = threading.Lock()
        #: The waiting batches, oldest first; replaced, never changed.
        self.kept: tuple[Kept, ...] = ()
        if port.root.exists():
            self._open()

    def _open(self) -> None:
        try:
            if self.port.is_signed():
                self.port.check_fence()
            self.port.sweep()
            self.kept = tuple(_about(self.port, batch) for batch in self.port.batches())
            if not self.kept:
                shutil.rmtree(self.port.root)  # an empty port may have another format from before
                return
        except OSError as error:
            raise self._broken(error) from error
        try:
            self._claim()
        except CheckpointMismatch as error:
            problem = f"waiting for {self.port.destination}: {counted(len(self.kept), 'batch')} in another format"
            remedy = "give the port the format that it had until they are delivered"
            raise CheckpointMismatch(problem, where=str(self.port.root), remedy=remedy) from error

    def _claim(self) -> None:
        if self._claimed:
            return
        try:
            self.port.claim(self._pipeline, self._identity)
        except EnvironmentProblem as error:
            raise self._broken(
                error.__cause__ if isinstance(error.__cause__, OSError) else OSError(str(error))
            ) from error
        self._claimed = True

    def begin(self) -> None:
        self._claim()
        self.port.begin()

    def put(self, kept: Kept, parts: Iterable[tuple[str, str]]) -> None:
        """Keep a batch; it replaces an earlier copy of itself."""
        listed = list(parts)
        self._claim()
        with self._lock:
            try:
                if listed:
                    write_synced(self.port.staging / _ABOUT, json.dumps(asdict(kept)).encode())
                    listed.append((_ABOUT, _ABOUT))
                self.port.publish(kept.batch, listed)
            except OSError as error:
                raise self._broken(error) from error
            remaining = [batch for batch in self.kept if batch.batch != kept.batch]
            self.kept = tuple(sorted([*remaining, *([kept] if listed else [])], key=lambda batch: batch.batch))

    def drop(self, kept: Kept) -> None:
        """Remove a batch that was delivered, unless it was replaced in the meantime."""
        with self._lock:
            if not any(batch is kept for batch in self.kept):
                return
            try:
                self.port.check_fence()
                self.port.remove(kept.batch)
            except OSError as error:
                raise self._broken(error) from error
            self.kept = tuple(batch for batch in self.kept if batch is not kept)

    def _broken(self, error: OSError) -> EnvironmentProblem:
        return EnvironmentProblem(
            f"the checkpoint can't be written: {error.strerror or error}",
            where=str(error.filename or self.port.root),
            remedy="mend that; the next run goes on where this one stopped",
        )
