"""A handler in a lease, of worker processes that are killed and frozen; what it did is in tables beside the box."""

from __future__ import annotations

import os
import time

import psycopg

from tests.faults.crew_handlers import _began, _first, note

#: Longer than any test waits.
_LOOKS = 20_000


def held_first(message, tx):
    """The first attempt of a message of the customer `slow` waits until a row says that it may go on; nothing is open."""
    _began(message, tx)
    if message.context["customer"] == "slow" and _first(message, tx):
        with psycopg.connect(os.environ["TEST_DSN"], autocommit=True) as connection:
            for _ in range(_LOOKS):
                if connection.execute(f"SELECT FROM {tx.access.schema}_go").rowcount:
                    break
                time.sleep(0.02)
    note(message, tx)
