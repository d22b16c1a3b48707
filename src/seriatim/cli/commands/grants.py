"""``seriatim box grant``, ``revoke`` and ``grants``: the rights of applications' roles on queues, locations and services."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.operators.grant import Grant
from seriatim.cli.options.option import flag, option, repeated, together
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.operations import grants as operations

GRANTS: Table[Grant] = Table(
    "The rights of a role",
    Column("role", "ROLE"),
    Column("publish", "PUBLISH"),
    Column("receive", "RECEIVE"),
    Column("subscribe", "SUBSCRIBE"),
    Column("route", "ROUTE", shown=lambda one: "yes" if one.route else ""),
    Column("dispense", "DISPENSE"),
    Column("types", "TYPES", after="SUBSCRIBE"),
    Column("see", "SEE", after="DISPENSE"),
    Column("see_bodies", "SEE BODIES", after="SEE"),
    Column("operate", "OPERATE", after="SEE BODIES"),
    Column("send", "SEND", after="OPERATE"),
    Column("id_space", "ID SPACE", shown=lambda one: one.id_space or '""'),
    row=Grant,
    nothing=None,
)


def _many(option: str, help_: str, metavar: str = "QUEUE") -> Callable[..., Any]:
    return repeated(*option.split(), f"{help_}.", metavar=metavar)


#: The options that name rights.
_rights = together(
    _many("--publish", "Publish to this queue"),
    _many("--receive", "Receive from this queue"),
    _many("--subscribe", "Create subscriptions for this queue"),
    _many("--see", "Look at this queue, without bodies"),
    _many("--see-bodies", "Look at this queue, with the bodies of its messages"),
    _many("--operate", "Mend the groups of this queue: retry, skip, suspend and so on"),
    flag("--route", "Route, and thereby read, the messages that others publish through SQL."),
    _many("--type types", "Subscribe to messages of this type", "TYPE"),
    _many("--dispense", "Dispense tickets of this location", "LOCATION"),
    _many("--send", "Send in dialogs to this service of another box", "SERVICE"),
)


@click.command("grant")
@click.argument("role")
@_rights
@option(
    "--id-space",
    "The space in which its message ids are unique (default: the role's name; \"\": the owner's space).",
    metavar="NAME",
)
@on_box
def grant(box: MessageBox, *, role: str, **rights: Any) -> None:
    """Grant the ROLE of an application further rights on a box."""
    operations.grant(box, role, **rights)


@click.command("revoke")
@click.argument("role")
@_rights
@on_box
def revoke(box: MessageBox, *, role: str, **rights: Any) -> None:
    """Revoke rights of a ROLE: the rights that the options name, or all rights if they name none."""
    operations.revoke(box, role, **rights)


@click.command("grants")
@on_box
@json_option("Print a JSON list.", GRANTS)
def grants(box: MessageBox, *, json_: bool) -> None:
    """List the roles of applications with their rights on queues and locations."""
    print_rows(GRANTS, operations.grants(box), json_=json_)
