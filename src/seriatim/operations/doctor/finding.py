"""`Finding`: the result of one check of `seriatim doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: The page that says for each finding about a box what it means and which command mends it.
PAGE = "docs/how-to/what-to-do-when.md"


class State(StrEnum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Args:
        name: the name of the check.
        state: ok, warning (it works with a drawback) or wrong (it won't work, or it needs a hand).
        found: the result, one line.
        remedy: what to do; empty if nothing has to be done.
        page: the place in the documents that says more; empty if nothing has to be done.
        queue: the queue to look at first, if the finding isn't about groups or the box; else None.
    """

    name: str
    state: State
    found: str
    remedy: str = ""
    page: str = ""
    queue: str | None = None
