"""The command ``seriatim``: finds the commands and turns errors into one clear line and an exit code."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from seriatim.cli.group_help import Commands
from seriatim.cli.nouns import VERBS, brought_to_commands
from seriatim.cli.plain import in_lines
from seriatim.cli.text import checked_texts
from seriatim.errors import DeploymentError, InvariantBroken, SeriatimError, Unavailable, UntrustedData, UsageError

__all__ = ["EXIT_CODES", "main"]

#: Exit codes, by the party who has to act. 1: the command did its work and the answer is no.
EXIT_CODES = {UsageError: 2, DeploymentError: 3, InvariantBroken: 4, Unavailable: 5}

_NAME = "seriatim"
#: The key under which a command's arguments are kept.
_GIVEN = "seriatim.cli.main.given"

# Each is a function of that name (with an underscore) in the module of that name. They are imported when they
# are needed; none imports Spark before it runs.
_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "If something stands still": (
        "console",
        "doctor",
        "health",
        "top",
        "find",
        "groups",
        "group",
        "bulk",
        "faults",
        "dead-letters",
        "set-aside",
        "unrouted",
        "trace",
        "events",
        "log",
    ),
    "Begin": ("demo", "init", "docs"),
    "Pipelines": ("check", "run", "pipeline"),
    "Message box": (
        *("box", "publish", "queues", "queue", "messages", "subscriptions", "subscription", "types"),
        *("services", "contracts", "dialogs", "instances", "schedules", "schedule"),
        *("link", "transmission", "regions", "journal"),
    ),
    "Workers": ("work", "serve", "workers"),
    "Shell": ("completion",),
}
_COMMANDS = tuple(sorted(name for names in _SECTIONS.values() for name in names))


class _Commands(Commands):
    """The commands, imported late; errors of seriatim become messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def sections(self, ctx: click.Context) -> Mapping[str, Sequence[str]]:
        # The verbs of a noun are told of beside the list that it stands for.
        return {heading: [one for one in names if one not in VERBS.values()] for heading, names in _SECTIONS.items()}

    def described(self, ctx: click.Context, name: str, command: click.Command) -> str:
        text = super().described(ctx, name, command)
        return f"{text} Verbs: {', '.join(self._verbs(ctx, VERBS[name]))}." if name in VERBS else text

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        return super().resolve_command(ctx, brought_to_commands(args, lambda name: self._verbs(ctx, name)))

    def _verbs(self, ctx: click.Context, name: str) -> list[str]:
        command = self.get_command(ctx, name)
        return command.list_commands(ctx) if isinstance(command, click.Group) else []

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = f"seriatim.cli.{name}"
        try:
            command = checked_texts(getattr(importlib.import_module(module), name))
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            return None  # one command that is not there shall not take the others away
        if cmd_name in VERBS:
            verbs = ", ".join(self._verbs(ctx, VERBS[cmd_name]))
            command.epilog = f"Verbs: {verbs}. See {_NAME} {cmd_name} VERB --help."
        return command

    def invoke(self, ctx: click.Context) -> Any:
        if os.environ.get("NO_COLOR"):
            ctx.color = False
        try:
            try:
                return super().invoke(ctx)
            except UntrustedData as error:
                if not _trusted(error):
                    raise
            # The command hasn't touched data that aren't trusted, so it may run again.
            with self.make_context(ctx.info_name, ctx.meta[_GIVEN]) as again:
                return super().invoke(again)
        except SeriatimError as error:
            _tell(error)
            ctx.exit(_exit_code(error))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_GIVEN] = [*args]
        return super().parse_args(ctx, args)


def _trusted(error: UntrustedData) -> bool:
    """Ask at a terminal whether the data are to be trusted, and note a yes."""
    from seriatim.box.server.embedded import trust  # noqa: PLC0415 -- the driver, when it is needed

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    click.echo(in_lines(f"{error.where}: {error.what}."), err=True)
    if not click.confirm("Do you trust them?", err=True):
        return False
    trust(Path(error.where))
    return True


def _tell(error: SeriatimError) -> None:
    if isinstance(error, InvariantBroken):
        click.echo(traceback.format_exc(), err=True)
        click.echo("This is a bug in seriatim. Please report it with the text above.", err=True)
    click.echo(f"{click.style('error', fg='red', bold=True)}: {in_lines(str(error))}", err=True)


def _exit_code(error: SeriatimError) -> int:
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"Words such as group, hole and turn are explained by `{_NAME} docs glossary`; `{_NAME} docs` lists all pages.",
)
@click.version_option(package_name="seriatim", prog_name="seriatim")
def main() -> None:
    """Put scrambled messages back in order, per group, and deliver each once.

    Begin with `seriatim demo`; then write a pipeline file, `seriatim check` it and `seriatim run` it. A noun without a verb
    lists: `seriatim groups`; with a verb it acts on one: `seriatim group show KEY`.
    """
