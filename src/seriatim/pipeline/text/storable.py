"""The rule for text that PostgreSQL can store."""

from __future__ import annotations

import re

from seriatim.errors import UsageError, shown

#: Half of a character: a string of Python's can contain it, UTF-8 can't.
_SURROGATE = re.compile("[\ud800-\udfff]")


def fits_text(value: str) -> bool:
    """Return whether PostgreSQL, or a file, can store the text: it has no NUL and no half of a surrogate pair."""
    return "\0" not in value and (value.isascii() or not _SURROGATE.search(value))


def checked_text(value: object, what: str) -> str:
    """Check a text, and return it; `what`: the kind of text, for the error, e.g. ``a message's id``."""
    if not isinstance(value, str) or not fits_text(value):
        raise UsageError(
            f"{shown(value, 80)} is not {what}", remedy="text without NUL and without halves of surrogate pairs"
        )
    return value
