"""A queue of orders that a query on Spark takes out of a box, and what can be seen of that query from outside."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import seriatim as sq
from tests.faults.process import Run

GROUPS, MESSAGES = 20, 1_000


def publish_backwards(box: sq.MessageBox) -> None:
    """Publish orders of some customers, the last version of each first."""
    numbers = [(f"c{n % GROUPS}", n // GROUPS + 1) for n in range(MESSAGES)]
    with box.session() as tx:
        tx.publish(
            sq.Message(type="order", body=b"x" * 100, context={"customer": customer, "version": version})
            for customer, version in reversed(numbers)
        )


class Watch:
    """Looks at the box, and at the checkpoint of one query."""

    def __init__(self, box: sq.MessageBox, checkpoint: Path) -> None:
        self._connection = psycopg.connect(box.dsn, autocommit=True)
        self._schema = box.schema
        self._checkpoint = checkpoint

    def one(self, query: str) -> Any:
        """The one value that a query gives."""
        return self._connection.execute(query.format(schema=self._schema)).fetchone()[0]

    def last(self, name: str) -> int:
        """The last batch that a log of the checkpoint has: ``offsets``, ``commits``; -1: none."""
        folder = self._checkpoint / name
        found = [int(file.name) for file in folder.glob("*") if file.name.isdecimal()] if folder.exists() else []
        return max(found, default=-1)

    def is_in_hand(self, _run: Run) -> bool:
        """The first batch is made in the box, and Spark may not know it yet."""
        return self.one("SELECT count(*) FROM {schema}.entries WHERE batch IS NOT NULL") > 0

    def is_staged(self, _run: Run) -> bool:
        """Parts are staged, and not merged."""
        return self.one("SELECT count(*) FROM {schema}.parts") > 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
