"""A feed in which everything goes wrong that a sender can do wrong, and what has to come of it."""

from __future__ import annotations

import json
import os
import random
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

GROUPS, NUMBERS, FILES = 150, 40, 32
LOCATION = "crm"


@dataclass
class Truth:
    """What has to come of a feed, by the ids of its messages.

    Args:
        arrived: the good ones of each group in order of arrival, with their numbers.
        invalid: those that are no messages.
    """

    arrived: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    invalid: list[str] = field(default_factory=list)

    def ordered(self) -> dict[str, list[tuple[str, int]]]:
        """Of each group the first of every number, in order of the numbers."""
        first = {group: {n: message for message, n in reversed(found)} for group, found in self.arrived.items()}
        return {group: [(of[n], n) for n in sorted(of)] for group, of in first.items()}

    def repeated(self) -> list[str]:
        """Those whose number had been there before."""
        firsts = {message for found in self.ordered().values() for message, _ in found}
        return [message for found in self.arrived.values() for message, _ in found if message not in firsts]


def write_feed(folder: Path, seed: int, groups: int = GROUPS, files: int = FILES) -> Truth:
    """Write a feed as JSON lines in many files: scrambled, repeated, with holes that heal and rows that are broken."""
    chance = random.Random(seed)
    rows = []
    for number in range(1, NUMBERS + 1):
        for group in range(groups):
            place = number + chance.uniform(0, 3)
            if chance.random() < 0.01:
                place += chance.uniform(0, NUMBERS / 2)  # a hole, for half of the feed at most
            row = json.dumps({"group": f"g{group}", "number": number, "pad": chance.randbytes(40).hex()})
            rows.append((place, row, f"g{group}", number))
            if chance.random() < 0.02:
                rows.append((place + chance.uniform(0, NUMBERS), row, f"g{group}", number))
    rows += [(chance.uniform(0, NUMBERS), f'{{"group": "g{n}"', None, 0) for n in range(20)]
    rows.sort(key=lambda row: row[0])
    return _write(folder, [row[1:] for row in rows], files)


def _write(folder: Path, rows: list[tuple[str, str | None, int]], files: int) -> Truth:
    folder.mkdir()
    truth = Truth()
    size = -(-len(rows) // files)
    for file in range(files):
        name = f"{file:03d}.json"
        mine = rows[file * size : (file + 1) * size]
        (folder / name).write_text("".join(f"{text}\n" for text, _, _ in mine))
        os.utime(folder / name, (1_700_000_000 + file,) * 2)
        for line, (_, group, number) in enumerate(mine, start=1):
            message = f"{LOCATION}/{name}:{line}"
            if group is None:
                truth.invalid.append(message)
            else:
                truth.arrived[group].append((message, number))
    return truth
