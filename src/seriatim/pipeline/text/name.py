"""The rule for names of declarations."""

from __future__ import annotations

from seriatim.errors import UsageError, shown
from seriatim.pipeline.text.storable import fits_text

__all__ = ["checked_name"]

_LONGEST = 128


def checked_name(name: object, what: str) -> str:
    """The name, if it can be one; `what`: whose name it is, for the error, e.g. ``a queue's name``.

    Raises:
        UsageError: it is no text, empty, too long, or has what PostgreSQL or a file can't hold.
    """
    if not isinstance(name, str) or not fits_text(name) or not 1 <= len(name) <= _LONGEST:
        raise UsageError(f"{shown(name)} is not {what}", remedy=f"1 to {_LONGEST} characters, without NUL")
    return name
