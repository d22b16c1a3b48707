"""``seriatim contracts``: list the contracts of dialogs."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.pipeline.declared.contract import Contract

CONTRACTS: Table[Contract] = Table(
    "A contract",
    Column("contract", None, value=lambda one: one.name, meaning="its name, compared byte for byte"),
    Column("types", None, value=lambda one: dict(one.types)),
    row=Contract,
    lacks=("name",),
)


@click.command()
@json_option("Print a JSON list.", CONTRACTS)
@on_box
def contracts(box: MessageBox, *, json_: bool) -> None:
    """List the contracts of a message box, with the sender of each message type."""
    found = [one for _, one in sorted(box.definitions().contracts.items())]
    if json_:
        print_rows(CONTRACTS, found, json_=True)
        return
    for one in found:
        click.echo(one.name)
        for kind, sender in one.types.items():
            click.echo(f"  {kind}: {sender}")
