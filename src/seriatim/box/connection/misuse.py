"""`Misuse`: the calling code is wrong, and the same call fails again. As a fault of a handler it is never retried."""

from __future__ import annotations

from seriatim.errors import UsageError


class Misuse(UsageError):
    """A call that can't succeed with any data at any time."""
