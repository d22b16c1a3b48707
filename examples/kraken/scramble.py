"""Turns a recorded feed of order books into what a bad day would have made of it.

    python scramble.py RECORDING FOLDER [--seed 7] [--drop 0.01] [--repeat 0.01] [--files 10]

The recording is one of cryptofeed's: a line is ``receive-time: JSON``. Written are ``inbox/*.json`` (all updates of
all books, shuffled, some missing, some twice) and ``first_numbers.csv`` (where each book begins, by its snapshot).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
from pathlib import Path


def read(recording: Path) -> tuple[list[str], dict[str, int]]:
    """The updates of all books as they were received, and the first number of each book."""
    updates, first = [], {}
    with recording.open(encoding="utf-8") as lines:
        for line in lines:
            received, _, text = line.rstrip("\n").partition(": ")
            if not received.replace(".", "").isdecimal():
                continue  # what the recording client sent itself
            message = json.loads(text)
            if message.get("feed") == "book_snapshot":
                first[message["product_id"]] = message["seq"] + 1
            elif message.get("feed") == "book" and "seq" in message:
                updates.append(text)
    return updates, first


def scramble(updates: list[str], chance: random.Random, drop: float, repeat: float) -> list[str]:
    """The updates in any order, without the share `drop`, and the share `repeat` of them twice."""
    kept = chance.sample(updates, len(updates) - round(len(updates) * drop))
    scrambled = kept + chance.sample(kept, round(len(updates) * repeat))
    chance.shuffle(scrambled)
    return scrambled


def write(folder: Path, updates: list[str], first: dict[str, int], files: int) -> None:
    """An inbox of so many files, to be read in order, and the first numbers."""
    inbox = folder / "inbox"
    inbox.mkdir(parents=True)
    size = -(-len(updates) // files)
    for number in range(files):
        file = inbox / f"{number:03d}.json"
        file.write_text("".join(f"{update}\n" for update in updates[number * size : (number + 1) * size]))
        written = file.stat().st_mtime + number  # files are taken in order of the time of their writing
        os.utime(file, (written, written))
    with (folder / "first_numbers.csv").open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["group", "next"])
        rows.writerows(first.items())


def main() -> None:
    """The command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("recording", type=Path)
    options.add_argument("folder", type=Path)
    options.add_argument("--seed", type=int, default=7)
    options.add_argument("--drop", type=float, default=0.01)
    options.add_argument("--repeat", type=float, default=0.01)
    options.add_argument("--files", type=int, default=10)
    given = options.parse_args()
    updates, first = read(given.recording)
    scrambled = scramble(updates, random.Random(given.seed), given.drop, given.repeat)
    write(given.folder, scrambled, first, given.files)
    print(f"{len(updates)} updates of {len(first)} books; {len(scrambled)} lines in {given.folder / 'inbox'}")


if __name__ == "__main__":
    main()
