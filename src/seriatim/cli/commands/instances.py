"""``seriatim instances``: list, show, suspend, resume and terminate instances."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.option import together
from seriatim.cli.options.which import on_box
from seriatim.cli.options.why import Why, says_why
from seriatim.cli.shown.table import as_json, json_option, print_object, print_row, tell
from seriatim.operations import instances as operations
from seriatim.operations.instances import InstanceView
from seriatim.operations.tables.instances import INSTANCES

_json = json_option("Print JSON.", INSTANCES)

instances = Commands("instances")
instances.add_command(list_command("list", operations.instances, INSTANCES))


@instances.command("show")
@click.argument("instance_id", metavar="ID", type=int)
@_json
@on_box
def _show(box: MessageBox, instance_id: int, *, json_: bool) -> None:
    """Show the instance ID: its group, its correlation values and its state."""
    found = operations.instance_view(box, instance_id)
    if json_:
        print_object(INSTANCES, found)
    else:
        _tell(found)


def _acts(function: Callable[..., InstanceView]) -> click.Command:
    """The command of an action on an instance, which the function performs."""

    @wraps(function)
    def run(box: MessageBox, instance_id: int, *, why: Why, json_: bool) -> None:
        found = function(box, instance_id, **why())
        now = "terminated" if function.__name__ == "terminate" else found.status
        print_row(
            INSTANCES, found, f"instance {instance_id} of queue {found.queue}, group {found.group}: {now}", json_=json_
        )

    options = together(click.argument("instance_id", metavar="ID", type=int), says_why, on_box, _json)
    return instances.command(function.__name__)(options(run))


@_acts
def suspend(box: MessageBox, instance_id: int, **by: str) -> InstanceView:
    """Suspend the instance ID: its messages wait. A message in hand is finished first."""
    return operations.suspend(box, instance_id, **by)


@_acts
def resume(box: MessageBox, instance_id: int, **by: str) -> InstanceView:
    """Resume the instance ID."""
    return operations.resume(box, instance_id, **by)


@_acts
def terminate(box: MessageBox, instance_id: int, **by: str) -> InstanceView:
    """Terminate the instance ID. The starting subscriptions decide again about messages that wait in its group."""
    return operations.terminate(box, instance_id, **by)


def _tell(found: InstanceView) -> None:
    click.echo(f"instance {found.instance_id}: {found.status}, waiting messages: {found.waiting:,}")
    tell(f"  queue: {found.queue}, group {found.group}")
    click.echo(f"  subscription: {found.subscription}, starts {found.starts}")
    tell(*(f"  {name}: {', '.join(values)}" for name, values in found.correlations.items()))
    click.echo(
        f"  started: {found.started_at.isoformat()}, changed {found.changed_at.isoformat()}, version {found.version}"
    )
    click.echo(f"  state: {as_json(found.state)}")
