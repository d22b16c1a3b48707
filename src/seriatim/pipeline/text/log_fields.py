"""The fields of a line of the log: what it says (`event`), and what it is about. The reference lists all events."""

from __future__ import annotations

__all__ = ["fields"]


def fields(event: str, /, **about: object) -> dict[str, object]:
    """Return the fields of a line, for ``extra``; those that are None are left out."""
    return {"event": event} | {name: value for name, value in about.items() if value is not None}
