"""``seriatim docs``: list the pages of the documents, read one, or search in all."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.markdown import Markdown

from seriatim.cli.options.option import option
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.errors import UsageError
from seriatim.operations import pages
from seriatim.operations.pages import Found, Page

PAGES: Table[Page] = Table(
    "A page of the documents",
    Column("name"),
    Column("title", meaning="the text of its first heading", kind="str"),
    Column("path", None, value=lambda one: str(one.path), kind="str"),
    row=Page,
)
FOUND: Table[Found] = Table(
    "A place in the documents",
    Column("page", meaning="the page and the heading, as `seriatim docs` takes them", kind="str"),
    Column("title", meaning="the page's title, and the heading", kind="str"),
    Column("line", meaning="the first line with one of the words, shortened", kind="str"),
    row=Found,
)


@click.command()
@click.argument("page", required=False)
@option("--search", "List the places that have all these words.", metavar="WORDS")
@json_option("Print a JSON list of the pages, or of the places.", PAGES, FOUND)
def docs(*, page: str | None, search: str | None, json_: bool) -> None:
    """List the pages of the documents, or print one: `seriatim docs glossary`.

    PAGE is a name such as glossary or reference/dialogs, or a path as it stands in a message; behind a `#` stands a heading
    of the page. On a terminal the page is shown with marks and in a pager, elsewhere as Markdown.
    """
    if search is not None:
        if page is not None:
            raise UsageError("--search looks in all pages", remedy="leave PAGE out")
        print_rows(FOUND, pages.search(search), json_=json_)
        return
    if page is not None and json_:
        raise UsageError("--json lists pages, and prints none", remedy="leave out PAGE, or --json")
    if page is None:
        print_rows(PAGES, pages.pages(), json_=json_)
        return
    name, _, anchor = page.partition("#")
    found = pages.page(name)
    text = found.part(anchor) if anchor else found.text
    if not sys.stdout.isatty():
        click.echo(text)
        return

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
