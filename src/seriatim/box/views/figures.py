"""Read all figures of a box in one statement, whose cost doesn't grow with the box. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import errors

from seriatim.box.connection.access import Transaction
from seriatim.errors import Unavailable

#: How many messages, and as many groups, are counted exactly, of all queues together.
_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a box shows."""

    #: The counted or measured thing, as the function ``figures`` of the schema names it.
    figure: str
    #: The queue, location or table; None: it is of the whole box.
    name: str | None
    #: The status, state or disposition; None: the figure has no kinds.
    kind: str | None
    value: float


def read_figures(transaction: Transaction, limit_s: float, most: int = _MOST) -> list[Figure]:
    """Return all figures of the queues that the role sees, and for the owner those of the box."""
    transaction.do("limit_statements", milliseconds=max(1, round(limit_s * 1000)))
    try:
        return transaction.rows("figures", Figure, most=most)
    except errors.QueryCanceled:
        transaction.connection.rollback()
        raise Unavailable(
            f"the figures of the box took longer than {limit_s:g} s", remedy="is the database busy? seriatim doctor"
        ) from None
