"""Read the set-aside folder: messages that were not released, with their reasons."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, When, filters_of
from seriatim.errors import CheckpointMismatch

#: What a message was set aside as.
DISPOSITIONS = ("late", "duplicate", "invalid", "rejected", "dead")


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
class SetAsideFilter(Listing):
    _: KW_ONLY
    disposition: str | None = listing.choice("messages with this disposition", DISPOSITIONS, "a disposition")
    group: str | None = listing.group("messages of this group")
    location: str | None = listing.text("messages that this location received")
    reason: str | None = listing.error("messages with this text in their reason")
    since: When | None = listing.since("messages set aside")
    until: When | None = listing.until("messages set aside")

    def fits_time(self, written: datetime) -> bool:
        """Whether the batch of a message was written in the time that was asked for."""
        kinds = filters_of(SetAsideFilter)
        wanted = (("since", self.since), ("until", self.until))
        return all(one is None or kinds[name].kind.fits(name, one, written) for name, one in wanted)


def read_set_aside(
    folder: Path, disposition: str | None = None, *, wanted: SetAsideFilter | None = None
) -> Iterator[SetAside]:
    """The messages in a set-aside folder, in the order in which they were decided."""
    chosen = wanted or SetAsideFilter(disposition=disposition)
    for folder_of_batch in sorted(folder.glob("batch=*")):
        batch = int(folder_of_batch.name.removeprefix("batch="))
        files = sorted(folder_of_batch.glob("part-*"))
        written = {file: datetime.fromtimestamp(file.stat().st_mtime, UTC) for file in files}
        fitting = {file for file in files if chosen.fits_time(written[file])}
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
                        told = {**row, "reason": reason_of(row), "at": written[file]}
                        fits = file in fitting and chosen.fits(SimpleNamespace(**told))
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
