"""The fields of a line of the log: what it says (`event`), and what it is about. The reference lists all events."""

from __future__ import annotations

__all__ = ["fields"]


def fields(event: str, /, **about: object) -> dict[str, object]:
    """The fields of a line, for ``extra``; those that are None are left out.

    Args:
        event: which line it is; its name stays, whatever becomes of the text.
        about: what it is about: `queue`, `group`, `message_id`, `attempt`, `worker` and others. None of the names that a record of the
            log has already.
    """
    return {"event": event} | {name: value for name, value in about.items() if value is not None}
