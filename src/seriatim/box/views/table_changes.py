"""The changes in a box, by how often each of its tables was changed. Reads none of them."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction


def changes_of(transaction: Transaction) -> dict[str, int]:
    """Return how often each table was changed, by its name; PostgreSQL reports it within about a second."""
    rows = transaction.rows("table_changes", schema_name=transaction.schema)
    return {str(row.name): int(row.changes) for row in rows}
