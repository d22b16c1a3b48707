"""Read the set-aside folder: messages that were not released, with their reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seriatim.errors import CheckpointMismatch

__all__ = ["SetAside", "SetAsideFilter", "read_set_aside", "reason_of"]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A message that a destination did not release, or that has no destination. `number` is its number (0, 1 …) among all messages of its
    batch and destination with its id, whichever are read; `fields` has all its written fields.
    """

    batch: int
    number: int
    destination: str | None
    disposition: str
    reason: str
    message_id: str
    group: str | None
    sequence: Any
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SetAsideFilter:
    """Which messages to read; None: all."""

    disposition: str | None = None
    group: str | None = None
    location: str | None = None
    #: Only with this text in the reason (see `reason_of`), in capitals or not.
    reason: str | None = None
    #: Only messages that were set aside at this moment or later: the time at which their batch was written.
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, row: dict[str, Any]) -> bool:
        """Return whether a row is a requested message, as far as the row shows."""
        return (
            (self.disposition is None or row["disposition"] == self.disposition)
            and (self.group is None or row["group"] == self.group)
            and (self.location is None or row["location"] == self.location)
            and (self.reason is None or self.reason.casefold() in reason_of(row).casefold())
        )

    def fits_file(self, file: Path) -> bool:
        """Return whether a file was written in the requested time."""
        if self.since is None and self.until is None:
            return True
        written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
        return (self.since is None or written >= self.since) and (self.until is None or written < self.until)


def read_set_aside(
    folder: Path, disposition: str | None = None, *, wanted: SetAsideFilter | None = None
) -> Iterator[SetAside]:
    """The messages in a set-aside folder, in the order in which they were decided."""
    chosen = wanted or SetAsideFilter(disposition)
    for folder_of_batch in sorted(folder.glob("batch=*")):
        batch = int(folder_of_batch.name.removeprefix("batch="))
        files = sorted(folder_of_batch.glob("part-*"))
        fitting = set(filter(chosen.fits_file, files))
        seen: Counter[tuple[str | None, str]] = Counter()
        # Other files, too, as long as any fits: they count for the numbers.
        for file in files if fitting else ():
            with file.open(encoding="utf-8") as lines:
                for at, line in enumerate(lines, 1):
                    try:
                        row = json.loads(line)
                        which = row["destination"], row["message_id"]
                        number = seen[which]
                        seen[which] += 1
                        fits = file in fitting and chosen.fits(row)
                        entry = _set_aside(batch, number, row) if fits else None
                    except (ValueError, KeyError, TypeError, AttributeError) as error:
                        where, remedy = f"{file}:{at}", "restore the file from a backup, or delete that line"
                        raise CheckpointMismatch("the line is damaged", where=where, remedy=remedy) from error
                    if entry is not None:
                        yield entry


def reason_of(row: Mapping[str, Any]) -> str:
    """Return the reason in a row, without the place of an unreadable row, which its id has."""
    place = str(row["message_id"]).partition("/")[2]
    return (row["reason"] or "").removeprefix(f"{place}: ")


def _set_aside(batch: int, number: int, row: dict[str, Any]) -> SetAside:
    known = (
        row["destination"],
        row["disposition"],
        row["reason"] or "",
        row["message_id"],
        row["group"],
        row["sequence"],
    )
    return SetAside(batch, number, *known, fields=row)
