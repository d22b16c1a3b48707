"""A group of commands, listed with the whole first sentence of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import click

from seriatim.errors import meant

#: Longer than any first sentence.
WHOLE = 1_000


class Commands(click.Group):
    """A group of commands; click would cut each sentence to one line."""

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        """The headings below which the commands are listed, with the commands of each."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in self.sections(ctx).items():
            rows = list(self._rows(ctx, names))
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; of a name that is none, say which was probably meant."""
        name = args[0]
        if not ctx.resilient_parsing and name[:1].isalpha() and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no command {name!r} ({self.hint(ctx, name) or f'{ctx.command_path} --help lists all'})")
        return super().resolve_command(ctx, args)

    def hint(self, ctx: click.Context, name: str) -> str:
        """Which command was probably meant by a name that is none; empty: that isn't known."""
        return meant(name, self.list_commands(ctx))

    def _rows(self, ctx: click.Context, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        for name in names:
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield name, command.get_short_help_str(WHOLE)
