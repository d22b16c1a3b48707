"""``seriatim docs``: list the pages of the documents, or read one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from seriatim.cli.table import Column, Table, json_option

if TYPE_CHECKING:
    from seriatim.operations.pages import Page

__all__ = ["PAGES", "docs"]

PAGES: Table[Page] = Table(
    "A page of the documents",
    Column("name"),
    Column("title", meaning="the text of its first heading", kind="str"),
    Column("path", None, value=lambda one: str(one.path), kind="str"),
    row="seriatim.operations.pages:Page",
)


@click.command()
@click.argument("page", required=False)
@json_option("Print a JSON list of the pages.", PAGES)
def docs(*, page: str | None, json_: bool) -> None:
    """List the pages of the documents, or print one: `seriatim docs glossary`.

    PAGE is a name such as glossary or reference/dialogs, or a path as it stands in a message; behind a `#` stands a heading
    of the page. On a terminal the page is shown with marks and in a pager, elsewhere as Markdown.
    """
    from seriatim.operations import pages  # noqa: PLC0415 -- what only this command needs

    if page is None or json_:
        PAGES.print(pages.pages(), json_=json_)
        return
    name, _, anchor = page.partition("#")
    found = pages.page(name)
    text = found.part(anchor) if anchor else found.text
    if not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.console import Console  # noqa: PLC0415 -- only for a terminal
    from rich.markdown import Markdown  # noqa: PLC0415

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
