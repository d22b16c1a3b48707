"""``seriatim services``: list the services between which dialogs run."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.pipeline.declared.service import Service

SERVICES: Table[Service] = Table(
    "A service",
    Column("service", value=lambda one: one.name, meaning="its name, compared byte for byte"),
    Column("queue"),
    Column("contracts", value=lambda one: list(one.contracts)),
    Column("retention"),
    Column("at", value=lambda one: list(one.at), meaning="the links to the boxes that have it; empty: it is here"),
    row=Service,
    nothing="there are no services",
)


@click.command()
@json_option("Print a JSON list.", SERVICES)
@on_box
def services(box: MessageBox, *, json_: bool) -> None:
    """List the services of a message box, with their queues and the contracts that they accept."""
    known = box.definitions().services
    print_rows(SERVICES, [one for _, one in sorted(known.items())], json_=json_)
