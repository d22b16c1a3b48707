"""``seriatim box grant``, ``revoke`` and ``grants``: the rights of applications' roles on queues and locations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Column, Table, json_option

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox
    from seriatim.box.operators.grant import Grant

__all__ = ["GRANTS", "grant", "grants", "revoke"]

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
    Column("id_space", "ID SPACE", shown=lambda one: one.id_space or '""'),
    row="seriatim.box.operators.grant:Grant",
    nothing=None,
)


def _rights(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name rights."""
    many: dict[str, Any] = {"multiple": True, "metavar": "QUEUE"}
    command = click.option(
        "--dispense", multiple=True, metavar="LOCATION", help="Dispense tickets of this location; may be repeated."
    )(command)
    of_type: dict[str, Any] = {"multiple": True, "metavar": "TYPE"}
    command = click.option("--type", "types", help="Subscribe to messages of this type; may be repeated.", **of_type)(
        command
    )
    command = click.option(
        "--route", is_flag=True, help="Route, and thereby read, the messages that others publish through SQL."
    )(command)
    command = click.option(
        "--operate", help="Mend the groups of this queue: retry, skip, suspend and so on; may be repeated.", **many
    )(command)
    command = click.option(
        "--see-bodies", help="Look at this queue, with the bodies of its messages; may be repeated.", **many
    )(command)
    command = click.option("--see", help="Look at this queue, without bodies; may be repeated.", **many)(command)
    command = click.option("--subscribe", help="Create subscriptions for this queue; may be repeated.", **many)(command)
    command = click.option("--receive", help="Receive from this queue; may be repeated.", **many)(command)
    return click.option("--publish", help="Publish to this queue; may be repeated.", **many)(command)


@click.command("grant")
@click.argument("role")
@_rights
@click.option(
    "--id-space",
    metavar="NAME",
    help="The space in which its message ids are unique (default: the role's name; \"\": the owner's space).",
)
@on_box
def grant(box: MessageBox, *, role: str, **rights: Any) -> None:
    """Grant the ROLE of an application further rights on a box."""
    box.grant(role, **rights)


@click.command("revoke")
@click.argument("role")
@_rights
@on_box
def revoke(box: MessageBox, *, role: str, **rights: Any) -> None:
    """Revoke rights of a ROLE: the rights that the options name, or all rights if they name none."""
    box.revoke(role, **rights)


@click.command("grants")
@on_box
@json_option("Print a JSON list.", GRANTS)
def grants(box: MessageBox, *, json_: bool) -> None:
    """List the roles of applications with their rights on queues and locations."""
    GRANTS.print(box.grants(), json_=json_)
