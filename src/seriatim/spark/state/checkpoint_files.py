"""Files of a checkpoint: complete after a crash, listed by their numbers, and the error where one can't be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seriatim.errors import EnvironmentProblem


def write_synced(path: Path, content: bytes) -> None:
    """Write a small file so that after a crash it has either the old or the new content, never half of one."""
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def write_unsynced(path: Path, text: str) -> None:
    """Write a small file in one step, as others see it; a crash may lose it."""
    beside = path.with_name(f".{path.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def sync_folder(path: Path) -> None:
    """Sync a folder, so that renames in it survive a crash."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def numbers_in(folder: Path) -> list[int]:
    """The numbers among the names in a folder, ascending; empty: there is no folder."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal()) if folder.is_dir() else []


@contextmanager
def writing(what: str, folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EnvironmentProblem(f"{what} can't be written: {error.strerror}", where=str(folder)) from error
