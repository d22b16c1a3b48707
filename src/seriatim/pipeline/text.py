"""Which text can be kept."""

from __future__ import annotations

import re

__all__ = ["fits_text"]

#: Half of a character, which can be in a string of Python's, and UTF-8 can't say.
_SURROGATE = re.compile("[\ud800-\udfff]")


def fits_text(value: str) -> bool:
    """Whether PostgreSQL, or a file, can keep it as text: it has no NUL and no half of a surrogate pair."""
    return "\0" not in value and (value.isascii() or not _SURROGATE.search(value))
