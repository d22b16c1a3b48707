"""Whether something names a message box, or there is one in this folder. Nothing is made or started for the answer."""

from __future__ import annotations

import os
from pathlib import Path

from seriatim.box.connection.connections import FOLDER, VARIABLE
from seriatim.errors import UsageError

__all__ = ["NO_BOX", "check_here", "is_here"]

#: What to do where there is no box.
NO_BOX = (
    f"cd to the folder of the box; or name its PostgreSQL: --dsn or {VARIABLE}; or begin a project: seriatim init DIR"
)


def is_here(dsn: str | None) -> bool:
    """Whether a DSN names a box, or the embedded PostgreSQL has its data in this folder.

    Args:
        dsn: the DSN that the caller was given.
    """
    if dsn is not None or VARIABLE in os.environ:
        return True
    try:
        return (FOLDER / "data").exists()
    except PermissionError:  # somebody else's, which is told when it is opened
        return True


def check_here(dsn: str | None) -> None:
    """Raise `UsageError` where there is no box."""
    if not is_here(dsn):
        raise UsageError(no_box(), remedy=NO_BOX)


def no_box() -> str:
    """That there is no box, and where one was looked for."""
    return f"there is no message box here: no {FOLDER} in {Path.cwd()}, and {VARIABLE} is not set"
