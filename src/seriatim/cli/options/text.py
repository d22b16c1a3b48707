"""Text of options and arguments: it must be UTF-8."""

from typing import Any

import click

from seriatim.pipeline.text.storable import fits_text


class _Text(click.types.StringParamType):
    """Text; bytes that are not UTF-8 would fail later, where the text is sent or printed."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = super().convert(value, param, ctx)
        if not fits_text(text):
            self.fail(f"{text!a} is not UTF-8", param, ctx)
        return text


def checked_texts(command: click.Command) -> click.Command:
    """Make the options and arguments of a command and its sub-commands accept UTF-8 only; file names may be any bytes."""
    for one in command.params:
        if type(one.type) is click.types.StringParamType:
            one.type = _Text()
    for inner in getattr(command, "commands", {}).values():
        checked_texts(inner)
    return command
