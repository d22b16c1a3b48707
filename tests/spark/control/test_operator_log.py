"""The operator log beside a run that puts its files together: whoever reads it finds each entry once; and what of it was edited or lost is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seriatim.errors import CheckpointMismatch
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


Damage = Callable[[Path], object]


def _first(folder: Path) -> Path:
    return folder / "0000000000-0000000002"


def _edit(name: str, old: str, new: str) -> Damage:
    def edit(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return edit


DAMAGES: dict[str, tuple[Damage, str]] = {
    "an entry is edited": (_edit("0000000003", "hole_skipped", "hole_filled"), "0000000003: .* was changed"),
    "an entry of a former batch is edited": (
        _edit("0000000000-0000000002", "hole_skipped", "hole_filled"),
        "0000000000-0000000002: .* was changed",
    ),
    "an entry is deleted": (
        lambda log: (log / "0000000003").write_text((log / "0000000003").read_text().rsplit("\n", 2)[0] + "\n"),
        "0000000003: .* was changed",
    ),
    "a file is cut": (lambda log: (log / "0000000003").write_text("{"), "0000000003: .* is damaged"),
    "a file is empty": (lambda log: (log / "0000000003").write_bytes(b""), "0000000003: .* is damaged"),
    "a file is deleted": (lambda log: (log / "0000000003").unlink(), "0000000003: .* is missing .* before 0000000004"),
    "the first file is deleted": (lambda log: _first(log).unlink(), "0000000002: .* is missing .* before 0000000003"),
    "the last file is deleted": (
        lambda log: (log / "0000000005").unlink(),
        "0000000005: .* was cut: this file is missing, and its last one is 0000000004",
    ),
    "all files are deleted": (shutil.rmtree, "0000000005: .* was cut: this file is missing, and its last one is none"),
    "a file is replaced by another": (
        lambda log: shutil.copy(log / "0000000003", log / "0000000004"),
        "0000000004: the file is that of batch 3",
    ),
    "a file has another name": (
        lambda log: (log / "0000000005").rename(log / "0000000006"),
        "0000000006: the file is that of batch 5",
    ),
    "a file is of another checkpoint": (
        lambda log: OperatorLog(log, "another").keep(5, [{"kind": EVENT, "event": "hole_skipped"}]),
        "0000000005: the file is that of batch 5 of the operator log of another checkpoint",
    ),
    "the end is damaged": (lambda log: log.with_name("log.json").write_text("{}"), "log.json: .* is damaged"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_was_edited_or_lost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(operator_log, "_TOGETHER", BATCHES // 2)
    log = OperatorLog(tmp_path / "log", "mine")
    for batch in range(BATCHES):
        log.keep(batch, [{"kind": EVENT, "event": "hole_skipped"}] * 2)
    log.check()
    assert len(list(log.entries(after=1))) == 2 * (BATCHES - 2)
    break_, told = DAMAGES[damage]
    break_(tmp_path / "log")
    for look in (log.check, lambda: list(log.entries()), lambda: list(log.entries(newest_first=True))):
        with pytest.raises(CheckpointMismatch, match=told) as refused:
            look()
        assert "restore the checkpoint from a backup" in str(refused.value)
    if damage != "all files are deleted":
        shutil.rmtree(tmp_path / "log")
    (tmp_path / "log.json").unlink()
    log.check()
    OperatorLog(tmp_path / "log", "mine").keep(BATCHES, [{"kind": EVENT, "event": "hole_skipped"}])
    log.check()


def test_a_batch_that_runs_again_keeps_the_log_whole(tmp_path: Path) -> None:
    log = OperatorLog(tmp_path / "log", "mine")
    entries = [{"kind": EVENT, "event": "hole_skipped"}]
    for batch, kept in ((3, entries), (7, entries), (7, entries * 2), (9, entries), (9, []), (9, entries), (9, [])):
        log.keep(batch, kept)
        log.check()
        OperatorLog(tmp_path / "log", "mine").check()
    assert [one["batch"] for one in log.entries()] == [3, 7, 7]
    # As a run killed before it noted the end leaves it.
    (tmp_path / "log.json").write_text(json.dumps({"of": "mine", "last": 3}))
    log.check()


def test_files_of_earlier_versions_say_nothing_about_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "0000000002").write_text(json.dumps({"kind": EVENT, "batch": 2}) + "\n")
    log = OperatorLog(folder, "mine")
    log.check()
    log.keep(5, [{"kind": EVENT}])
    log.check()
    (folder / "0000000002").unlink()
    with pytest.raises(CheckpointMismatch, match=r"0000000002: .* is missing .* before 0000000005"):
        log.check()
