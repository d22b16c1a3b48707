"""The rule for names of declarations."""

from __future__ import annotations

from seriatim.errors import Argument, UsageError, shown
from seriatim.pipeline.text.storable import fits_text

_LONGEST = 128


def checked_name(name: object, what: str, argument: Argument = ()) -> str:
    """Check a name, and return it; `what`: the kind of name, for the error, e.g. ``a queue's name``; `argument`: the parameter."""
    if not isinstance(name, str) or not fits_text(name) or not 1 <= len(name) <= _LONGEST:
        raise UsageError(
            f"{shown(name)} is not {what}", remedy=f"1 to {_LONGEST} characters, without NUL", argument=argument
        )
    return name
