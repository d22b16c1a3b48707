"""``seriatim completion``: print what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from seriatim.errors import UsageError

_NAME = "seriatim"
_VARIABLE = "_SERIATIM_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script with which a shell completes commands and options.

    \b
    bash, in ~/.bashrc:  eval "$(seriatim completion bash)"
    zsh, in ~/.zshrc:    eval "$(seriatim completion zsh)"
    fish:                seriatim completion fish > ~/.config/fish/completions/seriatim.fish
    """  # noqa: D301 -- click's mark of lines that stay as they are
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"there is no completion for {shell}")
    found = kind(context.find_root().command, {}, _NAME, _VARIABLE)
    # Not `source()`, which asks bash for its version and warns of an old one on standard output's behalf.
    click.echo(found.source_template % found.source_vars())
