"""Paths with named parts, such as ``queues/{queue}``."""

from __future__ import annotations

from collections.abc import Sequence


def matched(path: str, parts: Sequence[str]) -> dict[str, str] | None:
    """The named parts of a path that fits; None: it doesn't."""
    wanted = path.split("/")
    if len(wanted) != len(parts) or any(
        want[:1] != "{" and want != part for want, part in zip(wanted, parts, strict=True)
    ):
        return None
    return {want[1:-1]: part for want, part in zip(wanted, parts, strict=True) if want[:1] == "{"}
