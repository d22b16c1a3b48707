"""``seriatim types``, ``contracts`` and ``services``: list what a box has defined besides queues and subscriptions."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.which import looks_at_box
from seriatim.cli.shown.table import Column, Table, print_rows
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.files.json_form import to_json

TYPES: Table[dict[str, object]] = Table(
    "A message type",
    Column("type", None, value=lambda one: one["name"], meaning="its name, compared byte for byte"),
    row="seriatim.pipeline.types.message_type:MessageType",  # whose JSON a row is
    lacks=("name",),
)


@click.command()
@looks_at_box(TYPES, told="Print a JSON list.")
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


CONTRACTS: Table[Contract] = Table(
    "A contract",
    Column("contract", None, value=lambda one: one.name, meaning="its name, compared byte for byte"),
    Column("types", None, value=lambda one: dict(one.types)),
    row=Contract,
    lacks=("name",),
)


@click.command()
@looks_at_box(CONTRACTS, told="Print a JSON list.")
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


SERVICES: Table[Service] = Table(
    "A service",
    Column("service", value=lambda one: one.name, meaning="its name, compared byte for byte"),
    Column("queue"),
    Column("contracts", value=lambda one: list(one.contracts)),
    Column("retention"),
    Column("at", value=lambda one: list(one.at), meaning="the links to the boxes that have it; empty: it is here"),
    row=Service,
    lacks=("name",),
    nothing="there are no services",
)


def _services(box: MessageBox) -> list[Service]:
    """List the services of a message box, with their queues and the contracts that they accept."""
    return [one for _, one in sorted(box.definitions().services.items())]


services = list_command("services", _services, SERVICES)
