"""Options that the commands for workers share, ``work`` and ``serve``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

__all__ = ["worker_options"]


def worker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``transient``, ``business``, ``log_level`` and ``no_wait``."""
    options = (
        click.option(
            "--transient", multiple=True, metavar="MODULE:CLASS",
            help="Retry after exceptions of this class even if the handler's own code raised them; may be repeated.",
        ),
        click.option(
            "--business", multiple=True, metavar="MODULE:CLASS",
            help="Fail at once at exceptions of this class, as at seriatim.Business; may be repeated.",
        ),
        click.option(
            "--log-level", type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False), default="info",
            show_default=True, help="Log messages of at least this level.",
        ),
        click.option("--no-wait", is_flag=True, help="End with exit code 5 if the database is away (default: wait for it)."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command
