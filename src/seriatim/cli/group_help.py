"""A group of commands, listed with the whole first sentence of each."""

from __future__ import annotations

import click

__all__ = ["Commands"]

#: Longer than any first sentence.
_WHOLE = 1_000


class Commands(click.Group):
    """A group of commands; click would cut each sentence to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, with as many lines for each as its sentence takes."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_WHOLE)) for name, one in commands if one is not None])
