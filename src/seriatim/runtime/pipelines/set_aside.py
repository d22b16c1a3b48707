"""Read the set-aside folder: messages that were not released, with their reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["SetAside", "read_set_aside"]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A message that a destination did not release, or that has no destination; `fields` has all its written fields."""

    batch: int
    destination: str | None
    disposition: str
    reason: str
    message_id: str
    group: str | None
    sequence: Any
    fields: dict[str, Any]


def read_set_aside(folder: Path, disposition: str | None = None) -> Iterator[SetAside]:
    """The messages in a set-aside folder, in the order in which they were decided.

    Args:
        folder: the folder.
        disposition: only messages with this disposition.
    """
    for batch in sorted(folder.glob("batch=*")):
        for file in sorted(batch.glob("part-*")):
            with file.open(encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    if disposition is None or row["disposition"] == disposition:
                        yield _set_aside(int(batch.name.removeprefix("batch=")), row)


def _set_aside(batch: int, row: dict[str, Any]) -> SetAside:
    known = (
        row["destination"],
        row["disposition"],
        row["reason"] or "",
        row["message_id"],
        row["group"],
        row["sequence"],
    )
    return SetAside(batch, *known, fields=row)
