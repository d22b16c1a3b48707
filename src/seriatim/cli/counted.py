"""A number with its noun, in the right number: ``1 group``, ``1,200 groups``."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    Args:
        number: how many.
        noun: the noun for one of them.
        plural: the noun for any other number; by default with an s.
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
