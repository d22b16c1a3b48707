"""A feed with faults of the sender, for tests of your pipelines.

    feed = faulty_feed(orders, seed=7, displaced=0.2, repeated=0.02, delayed=0.01, dropped=0.01, broken=0.01)
    feed.write("inbox", files=4)          # JSON lines for a pipeline's source
    feed.truth.dropped                    # the positions in `orders` of messages that never arrive

The same messages and the same seed give the same feed, byte for byte.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seriatim.errors import UsageError

__all__ = ["Arrival", "Feed", "Truth", "faulty_feed"]

#: When the first file of a feed was written, in seconds since 1970. Files are taken in order of that.
_FIRST_FILE_S = 1_700_000_000

Message = Mapping[str, Any] | str | bytes


@dataclass(frozen=True, slots=True)
class Arrival:
    """One row of a feed, as it arrives.

    Args:
        place: the position of its message in the given messages, from 0.
        line: its bytes.
        broken: whether the row is unreadable.
    """

    place: int
    line: bytes
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Truth:
    """The faults of a feed: the positions of the affected messages, ascending.

    Args:
        dropped: messages that never arrive.
        broken: messages that arrive as unreadable rows.
        repeated: messages that arrive twice.
        delayed: messages that arrive much too late.
        overtaken: messages that arrive for the first time after a later message.
    """

    dropped: tuple[int, ...]
    broken: tuple[int, ...]
    repeated: tuple[int, ...]
    delayed: tuple[int, ...]
    overtaken: tuple[int, ...]

    @property
    def lost(self) -> tuple[int, ...]:
        """Messages that have to be sent again: dropped or broken."""
        return tuple(sorted({*self.dropped, *self.broken}))


@dataclass(frozen=True, slots=True)
class Feed:
    """The messages of a feed, as they arrive, and the simulated faults.

    Args:
        arrivals: the rows, in order of arrival.
        truth: the faults that were made.
    """

    arrivals: tuple[Arrival, ...]
    truth: Truth

    def __iter__(self) -> Iterator[Arrival]:
        return iter(self.arrivals)

    def __len__(self) -> int:
        return len(self.arrivals)

    def write(self, folder: str | Path, *, files: int = 1, begin: int = 0, suffix: str = ".json") -> list[Path]:
        """Write the rows as lines of text files into a folder that a pipeline reads. A missing folder is created.

        A file appears when it is complete. Its modification time is a second after the previous file's, so that a pipeline
        takes the rows in order of arrival.

        Args:
            folder: the folder.
            files: the number of files; fewer if there are too few rows.
            begin: the number of the first file; for a second feed into the same folder.
            suffix: the end of the files' names.

        Raises:
            UsageError: `files` or `begin` is too small.
        """
        if files < 1 or begin < 0:
            raise UsageError(
                f"cannot write {files} files from number {begin} on",
                remedy="files must be at least 1, begin at least 0",
            )
        root = Path(folder)
        root.mkdir(parents=True, exist_ok=True)
        each = max(1, -(-len(self.arrivals) // files))
        written = []
        for number, start in enumerate(range(0, len(self.arrivals), each), start=begin):
            lines = [arrival.line for arrival in self.arrivals[start : start + each]]
            hidden = root / f".{uuid.uuid4().hex}"
            hidden.write_bytes(b"\n".join(lines) + b"\n")
            os.utime(hidden, (_FIRST_FILE_S + number,) * 2)
            written.append(hidden.rename(root / f"feed-{number:05d}{suffix}"))
        return written


def faulty_feed(
    messages: Iterable[Message],
    *,
    seed: int,
    displaced: float = 0.0,
    by: int = 10,
    repeated: float = 0.0,
    delayed: float = 0.0,
    dropped: float = 0.0,
    broken: float = 0.0,
) -> Feed:
    """Make a feed of messages with simulated faults of the sender.

    Args:
        messages: the messages, in the order of sending. A mapping becomes a line of JSON; give text and bytes as lines
            without line ends.
        seed: the seed from which the fault of each message is chosen.
        displaced: the share of messages that arrive up to `by` places too late.
        by: see `displaced`.
        repeated: the share of messages that arrive a second time, at any time after the first.
        delayed: the share of messages that arrive at any time up to the end of the feed.
        dropped: the share of messages that don't arrive.
        broken: the share of messages that arrive unreadable: cut off, or not UTF-8.

    Raises:
        UsageError: a share isn't between 0 and 1; `dropped`, `broken` and `delayed` are above 1 together; or a message can't
            be a line.
    """
    _check({"displaced": displaced, "repeated": repeated, "delayed": delayed, "dropped": dropped, "broken": broken}, by)
    chance = random.Random(seed)  # noqa: S311 - a reproducible feed is the point
    lines = [_line(message, place) for place, message in enumerate(messages)]
    fates = _Fates()
    placed: list[tuple[float, Arrival]] = []
    for place, line in enumerate(lines):
        lot, moment = chance.random(), float(place)
        is_broken = dropped <= lot < dropped + broken
        is_delayed = dropped + broken <= lot < dropped + broken + delayed
        if lot < dropped:
            fates.dropped.append(place)
            continue
        if is_delayed:
            fates.delayed.append(place)
            moment = chance.uniform(place, len(lines))
        elif chance.random() < displaced:
            moment += chance.uniform(0, by)
        if is_broken:
            fates.broken.append(place)
            placed.append((moment, Arrival(place, _broken(line, chance), broken=True)))
            continue
        placed.append((moment, Arrival(place, line)))
        if chance.random() < repeated:
            fates.repeated.append(place)
            placed.append((chance.uniform(moment, len(lines)), Arrival(place, line)))
    placed.sort(key=lambda item: item[0])
    arrivals = tuple(arrival for _, arrival in placed)
    return Feed(arrivals, fates.truth(arrivals))


def _check(shares: Mapping[str, float], by: int) -> None:
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise UsageError(f"{name} must be a share from 0 to 1, not {share!r}")
    if shares["dropped"] + shares["broken"] + shares["delayed"] > 1:
        raise UsageError("the shares dropped, broken and delayed must be at most 1 together")
    if by < 1:
        raise UsageError(f"by must be a whole number from 1, not {by!r}")


class _Fates:
    """The faults, collected while they are chosen."""

    def __init__(self) -> None:
        self.dropped: list[int] = []
        self.broken: list[int] = []
        self.repeated: list[int] = []
        self.delayed: list[int] = []

    def truth(self, arrivals: Iterable[Arrival]) -> Truth:
        overtaken: list[int] = []
        seen: set[int] = set()
        furthest = -1
        for arrival in arrivals:
            if arrival.place not in seen and arrival.place < furthest:
                overtaken.append(arrival.place)
            seen.add(arrival.place)
            furthest = max(furthest, arrival.place)
        faults = (self.dropped, self.broken, self.repeated, self.delayed, sorted(overtaken))
        return Truth(*map(tuple, faults))


def _line(message: Message, place: int) -> bytes:
    if isinstance(message, Mapping):
        try:
            return json.dumps(message).encode()
        except (TypeError, ValueError) as error:
            raise UsageError(f"message {place} can't become JSON: {error}", remedy="give text or bytes") from error
    line = message.encode() if isinstance(message, str) else message
    if not isinstance(line, bytes) or not line.strip() or b"\n" in line or b"\r" in line:
        raise UsageError(f"message {place} is not a line", remedy="give a mapping, or text or bytes of one line")
    return line


def _broken(line: bytes, chance: random.Random) -> bytes:
    """Make a line unreadable: a JSON object without its end, or a byte that is invalid in UTF-8."""
    if line.startswith(b"{") and len(line) > 1 and chance.random() < 0.5:
        return line[: chance.randrange(1, len(line))]
    cut = chance.randrange(0, len(line) + 1)
    return line[:cut] + b"\xff" + line[cut:]
