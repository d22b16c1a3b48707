"""The location: where messages are received and numbered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seriatim.errors import Argument, UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Declaration, Kind, Whole, takes
from seriatim.kernel.groups.sequence import LAST_NUMBER

#: Where a message is received that doesn't say where.
DEFAULT_LOCATION = "box"
_LONGEST_NAME = 128


@dataclass(frozen=True)
class _LocationName(Kind):
    def check(self, value: Any) -> str:
        return checked_location(value, "name")


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Location(Declaration):
    """A place where messages are received, with a ticket counter of its own.

    Args:
        name: its name.
        last_number: the highest number of an epoch; after it, the next epoch begins at 1.

    Raises:
        UsageError: a name that is empty or too long, or a last number out of range.
    """

    name: str = takes(_LocationName())
    last_number: int = takes(Whole(1, LAST_NUMBER), LAST_NUMBER)


def checked_location(name: object, argument: Argument = ()) -> str:
    """Check that a value is a location's name, and return it; `argument`: the parameter."""
    if isinstance(name, str) and 1 <= len(name) <= _LONGEST_NAME and "\0" not in name:
        try:
            name.encode()
        except UnicodeEncodeError:
            pass
        else:
            return name
    raise UsageError(
        f"{shown(name)} is not a location's name",
        remedy=f"1 to {_LONGEST_NAME} characters, without NUL",
        argument=argument,
    )
