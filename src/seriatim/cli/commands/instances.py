"""``seriatim instances``: list, show, suspend, resume and terminate instances."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.plain import in_line
from seriatim.cli.shown.table import Table, as_json, json_option
from seriatim.operations import instances as operations
from seriatim.operations.tables import instances as declared

if TYPE_CHECKING:
    from seriatim.operations.instances import InstanceView

__all__ = ["INSTANCES", "instances"]

INSTANCES = Table.of(declared.INSTANCES)
_json = json_option("Print JSON.", INSTANCES)


def _says_why(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options for the operator log: actor and reason."""
    actor = click.option(
        "--actor", default=None, help="Your name for the operator log (default: the user name on this system)."
    )
    reason = click.option("--reason", required=True, help="The reason, for the operator log.")
    return actor(reason(command))


@click.group("instances", cls=Commands)
def instances() -> None:
    """List and show the instances of a message box; suspend, resume or terminate one."""


@instances.command("list")
@click.option("--queue", default=None, help="Only instances of this queue.")
@click.option("--group", default=None, help="Only the instance of this group.")
@click.option(
    "--status", type=click.Choice(["running", "suspended"]), default=None, help="Only instances with this status."
)
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="List at most this many."
)
@which_box
@_json
def _list(
    *, queue: str | None, group: str | None, status: str | None, limit: int, dsn: str | None, schema: str, json_: bool
) -> None:
    """List instances, ordered by number."""
    with opened(dsn, schema) as box:
        found = operations.instances(box, queue, group=group, status=status, limit=limit)
    INSTANCES.print(found, json_=json_, limit=limit)


@instances.command("show")
@click.argument("instance_id", metavar="ID", type=int)
@which_box
@_json
def _show(instance_id: int, *, dsn: str | None, schema: str, json_: bool) -> None:
    """Show the instance ID: its group, its correlation values and its state."""
    with opened(dsn, schema) as box:
        _tell(operations.instance_view(box, instance_id), as_json_=json_)


@instances.command("suspend")
@click.argument("instance_id", metavar="ID", type=int)
@_says_why
@which_box
@_json
def _suspend(instance_id: int, **options: Any) -> None:
    """Suspend the instance ID: its messages wait. A message in hand is finished first."""
    _act("suspend", instance_id, **options)


@instances.command("resume")
@click.argument("instance_id", metavar="ID", type=int)
@_says_why
@which_box
@_json
def _resume(instance_id: int, **options: Any) -> None:
    """Resume the instance ID."""
    _act("resume", instance_id, **options)


@instances.command("terminate")
@click.argument("instance_id", metavar="ID", type=int)
@_says_why
@which_box
@_json
def _terminate(instance_id: int, **options: Any) -> None:
    """Terminate the instance ID. The starting subscriptions decide again about messages that wait in its group."""
    _act("terminate", instance_id, **options)


def _act(
    action: str, instance_id: int, *, actor: str | None, reason: str, dsn: str | None, schema: str, json_: bool
) -> None:

    done: Callable[..., InstanceView] = getattr(operations, action)
    with opened(dsn, schema) as box:
        found = done(box, instance_id, actor=actor or getpass.getuser(), reason=reason)
    if json_:
        INSTANCES.print_object(found)
    else:
        now = "terminated" if action == "terminate" else found.status
        click.echo(in_line(f"instance {instance_id} of queue {found.queue}, group {found.group}: {now}"))


def _tell(found: InstanceView, *, as_json_: bool) -> None:
    if as_json_:
        INSTANCES.print_object(found)
        return
    click.echo(f"instance {found.instance_id}: {found.status}, waiting messages: {found.waiting:,}")
    click.echo(in_line(f"  queue: {found.queue}, group {found.group}"))
    click.echo(f"  subscription: {found.subscription}, starts {found.starts}")
    for name, values in found.correlations.items():
        click.echo(in_line(f"  {name}: {', '.join(values)}"))
    click.echo(
        f"  started: {found.started_at.isoformat()}, changed {found.changed_at.isoformat()}, version {found.version}"
    )
    click.echo(f"  state: {as_json(found.state)}")
