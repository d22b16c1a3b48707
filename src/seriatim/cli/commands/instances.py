"""``seriatim instances``: list, show, suspend, resume and terminate instances."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.which import on_box
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


instances.add_command(list_command("list", operations.instances, INSTANCES))


@instances.command("show")
@click.argument("instance_id", metavar="ID", type=int)
@_json
@on_box
def _show(box: MessageBox, instance_id: int, *, json_: bool) -> None:
    """Show the instance ID: its group, its correlation values and its state."""
    _tell(operations.instance_view(box, instance_id), as_json_=json_)


@instances.command("suspend")
@click.argument("instance_id", metavar="ID", type=int)
@_says_why
@_json
@on_box
def _suspend(box: MessageBox, instance_id: int, **options: Any) -> None:
    """Suspend the instance ID: its messages wait. A message in hand is finished first."""
    _act(box, operations.suspend, instance_id, **options)


@instances.command("resume")
@click.argument("instance_id", metavar="ID", type=int)
@_says_why
@_json
@on_box
def _resume(box: MessageBox, instance_id: int, **options: Any) -> None:
    """Resume the instance ID."""
    _act(box, operations.resume, instance_id, **options)


@instances.command("terminate")
@click.argument("instance_id", metavar="ID", type=int)
@_says_why
@_json
@on_box
def _terminate(box: MessageBox, instance_id: int, **options: Any) -> None:
    """Terminate the instance ID. The starting subscriptions decide again about messages that wait in its group."""
    _act(box, operations.terminate, instance_id, **options)


def _act(
    box: MessageBox, done: Callable[..., InstanceView], instance_id: int, *, actor: str | None, reason: str, json_: bool
) -> None:
    found = done(box, instance_id, actor=actor or getpass.getuser(), reason=reason)
    if json_:
        INSTANCES.print_object(found)
    else:
        now = "terminated" if done is operations.terminate else found.status
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
