"""The operator log of a pipeline: the answers to commands, and the events of its groups, by batch.

    operator-log/
    ├── 0000000000-0000000511     the entries of former batches, in one file
    ├── 0000000517                those of one batch, a line of JSON each
    └── 0000000520

A batch that runs again replaces its file. A batch without entries has none.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch, EnvironmentProblem
from seriatim.spark.control.commands import LOOK, Answer
from seriatim.spark.state.synced_files import write_synced

__all__ = ["ANSWER", "EVENT", "OperatorLog"]

#: The kinds of entries.
ANSWER, EVENT = "answer", "event"
#: So many files of batches are put together as one, when there are twice as many.
_TOGETHER = 512


class OperatorLog:
    """The log in a folder; made by the first entry."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._singles: list[int] | None = None

    def keep(self, batch: int, entries: Sequence[Mapping[str, Any]]) -> None:
        """Write the entries of a batch, in place of those that it had.

        Args:
            batch: its id.
            entries: each with its `kind`.

        Raises:
            EnvironmentProblem: the folder can't be written.
        """
        if self._singles is None:
            self._singles = [first for first, last, _ in self._files() if first == last]
        file = self._folder / f"{batch:010d}"
        try:
            if not entries:
                if batch in self._singles:
                    file.unlink(missing_ok=True)
                    self._singles.remove(batch)
                return
            self._folder.mkdir(exist_ok=True)
            write_synced(file, "".join(json.dumps({**one, "batch": batch}) + "\n" for one in entries).encode())
            if batch not in self._singles:
                self._singles.append(batch)
            if len(self._singles) >= 2 * _TOGETHER:
                self._put_together(sorted(self._singles)[:_TOGETHER])
        except OSError as error:
            what = f"the operator log can't be written: {error.strerror}"
            raise EnvironmentProblem(what, where=str(self._folder)) from error

    def entries(
        self, *, after: int = -1, through: int | None = None, newest_first: bool = False, kind: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """The entries of some batches, in order.

        Args:
            after: only of batches behind this one.
            through: only of batches up to this one; None: of all.
            newest_first: the other way round.
            kind: only those; each has its `place` among those of its batch, from 1.

        Raises:
            CheckpointMismatch: a file is damaged.
        """
        while True:
            files = [one for one in self._files() if one[1] > after and (through is None or one[0] <= through)]
            for first, last, file in reversed(files) if newest_first else files:
                try:
                    found = [one for one in _read(file) if kind in (None, one["kind"])]
                except FileNotFoundError:
                    break  # put together with others meanwhile: go on in a new list, behind what was read
                if kind is not None:
                    _place(found)
                mine = [one for one in found if one["batch"] > after and (through is None or one["batch"] <= through)]
                yield from reversed(mine) if newest_first else mine
                if newest_first:
                    through = first - 1
                else:
                    after = last
            else:
                return

    def answers(self, *, after: int = -1, newest_first: bool = False) -> Iterator[Answer]:
        """The answers to commands."""
        for one in self.entries(after=after, newest_first=newest_first, kind=ANSWER):
            yield Answer.of(one)

    def last_batch(self) -> int:
        """The last batch with entries; -1: there is none."""
        return max((last for _, last, _ in self._files()), default=-1)

    def _files(self) -> list[tuple[int, int, Path]]:
        """The files with their first and last batches, in order, without those that are in another one."""
        if not self._folder.exists():
            return []
        found = []
        # While files are put together, a list may lack the new file and some of the former ones: the list after it has the new one.
        for file in {*self._folder.iterdir(), *self._folder.iterdir()}:
            first, _, last = file.name.partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                found.append((int(first), int(last or first), file))
        wide = [(first, last) for first, last, _ in found if first != last]
        return sorted(one for one in found if one[0] != one[1] or not any(a <= one[0] <= b for a, b in wide))

    def _put_together(self, batches: list[int]) -> None:
        """Make one file of several, without looks, which changed nothing; whoever reads meanwhile finds each entry once."""
        files = [self._folder / f"{batch:010d}" for batch in batches]
        entries = (one for file in files for one in _read(file) if one.get("verb") != LOOK)
        whole = "".join(json.dumps(one) + "\n" for one in entries).encode()
        write_synced(self._folder / f"{batches[0]:010d}-{batches[-1]:010d}", whole)
        for file in files:
            file.unlink()
        self._singles = [one for one in self._singles or () if one not in batches]


def _place(entries: Iterable[dict[str, Any]]) -> None:
    """Give each entry its place among those of its batch, which doesn't change when files are put together."""
    seen: Counter[int] = Counter()
    for one in entries:
        seen[one["batch"]] += 1
        one["place"] = seen[one["batch"]]


def _read(file: Path) -> Iterable[dict[str, Any]]:
    """The entries of a file. Raises `FileNotFoundError` if it is gone, and `CheckpointMismatch` if it is damaged."""
    try:
        found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if all(isinstance(one, dict) and {"batch", "kind"} <= one.keys() for one in found):
            return found
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise CheckpointMismatch("the file of the operator log is damaged", where=str(file)) from error
    raise CheckpointMismatch("the file of the operator log is damaged", where=str(file))
