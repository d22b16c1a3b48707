"""``seriatim box grant``, ``revoke`` and ``grants``: which queues and locations the roles of applications may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

from seriatim.cli.which import as_json, in_columns, opened, which_box

__all__ = ["grant", "grants", "revoke"]


def _rights(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that name rights."""
    many: dict[str, Any] = {"multiple": True, "metavar": "QUEUE"}
    command = click.option(
        "--dispense", multiple=True, metavar="LOCATION", help="Take numbers of this location; once for each location."
    )(command)
    of_type: dict[str, Any] = {"multiple": True, "metavar": "TYPE"}
    command = click.option(
        "--type", "types", help="Match messages of this type with its subscriptions; once for each type.", **of_type
    )(command)
    command = click.option("--route", is_flag=True, help="Route what others publish through SQL, and so read it.")(
        command
    )
    command = click.option("--subscribe", help="Make subscriptions for this queue; once for each queue.", **many)(
        command
    )
    command = click.option("--receive", help="Receive from this queue; once for each queue.", **many)(command)
    return click.option("--publish", help="Publish to this queue; once for each queue.", **many)(command)


@click.command("grant")
@click.argument("role")
@_rights
@click.option(
    "--id-space",
    metavar="NAME",
    help="Compare the ids of its messages in this space; default: the role's name. \"\" is the owner's.",
)
@which_box
def grant(*, role: str, dsn: str | None, schema: str, **rights: Any) -> None:
    """Give the ROLE of an application rights in a box, besides those that it has."""
    with opened(dsn, schema) as box:
        box.grant(role, **rights)


@click.command("revoke")
@click.argument("role")
@_rights
@which_box
def revoke(*, role: str, dsn: str | None, schema: str, **rights: Any) -> None:
    """Take rights from a ROLE: those that are named, or else all of them."""
    with opened(dsn, schema) as box:
        box.revoke(role, **rights)


@click.command("grants")
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def grants(*, dsn: str | None, schema: str, json_: bool) -> None:
    """Show which roles may use which queues and locations."""
    with opened(dsn, schema) as box:
        found = box.grants()
    if json_:
        click.echo(as_json([asdict(one) for one in found]))
        return
    rows = [
        (
            one.role,
            *(", ".join(names) for names in (one.publish, one.receive, one.subscribe, one.types)),
            "yes" if one.route else "",
            ", ".join(one.dispense),
            one.id_space or '""',
        )
        for one in found
    ]
    in_columns(("ROLE", "PUBLISH", "RECEIVE", "SUBSCRIBE", "TYPES", "ROUTE", "DISPENSE", "ID SPACE"), rows)
