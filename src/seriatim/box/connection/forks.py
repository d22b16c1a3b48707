"""Refuse sessions, deliveries and connections in a forked process: only the process that made them can use them."""

from __future__ import annotations

import os

from seriatim.errors import UsageError


def check_process(made_in: int) -> None:
    """Check that a session, a delivery or a connection is used in the process that made it."""
    if os.getpid() != made_in:
        raise UsageError(
            "the session was begun before this process was forked", remedy="begin one here: with box.session() as tx: …"
        )
