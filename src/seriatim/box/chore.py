"""Work that one process at a time does for a box, whoever comes first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg.rows import tuple_row

from seriatim.box.box import MessageBox
from seriatim.box.statements import statement

__all__ = ["alone"]


@contextmanager
def alone(box: MessageBox, chore: str) -> Iterator[bool]:
    """Within the block nobody else does this chore; False where somebody does.

    A transaction is open that has a connection of the box for itself. Nothing is done in it, so no limit of idle ones counts.

    Args:
        box: the message box.
        chore: its name.

    Raises:
        Unavailable: no connection.
    """
    with box.session() as session, session.connection.cursor(row_factory=tuple_row) as cursor:
        (mine,) = cursor.execute(statement("claim_chore", box.schema), {"chore": chore}).fetchall()[0]
        yield bool(mine)
