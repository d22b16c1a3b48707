"""What several lists have in common: counts of errors, and pages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

_Row = TypeVar("_Row")
_Place = TypeVar("_Place")


@dataclass(frozen=True, slots=True)
class Page(Generic[_Row, _Place]):
    """A page of a list. `following`: the place after which the next page begins; None: there are no more rows. `read`: how many rows were
    read at least, where few fit.
    """

    rows: list[_Row]
    following: _Place | None
    read: int


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often an error is in a list.

    Args:
        error: the class of the error; for what no handler failed at, the reason.
        count: how often.
        example: the newest one's text; None if there is none.
        last: the time of the newest one; None if it isn't known.
    """

    error: str
    count: int
    example: str | None
    last: datetime | None
