"""A handler for worker processes of a region."""

from __future__ import annotations

__all__ = ["note"]


def note(received, tx):
    """Write in the journal's database what was handled."""
    tx.connection.execute(
        "INSERT INTO handled (session, number, region) VALUES (%s, %s, 'process')", [received.group, received.sequence]
    )
