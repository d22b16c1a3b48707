"""What the pipeline made of the log: at each destination the inversions that are left.

An *inversion* is a message of a case that is delivered after a higher task number of the same case.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Measured", "delivered", "measure", "table"]


@dataclass(frozen=True, slots=True)
class Measured:
    """A destination: `messages` delivered, `inversions` among them, in so many `cases`; and `late` ones set aside."""

    messages: int
    inversions: int
    cases: int
    late: int


def delivered(port: Path) -> Iterator[dict[str, Any]]:
    """The rows of a port in order of delivery."""
    for file in sorted(port.glob("batch=*/part-*")):
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def measure(folder: Path) -> dict[str, Measured]:
    """All destinations of a pipeline that ran in a folder, by name."""
    aside = defaultdict(int)
    for row in delivered(folder / ".seriatim/pipelines/receipt/set-aside"):
        aside[row["destination"], row["disposition"]] += 1
    found = {}
    for port in sorted((folder / "out").iterdir()):
        highest: dict[str, int] = {}
        behind = []
        messages = 0
        for row in delivered(port):
            messages += 1
            if row["task"] < highest.get(row["group"], 0):
                behind.append(row["group"])
            highest[row["group"]] = max(row["task"], highest.get(row["group"], 0))
        found[port.name] = Measured(messages, len(behind), len(set(behind)), aside[port.name, "late"])
    return found


def table(measured: dict[str, Measured]) -> str:
    """The same to be read."""
    rows = [("destination", *asdict(next(iter(measured.values()))))]
    rows += [(name, *map(str, asdict(one).values())) for name, one in measured.items()]
    return "\n".join(f"{row[0]:18}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows)
