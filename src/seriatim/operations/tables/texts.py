"""Texts of cells that several tables have."""

from __future__ import annotations

#: The dispositions of messages that were set aside, which are fields of counts.
SET_ASIDE = ("late", "duplicate", "invalid", "rejected", "dead")
_LONGEST = 80


def first_line(text: str) -> str:
    """The first line of a text, 80 characters of it at most."""
    line = text.partition("\n")[0]
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def set_aside_counts(counts: object) -> str:
    """How many messages were set aside, by disposition: "3 late, 1 dead"."""
    return ", ".join(f"{getattr(counts, what):,} {what}" for what in SET_ASIDE if getattr(counts, what))
