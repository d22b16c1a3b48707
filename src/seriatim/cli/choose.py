"""The options that choose groups, and the filter that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seriatim.kernel.states import GroupState

if TYPE_CHECKING:
    from seriatim.box.views.groups import GroupFilter

__all__ = ["choosing", "filter_of"]


def choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``queue``, ``state``, ``key``, ``older_than`` and ``error``."""
    options = (
        click.option("--queue", default=None, help="Only groups of this queue."),
        click.option(
            "--state",
            multiple=True,
            type=click.Choice([str(one) for one in GroupState]),
            help="Only groups in this state; may be repeated.",
        ),
        click.option(
            "--key", default=None, metavar="PATTERN", help="Only groups with a key that matches; * stands for any text."
        ),
        click.option(
            "--older-than",
            default=None,
            metavar="PERIOD",
            help="Only groups that have been in their state for longer, such as 5m.",
        ),
        click.option(
            "--error",
            default=None,
            metavar="TEXT",
            help="Only groups with this text in the reason for which they stopped.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def filter_of(
    queue: str | None, state: tuple[str, ...], key: str | None, older_than: str | None, error: str | None
) -> GroupFilter:
    """The filter of the options."""
    from seriatim.operations.groups import group_filter  # noqa: PLC0415 -- the driver, when it is needed

    return group_filter(queue, state=state, key=key, older_than=older_than, error=error)
