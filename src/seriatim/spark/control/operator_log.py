"""The operator log of a pipeline: the answers to commands, and the events of its groups, by batch.

    operator-log/
    ├── 0000000000-0000000511     the entries of former batches, in one file
    ├── 0000000517                a line of JSON about the file, and then a line for each entry of one batch
    └── 0000000520
    operator-log.json             the last batch that has entries

A batch that runs again replaces its file. A batch without entries has none. The first line says which checkpoint the file belongs to, its
batches, the last batch before them that has entries, and the hash of its entries. So a file that was edited, moved, copied from elsewhere
or lost is noticed.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from seriatim.errors import CheckpointMismatch
from seriatim.spark.control.commands import LOOK, CommandResult
from seriatim.spark.control.log import hash_of
from seriatim.spark.state.checkpoint_files import write_synced, writing

#: The kinds of entries.
ANSWER, EVENT = "answer", "event"
#: How many batch files are merged into one file, when there are twice as many.
_TOGETHER = 512
_RESTORE = (
    "restore the checkpoint from a backup; or, to go on without these entries, move the folder operator-log and the file "
    "operator-log.json away"
)


class _LogFile(NamedTuple):
    """A file of the log: its first and its last batch, and the last batch before them that has entries (-1: there is none)."""

    first: int
    last: int
    path: Path
    before: int = -1


class OperatorLog:
    def __init__(self, folder: Path, owner: str = "") -> None:
        self._folder = folder
        #: The id of the checkpoint to which it belongs; "": unknown, and not compared.
        self._owner = owner
        self._end = folder.with_name(f"{folder.name}.json")
        self._singles: list[int] | None = None
        self._together = -1

    def keep(self, batch: int, entries: Sequence[Mapping[str, Any]]) -> None:
        if self._singles is None:
            files = self._files()
            self._singles = [item.first for item in files if item.first == item.last]
            self._together = max((item.last for item in files if item.first != item.last), default=-1)
        before = self._singles[: bisect_left(self._singles, batch)]
        last = before[-1] if before else self._together
        file = self._folder / f"{batch:010d}"
        with writing("the operator log", self._folder):
            if not entries:
                if batch in self._singles:
                    self._note_end(last)
                    file.unlink(missing_ok=True)
                    self._singles.remove(batch)
                return
            self._folder.mkdir(exist_ok=True)
            self._write(_LogFile(batch, batch, file, last), [{**entry, "batch": batch} for entry in entries])
            if batch not in self._singles:
                self._singles = [*before, batch]
            self._note_end(batch)
            if len(self._singles) >= 2 * _TOGETHER:
                self._put_together(self._singles[:_TOGETHER])

    def entries(
        self, *, after: int = -1, through: int | None = None, newest_first: bool = False, kind: str | None = None
    ) -> Iterator[dict[str, Any]]:
        while True:
            files = [item for item in self._whole() if item.last > after and (through is None or item.first <= through)]
            for file in reversed(files) if newest_first else files:
                try:
                    entries = [entry for entry in self._read(file) if kind in (None, entry["kind"])]
                except FileNotFoundError:
                    break  # put together with others meanwhile: go on in a new list, behind what was read
                if kind is not None:
                    _place(entries)
                chosen = [
                    entry
                    for entry in entries
                    if entry["batch"] > after and (through is None or entry["batch"] <= through)
                ]
                yield from reversed(chosen) if newest_first else chosen
                if newest_first:
                    through = file.first - 1
                else:
                    after = file.last
            else:
                return

    def answers(self, *, after: int = -1, newest_first: bool = False) -> Iterator[CommandResult]:
        for entry in self.entries(after=after, newest_first=newest_first, kind=ANSWER):
            yield CommandResult.of(entry)

    def last_batch(self) -> int:
        """The last batch with entries; -1: there is none."""
        return max((file.last for file in self._files()), default=-1)

    def check(self) -> None:
        for file in self._whole():
            self._read(file)

    def _whole(self) -> list[_LogFile]:
        """The files of the log. Raises `CheckpointMismatch` if the last ones are missing."""
        end = self._noted_end()  # before the list, which may have more by then
        files = self._files()
        last = files[-1].last if files else -1
        if last < end:
            problem = f"the operator log was cut: this file is missing, and its last one is {files[-1].path.name if files else 'none'}"
            raise CheckpointMismatch(problem, where=str(self._folder / f"{end:010d}"), remedy=_RESTORE)
        return files

    def _files(self) -> list[_LogFile]:
        """The files in order, without those that are in another one."""
        if not self._folder.exists():
            return []
        files = []
        # While files are put together, a list may lack the new file and some of the former ones: the list after it has the new one.
        for file in {*self._folder.iterdir(), *self._folder.iterdir()}:
            first, _, last = file.name.partition("-")
            if first.isdecimal() and (not last or last.isdecimal()):
                files.append(_LogFile(int(first), int(last or first), file))
        wide = [item for item in files if item.first != item.last]
        kept = sorted(item for item in files if item in wide or not any(a.first <= item.first <= a.last for a in wide))
        return [*kept[:1], *(item._replace(before=former.last) for former, item in pairwise(kept))]

    def _put_together(self, batches: list[int]) -> None:
        """Merge several files into one, without looks, which changed nothing. A reader meanwhile finds each entry once."""
        ends = pairwise([self._together, *batches])
        files = [_LogFile(batch, batch, self._folder / f"{batch:010d}", before) for before, batch in ends]
        entries = [entry for file in files for entry in self._read(file) if entry.get("verb") != LOOK]
        name = f"{batches[0]:010d}-{batches[-1]:010d}"
        self._write(_LogFile(batches[0], batches[-1], self._folder / name, self._together), entries)
        for file in files:
            file.path.unlink()
        self._singles = [batch for batch in self._singles or () if batch not in batches]
        self._together = batches[-1]

    def _write(self, file: _LogFile, entries: Sequence[Mapping[str, Any]]) -> None:
        lines = [json.dumps(entry) for entry in entries]
        head = {"of": self._owner, "batches": [file.first, file.last], "before": file.before, "entries": len(lines)}
        head |= {"hash": hash_of(lines)}
        write_synced(file.path, "".join(f"{line}\n" for line in (json.dumps(head), *lines)).encode())

    def _note_end(self, batch: int) -> None:
        write_synced(self._end, json.dumps({"of": self._owner, "last": batch}).encode())

    def _noted_end(self) -> int:
        """The last batch that has entries; -1 where that isn't known."""
        try:
            return int(json.loads(self._end.read_bytes())["last"])
        except FileNotFoundError:
            return -1
        except (OSError, ValueError, KeyError, TypeError) as error:
            problem = "the file that says how far the operator log goes is damaged"
            raise CheckpointMismatch(problem, where=str(self._end), remedy=_RESTORE) from error

    def _read(self, file: _LogFile) -> list[dict[str, Any]]:
        """The entries of a file. The first files of layout 3 had no line about the file."""
        try:
            lines = file.path.read_text(encoding="utf-8").splitlines()
            entries = [json.loads(line) for line in lines]
            head = entries.pop(0) if "kind" not in entries[0] else None
            kinds = [(entry["batch"], entry["kind"]) for entry in entries]
            whole = head is None or (len(kinds), hash_of(lines[1:])) == (head["entries"], head["hash"])
            place = None if head is None else (head["of"], tuple(head["batches"]), head["before"])
        except FileNotFoundError:
            raise
        except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
            problem = "the file of the operator log is damaged"
            raise CheckpointMismatch(problem, where=str(file.path), remedy=_RESTORE) from error
        if not whole:
            raise CheckpointMismatch("the file of the operator log was changed", where=str(file.path), remedy=_RESTORE)
        if place is None:
            return entries
        owner, batches, before = place
        is_foreign = bool(self._owner) and owner not in ("", self._owner)
        if is_foreign or batches != (file.first, file.last):
            of = "-".join(str(batch) for batch in dict.fromkeys(batches))
            problem = f"the file is that of batch {of} of the operator log" + (
                " of another checkpoint" if is_foreign else ""
            )
            raise CheckpointMismatch(problem, where=str(file.path), remedy=_RESTORE)
        if before != file.before:
            problem = (
                "the file of the operator log is missing (or one of several batches, the last of which it is), which comes "
                f"before {file.path.name}"
            )
            raise CheckpointMismatch(problem, where=str(self._folder / f"{before:010d}"), remedy=_RESTORE)
        return entries


def _place(entries: Iterable[dict[str, Any]]) -> None:
    """Give each entry its place among those of its batch, which doesn't change when files are put together."""
    seen: Counter[int] = Counter()
    for entry in entries:
        seen[entry["batch"]] += 1
        entry["place"] = seen[entry["batch"]]
