"""What can be seen of a query on Spark with a box, from outside."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

import seriatim as sq


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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()
