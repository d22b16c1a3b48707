"""`Finding`: the result of one check of `seriatim doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Finding", "State"]


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
        state: ok, warning (it works with a drawback) or wrong (it won't work).
        found: the result, one line.
        remedy: what to do; empty if nothing has to be done.
    """

    name: str
    state: State
    found: str
    remedy: str = ""
