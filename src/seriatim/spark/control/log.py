"""The control log of a pipeline: entries that its query takes in, in this order, and never twice.

    control/
    ├── 0000000001     the entries of one call, a line of JSON each
    └── 0000000002

A file appears complete, under the next free number, and doesn't change. The query's offset says through which number it
has read. An entry has a `kind` and what that kind needs.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch, EnvironmentProblem

__all__ = ["FINISH", "KINDS", "ControlLog"]

#: The kind of an entry that lets time run out in all buckets.
FINISH = "finish"
KINDS = frozenset({FINISH})


class ControlLog:
    """The log in a folder.

    Args:
        folder: the folder; made by the first entry.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def append(self, entries: Iterable[Mapping[str, Any]]) -> int:
        """Write entries as one file; return its number.

        Raises:
            EnvironmentProblem: the folder can't be written.
        """
        hidden = self._folder / f".{uuid.uuid4()}"
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with hidden.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            number = self.last() + 1
            while not self._place(hidden, number):
                number += 1
            hidden.unlink()
        except OSError as error:
            what = f"the control log can't be written: {error.strerror}"
            raise EnvironmentProblem(what, where=str(self._folder)) from error
        return number

    def last(self) -> int:
        """The number of the last file; 0: there is none."""
        if not self._folder.exists():
            return 0
        return max((int(file.name) for file in self._folder.iterdir() if file.name.isdecimal()), default=0)

    def last_after(self, number: int) -> int:
        """The number of the last file of those that follow a file without a gap; costs a look at one file if there is none."""
        while self._file(number + 1).exists():
            number += 1
        return number

    def read(self, after: int, through: int) -> list[dict[str, Any]]:
        """The entries of some files, in order.

        Raises:
            CheckpointMismatch: a file is missing or damaged, or an entry has a kind that this version doesn't know.
        """
        return [entry for number in range(after + 1, through + 1) for entry in self._entries(self._file(number))]

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:010d}"

    def _place(self, hidden: Path, number: int) -> bool:
        try:
            os.link(hidden, self._file(number))
        except FileExistsError:
            return False
        return True

    @staticmethod
    def _entries(file: Path) -> list[dict[str, Any]]:
        remedy = "restore the checkpoint from a backup"
        try:
            found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            kinds = [entry["kind"] for entry in found]
        except OSError as error:
            what = f"the file of the control log can't be read: {error.strerror}"
            raise CheckpointMismatch(what, where=str(file), remedy=remedy) from error
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointMismatch(
                "the file of the control log is damaged", where=str(file), remedy=remedy
            ) from error
        for kind in kinds:
            if kind not in KINDS:
                raise CheckpointMismatch(
                    f"the control log has an entry of the kind {kind!r}, which this version of seriatim doesn't know",
                    where=str(file),
                    remedy="run the version that wrote it",
                )
        return found
