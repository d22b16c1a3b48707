"""Several options and arguments as one decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def together(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Add options and arguments to a command, in this order."""

    def with_them(command: Callable[..., Any]) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return with_them
