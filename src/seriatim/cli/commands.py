"""A command that has commands, which lists each with its whole first sentence."""

from __future__ import annotations

import click

__all__ = ["Commands"]

#: So long is no first sentence.
_WHOLE = 1_000


class Commands(click.Group):
    """A group of commands; click would cut what it says of each to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list, each in as many lines as it takes."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_WHOLE)) for name, one in commands if one is not None])
