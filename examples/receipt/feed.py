"""The log as a feed: its events in the order in which they were recorded, as files of JSON lines."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["Event", "read", "write"]


@dataclass(frozen=True, slots=True)
class Event:
    """A step of a case: `task` is its number, unique in the log and given at its creation; `completed` its end."""

    case: str
    task: int
    completed: datetime
    activity: str
    channel: str
    department: str


def read(log: Path) -> list[Event]:
    """All events in order of completion."""
    with log.open(encoding="utf-8", newline="") as rows:
        found = [
            Event(
                case=row["case:concept:name"],
                task=int(row["concept:instance"].removeprefix("task-")),
                completed=datetime.fromisoformat(row["time:timestamp"]).astimezone(UTC),
                activity=row["concept:name"],
                channel=row["case:channel"],
                department=row["case:department"],
            )
            for row in csv.DictReader(rows)
        ]
    return sorted(found, key=lambda event: event.completed)


def write(events: list[Event], inbox: Path, files: int = 20) -> None:
    """Write them to so many files, to be read in order."""
    inbox.mkdir(parents=True)
    size = -(-len(events) // files)
    for number in range(files):
        file = inbox / f"{number:03d}.json"
        lines = [_line(event) for event in events[number * size : (number + 1) * size]]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        written = 1_700_000_000 + number  # files are taken in order of the time of their writing
        os.utime(file, (written, written))


def _line(event: Event) -> str:
    return json.dumps(
        {
            "case": event.case,
            "task": event.task,
            "completed": event.completed.isoformat(),
            "activity": event.activity,
            "channel": event.channel,
            "department": event.department,
        }
    )
