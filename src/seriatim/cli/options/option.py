"""Options by their kinds; the last text is the help. A default is shown if it says something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def option(*texts: str, **settings: Any) -> Callable[..., Any]:
    """An option with a value, with the further settings of `click.option`."""
    *names, told = texts
    return click.option(*names, help=told, **{"show_default": bool(settings.get("default")), **settings})


def flag(*texts: str) -> Callable[..., Any]:
    return option(*texts, is_flag=True)


def repeated(*texts: str, **settings: Any) -> Callable[..., Any]:
    *names, told = texts
    return option(*names, f"{told.removesuffix('.')}; may be repeated.", multiple=True, **settings)


def together(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Add options and arguments to a command, in this order."""

    def with_them(command: Callable[..., Any]) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return with_them
