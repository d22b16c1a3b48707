"""``seriatim types``: list the message types with their properties."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.pipeline.files.json_form import to_json

TYPES: Table[dict[str, object]] = Table(
    "A message type",
    Column("type", None, value=lambda one: one["name"], meaning="its name, compared byte for byte"),
    row="seriatim.pipeline.types.message_type:MessageType",  # whose JSON a row is
    lacks=("name",),
)


@click.command()
@json_option("Print a JSON list.", TYPES)
@on_box
def types(box: MessageBox, *, json_: bool) -> None:
    """List the message types of a message box, with their properties and the check of their bodies."""
    found = [one for _, one in sorted(box.definitions().types.items())]
    if json_:
        print_rows(TYPES, [to_json(one) for one in found], json_=True)
        return
    for one in found:
        checked = "" if one.validation == "none" else f" ({one.validation})"
        click.echo(f"{one.name}{checked}")
        paths = {promotion.name: " or ".join(promotion.paths) for promotion in one.promotions()}
        for name, kind in one.types().items():
            click.echo(f"  {name}: {kind}" + (f", from {paths[name]}" if name in paths else ""))
    if not found:
        click.echo("there are no message types")
