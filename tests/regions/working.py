"""What tests of workers in two regions share: handlers that note what they got, and a journal that goes back in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import seriatim as sq
from seriatim.regions.journal.journal import Journal

__all__ = ["Handled", "as_worker", "go_back", "keep"]

_TABLES = ("journal", "queues", "sessions", "entries", "regions")


@dataclass
class Handled:
    """What handlers got, outside of any database.

    Args:
        regions: the regions.
        got: session, number and region, in order.
    """

    regions: sq.Regions
    got: list[tuple[str, int, str]] = field(default_factory=list)

    def work(self, region: str) -> list[tuple[str, int]]:
        """Work in a region until nothing can be handed out; what its handler got."""
        before = len(self.got)
        sq.RegionalWorker(self.regions, "status", self._handler(region), region=region, workers=2).run(until_idle=True)
        return sorted((session, number) for session, number, _ in self.got[before:])

    def of(self, session: str) -> list[int]:
        """The numbers of a session, in the order in which they were handled."""
        return [number for one, number, _ in self.got if one == session]

    def _handler(self, region: str) -> Callable[[Any, Any], None]:
        return lambda received, _: self.got.append((received.group, received.sequence, region))


def keep(journal: Journal) -> None:
    """Make a copy of all that the journal has."""
    with journal.transaction() as tx:
        for table in _TABLES:
            tx.connection.execute(f"CREATE TABLE kept_{table} AS TABLE seriatim_journal.{table}".encode())


def go_back(journal: Journal) -> None:
    """Let the journal be as it was when the copy was made, as after a failover to a standby that lacks something."""
    with journal.transaction() as tx:
        for table in _TABLES:
            tx.connection.execute(f"DELETE FROM seriatim_journal.{table}".encode())
            tx.connection.execute(f"INSERT INTO seriatim_journal.{table} TABLE kept_{table}".encode())


@contextmanager
def as_worker(box: sq.MessageBox) -> Iterator[sq.Session]:
    """A session that receives from queues of two regions, as a region's worker does."""
    with box.session() as tx:
        tx.by_regions = True
        yield tx
