"""A feed for one queue in which everything goes wrong that a sender can do wrong, and the process that publishes it.

A publisher writes into a file of its own when it begins a transaction and when its commit has been answered. One that
is killed or loses its server doesn't know what became of the transaction, and repeats it with the same message ids.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

import seriatim as sq
from tests.faults.crew import ends_without_server, tells_when_unavailable
from tests.faults.history import Sent

TYPE = "event"
KEY, NUMBER = "key", "number"


@dataclass(frozen=True, slots=True)
class Feed:
    """Every number from 1 on of every group, scrambled over publishers and in time.

    Args:
        seed: of the scrambling; the same one gives the same feed.
        groups: how many.
        numbers: how many of each group.
        publishers: how many processes share it.
        batch: messages in a transaction.
    """

    seed: int
    groups: int
    numbers: int
    publishers: int = 2
    batch: int = 500

    @property
    def total(self) -> int:
        """How many numbers there are, in all groups."""
        return self.groups * self.numbers

    def rows(self, publisher: int) -> list[tuple[str, str, int]]:
        """(message id, group, number) in the order in which a publisher sends them.

        Numbers are up to three places early or late, one in a hundred much later. One in fifty is sent again as
        another message, and one in a hundred as the same one, by anybody.
        """
        chance = np.random.default_rng(self.seed)
        group, number = np.divmod(np.arange(self.total), self.numbers)
        place = number + chance.uniform(0, 3, self.total)
        place += np.where(chance.random(self.total) < 0.01, chance.uniform(0, self.numbers / 10, self.total), 0)
        again = np.flatnonzero(chance.random(self.total) < 0.02)
        same = np.flatnonzero(chance.random(self.total) < 0.01)
        origin = np.concatenate([np.arange(self.total), again, same])
        copy = np.concatenate([np.zeros(self.total, int), np.ones(len(again), int), np.zeros(len(same), int)])
        repeated = np.concatenate([again, same])
        place = np.concatenate([place, place[repeated] + chance.uniform(-2, self.numbers / 10, len(repeated))])
        mine = np.flatnonzero(chance.integers(self.publishers, size=len(origin)) == publisher)
        mine = mine[np.argsort(place[mine], kind="stable")]
        columns = (group[origin[mine]].tolist(), (number[origin[mine]] + 1).tolist(), copy[mine].tolist())
        return [(f"{g}-{n}-{c}", f"g{g}", n) for g, n, c in zip(*columns, strict=True)]

    def message_ids(self) -> set[str]:
        """Of all messages."""
        return {message_id for publisher in range(self.publishers) for message_id, _, _ in self.rows(publisher)}

    def batches(self, publisher: int) -> list[list[tuple[str, str, int]]]:
        """The rows of a publisher, by transactions."""
        rows = self.rows(publisher)
        return [rows[begin : begin + self.batch] for begin in range(0, len(rows), self.batch)]

    def sent(self, publisher: int, log: Path) -> Iterator[Sent]:
        """What a publisher says that it sent, each attempt."""
        batches = self.batches(publisher)
        for number, began, ended in _attempts(log):
            for place, (message_id, group, sequence) in enumerate(batches[number]):
                yield Sent(
                    message_id, group, sequence, f"{publisher}.{number}", place, began, ended, body_of(message_id)
                )


def body_of(message_id: str) -> str:
    """What a message says."""
    return f"this is {message_id}"


def words(feed: Feed, publisher: int, dsn: str, schema: str, log: Path) -> list[str]:
    """The words of the process."""
    return [sys.executable, "-m", __name__, json.dumps(asdict(feed)), str(publisher), dsn, schema, str(log)]


def _attempts(log: Path) -> Iterator[tuple[int, int, int | None]]:
    """(batch, began, ended or None) of each transaction that was begun."""
    told = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for line, following in pairwise([*told, {}]):
        if "began" in line:
            yield line["batch"], line["began"], following.get("ended")


def _publish(box: sq.MessageBox, batch: list[tuple[str, str, int]]) -> None:
    messages = [
        sq.Message(type=TYPE, message_id=message_id, body=body_of(message_id).encode(), context={KEY: key, NUMBER: n})
        for message_id, key, n in batch
    ]
    with box.session() as tx:
        tx.publish(messages)


@ends_without_server
def main(feed: Feed, publisher: int, dsn: str, schema: str, path: Path) -> None:
    """Publish what hasn't certainly been published yet."""
    done = {number for number, _, ended in _attempts(path) if ended is not None}
    with sq.MessageBox.open(dsn, schema=schema, connections=1) as box, path.open("a", buffering=1) as log:
        for number, batch in enumerate(feed.batches(publisher)):
            while number not in done:
                log.write(json.dumps({"batch": number, "began": time.monotonic_ns()}) + "\n")
                with tells_when_unavailable():
                    _publish(box, batch)
                    log.write(json.dumps({"batch": number, "ended": time.monotonic_ns()}) + "\n")
                    done.add(number)


if __name__ == "__main__":
    feed, publisher, dsn, schema, log = sys.argv[1:]
    main(Feed(**json.loads(feed)), int(publisher), dsn, schema, Path(log))
