"""Numbers in words: a number with its noun, and a run of numbers."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun: ``1 group``, ``2,000 groups``, ``0 batches``."""
    return f"{number:,} {noun if number == 1 else plural or plural_of(noun)}"


def numbers_text(first: int | None, last: int | None) -> str | None:
    """A run of numbers: ``7``, ``7..9``; None: there is none."""
    if last is None:
        return None
    return str(first) if first == last else f"{first}..{last}"


def plural_of(noun: str) -> str:
    """The regular plural of a noun: groups, entries, batches."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
