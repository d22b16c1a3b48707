"""Commands that change things by their names, several at once, and print a line for each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.which import on_box
from seriatim.pipeline.text.plain import in_line


def changes(function: Callable[..., Iterable[object]]) -> Callable[..., Any]:
    """The argument ``names``, and the box: the function gets both, and returns what has changed."""

    @wraps(function)
    def run(box: MessageBox, names: tuple[str, ...], **options: Any) -> None:
        done = function(box, *names, **options)
        click.echo("\n".join(in_line(str(one)) for one in done) or "nothing to change")

    return click.argument("names", nargs=-1, required=True, metavar="NAME…")(on_box(run))
