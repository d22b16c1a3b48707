"""`Finding`: the result of one check of `seriatim doctor`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from typing import TypeVar

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


def ok(found: str, remedy: str = "") -> Finding:
    """A finding of a check of `Checks`, which gives it its name."""
    return Finding("", State.OK, found, remedy)


def warning(found: str, remedy: str, queue: str | None = None) -> Finding:
    return Finding("", State.WARNING, found, remedy, queue=queue)


def wrong(found: str, remedy: str, queue: str | None = None) -> Finding:
    return Finding("", State.WRONG, found, remedy, queue=queue)


_Of = TypeVar("_Of")
_Look = Callable[[_Of], Finding | None]


class Checks(dict[str, Callable[[_Of], Finding]]):
    """Checks by the names of their findings, in the order of the report."""

    def named(self, name: str, fine: str = "") -> Callable[[_Look[_Of]], Callable[[_Of], Finding]]:
        """Add a function as the check of a name. `fine`: what is told where the function finds nothing."""

        def added(look: _Look[_Of]) -> Callable[[_Of], Finding]:
            @wraps(look)
            def check(of: _Of) -> Finding:
                return replace(look(of) or ok(fine), name=name)

            self[name] = check
            return check

        return added
