"""Chores: work for a box that one process at a time does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg

from seriatim.box.connection.access import Access


class ChoreTaken(Exception):
    """Another process does the chore."""


def alone(access: Access, chore: str) -> Access:
    """A box whose transactions each claim a chore, which no other process does meanwhile; no second connection is needed."""

    @contextmanager
    def connect() -> Iterator[psycopg.Connection]:
        with access.transaction() as transaction:
            if not transaction.value("claim_chore", chore=chore):
                raise ChoreTaken
            yield transaction.connection

    return replace(access, connect=connect)
