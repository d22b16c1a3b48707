"""The control log of a pipeline: entries that its query takes in, in this order, and never twice.

    control/
    ├── 0000000001     the entries of one call: a line of JSON about the file, and then a line for each entry
    └── 0000000002

A file appears complete, under the next free number, and doesn't change. The query's offset says through which number it
has read. Its first line says which checkpoint it belongs to, its number, and the hash of its entries, so that a file that was
edited, moved or copied from elsewhere is noticed. An entry has a `kind` and what that kind needs.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch
from seriatim.spark.state.checkpoint_files import numbers_in, writing

#: The kind of an entry that lets time run out in all buckets.
FINISH = "finish"
#: The kind of an operator's command; see ``commands.py``.
COMMAND = "command"
#: The kind of an entry that does nothing but call all buckets.
WAKE = "wake"
KINDS = frozenset({FINISH, COMMAND, WAKE})
_RESTORE = "restore the checkpoint from a backup"


class ControlLog:
    def __init__(self, folder: Path, owner: str = "") -> None:
        self._folder = folder
        #: The id of the checkpoint to which it belongs; "": unknown, and not compared.
        self._owner = owner

    @classmethod
    def of_checkpoint(cls, folder: Path) -> ControlLog:
        """Return the log of a pipeline's checkpoint; a file of the checkpoint names the owner."""
        try:
            owner = json.loads((folder.parent / "pipeline.json").read_bytes())["id"]
        except (OSError, ValueError, KeyError, TypeError):
            owner = ""  # a run checks that file, and reports the damage
        return cls(folder, str(owner))

    def append(self, entries: Iterable[Mapping[str, Any]]) -> int:
        hidden = self._folder / f".{uuid.uuid4()}"
        lines = [json.dumps(entry) for entry in entries]
        with writing("the control log", self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            number = self.last() + 1
            while not self._place(hidden, number, lines):
                number += 1
        return number

    def last(self) -> int:
        """The number of the last file; 0: there is none."""
        return max(numbers_in(self._folder), default=0)

    def last_after(self, number: int) -> int:
        """Return the number of the last file that follows without a gap; costs a look at one file if there is none."""
        while self._file(number + 1).exists():
            number += 1
        return number

    def read(self, after: int, through: int) -> list[dict[str, Any]]:
        return [entry for number in range(after + 1, through + 1) for entry in self._entries(number)]

    def check(self, after: int) -> None:
        """Check that no file is missing after the last one that was read, and that all belong to this log."""
        if (last := self.last()) < after:
            problem = f"the control log was cut: file {after} of it was read, and its last file is {last or 'none'}"
            raise CheckpointMismatch(problem, where=str(self._folder), remedy=_RESTORE)
        self.read(after, last)

    def forget(self, through: int) -> None:
        """Delete the files through a number, except the last one, which gives the next number."""
        last = self.last()
        for number in numbers_in(self._folder):
            if number <= through and number < last:
                self._file(number).unlink(missing_ok=True)

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:010d}"

    def _place(self, hidden: Path, number: int, lines: list[str]) -> bool:
        head = {"of": self._owner, "file": number, "entries": len(lines), "hash": hash_of(lines)}
        with hidden.open("w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in (json.dumps(head), *lines)))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(hidden, self._file(number))
        except FileExistsError:
            return False
        finally:
            hidden.unlink()
        return True

    def _entries(self, number: int) -> list[dict[str, Any]]:
        file = self._file(number)
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
            entries = [json.loads(line) for line in lines]
            head = entries.pop(0)
            kinds = [entry["kind"] for entry in entries]
            whole = (len(entries), hash_of(lines[1:])) == (head["entries"], head["hash"])
            place = (head["of"], head["file"])
        except OSError as error:
            problem = f"the file of the control log can't be read: {error.strerror}"
            raise CheckpointMismatch(problem, where=str(file), remedy=_RESTORE) from error
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise CheckpointMismatch(
                "the file of the control log is damaged", where=str(file), remedy=_RESTORE
            ) from error
        if not whole:
            raise CheckpointMismatch("the file of the control log was changed", where=str(file), remedy=_RESTORE)
        if place[1] != number or (self._owner and place[0] not in ("", self._owner)):
            of = f"file {place[1]} of the control log" + ("" if place[0] == self._owner else " of another checkpoint")
            raise CheckpointMismatch(f"the file is {of}", where=str(file), remedy=_RESTORE)
        for kind in kinds:
            if kind not in KINDS:
                raise CheckpointMismatch(
                    f"the control log has an entry of the kind {kind!r}, which this version of seriatim doesn't know",
                    where=str(file),
                    remedy="run the version that wrote it",
                )
        return entries


def hash_of(lines: Iterable[str]) -> str:
    return blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
