"""Text that a command is given: it is UTF-8, whichever option or argument it is."""

from __future__ import annotations

from typing import Any

import click

from seriatim.pipeline.text.storable import fits_text

__all__ = ["checked_texts"]


class _Text(click.types.StringParamType):
    """Text; bytes of the command line that are none would fail where it is sent or printed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        if not fits_text(text):
            self.fail(f"{text!a} is not UTF-8", param, ctx)
        return text


def checked_texts(command: click.Command) -> click.Command:
    """A command, and those that it has, whose options and arguments take no text but that; files may be named anyhow."""
    for one in command.params:
        if type(one.type) is click.types.StringParamType:
            one.type = _Text()
    for inner in getattr(command, "commands", {}).values():
        checked_texts(inner)
    return command
