"""``seriatim services``: list the services between which dialogs run."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.cli.options.listing import list_command
from seriatim.cli.shown.table import Column, Table
from seriatim.pipeline.declared.service import Service

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
