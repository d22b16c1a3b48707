"""Names of what can be declared: which text can be one."""

from __future__ import annotations

from seriatim.errors import UsageError

__all__ = ["checked_name"]

_LONGEST = 128


def checked_name(name: object, what: str) -> str:
    """The name, if it can be one; `what`: whose name it is, for the error, e.g. ``a queue's name``.

    Raises:
        UsageError: it is no text, empty, too long, or has what PostgreSQL or a file can't hold.
    """
    # Half a surrogate pair can be in a string of Python's, and nowhere else.
    whole = isinstance(name, str) and not any("\ud800" <= one <= "\udfff" for one in name)
    if not isinstance(name, str) or not whole or not 1 <= len(name) <= _LONGEST or "\0" in name:
        raise UsageError(f"{name!r} is not {what}", remedy=f"1 to {_LONGEST} characters, without NUL")
    return name
