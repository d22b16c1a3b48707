"""The operator log beside a run that puts its files together: whoever reads it finds each entry once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from seriatim.spark.control import operator_log
from seriatim.spark.control.operator_log import EVENT, OperatorLog

#: So many batches, two entries each; with the last one three files become one.
BATCHES = 6
ENTRIES = [(batch, place) for batch in range(BATCHES) for place in (1, 2)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log without its last batch, with which files are put together."""
    monkeypatch.setattr(operator_log, "_TOGETHER", BATCHES // 2)
    for batch in range(BATCHES - 1):
        keep(tmp_path, batch)
    return tmp_path


def keep(folder: Path, batch: int) -> None:
    OperatorLog(folder).keep(batch, [{"kind": EVENT, "event": "hole_skipped"}] * 2)


def found(entry: dict[str, Any]) -> tuple[int, int]:
    return entry["batch"], entry["place"]


@pytest.mark.parametrize("newest_first", [False, True], ids=["oldest first", "newest first"])
@pytest.mark.parametrize("before", range(1, 2 * BATCHES - 1))
def test_who_reads_while_files_are_put_together_misses_nothing(folder: Path, before: int, newest_first: bool) -> None:
    entries = OperatorLog(folder).entries(kind=EVENT, newest_first=newest_first)
    read = [found(next(entries)) for _ in range(before)]
    keep(folder, BATCHES - 1)
    assert any("-" in file.name for file in folder.iterdir())
    read += [found(one) for one in entries]
    # What comes while somebody reads may be read: no entry of another batch is missing, and none comes twice.
    if newest_first:
        read.reverse()
    assert read in (ENTRIES, ENTRIES[:-2])


@pytest.mark.parametrize("listed", range(BATCHES))
def test_who_lists_the_folder_while_files_are_put_together_misses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    whole = Path.iterdir
    torn = False

    def in_two_steps(at: Path) -> list[Path]:
        """A list that the system makes in two steps, between which files are put together: the new file is in neither of them."""
        nonlocal torn
        files = sorted(whole(at))
        if torn:
            return files
        torn = True
        keep(folder, BATCHES - 1)
        return [*files[:listed], *(file for file in files[listed:] if file.exists())]

    monkeypatch.setattr(Path, "iterdir", in_two_steps)
    assert [found(one) for one in OperatorLog(folder).entries(kind=EVENT)] in (ENTRIES, ENTRIES[:-2])


def test_a_batch_that_runs_again_without_entries_is_not_looked_for_twice(folder: Path) -> None:
    entries = OperatorLog(folder).entries(kind=EVENT)
    read = [found(next(entries))]
    OperatorLog(folder).keep(BATCHES - 2, [])
    assert read + [found(one) for one in entries] == ENTRIES[:-4]
