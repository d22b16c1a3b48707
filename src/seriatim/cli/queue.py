"""``seriatim queue``: show one queue, turn it or its activation on or off, release it from a pipeline."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.group_help import Commands
from seriatim.cli.queues import COUNTS
from seriatim.cli.table import Column, Table, json_only, json_option
from seriatim.cli.which import opened, which_box

if TYPE_CHECKING:
    from seriatim.box.pipelines.queue_release import Released


__all__ = ["QUEUE", "RELEASED", "queue"]

QUEUE = COUNTS.extended(
    "A queue",
    Column("definition", None, kind="Mapping[str, Any]", meaning="its definition"),
    Column(
        "subscriptions",
        None,
        kind="Mapping[str, Any]",
        meaning="the states of the subscriptions that lead to it, by name",
    ),
    Column("activated", None, kind="bool | None", meaning="whether its activation is on; null: it has none"),
)
RELEASED: Table[Released] = Table(
    "A queue that was released",
    *json_only("queue", "pipeline", "messages"),
    row="seriatim.box.pipelines.queue_release:Released",
)


@click.group("queue", cls=Commands)
def queue() -> None:
    """Show one queue of a message box; turn it on or off; release it from a pipeline that is gone."""


@queue.command("show")
@click.argument("name")
@which_box
@json_option("Print one JSON object.", QUEUE)
def _show(name: str, *, dsn: str | None, schema: str, json_: bool) -> None:
    """Show the queue NAME: its definition, its message counts, and the subscriptions that lead to it."""
    from seriatim.operations import queues  # noqa: PLC0415 -- the driver, when it is needed
    from seriatim.pipeline.files.json_form import to_json  # noqa: PLC0415 -- what checks bodies, when it is needed

    with opened(dsn, schema) as box:
        definitions = box.definitions()
        declared = definitions.queue(name).declared
        counts = next(one for one in queues.queues(box) if one.queue == name)
        activated = next((one for one in queues.activations(box) if one.queue == name), None)
    leading = {one.declared.name: one.state for one in definitions.subscriptions.values() if one.declared.to == name}
    if json_:
        QUEUE.print_object(
            counts,
            definition=to_json(declared),
            subscriptions=leading,
            activated=None if activated is None else activated.activated,
        )
        return
    definition: dict[str, Any] = to_json(declared)
    policy, activation = definition.pop("policy"), definition.pop("activation")
    shown = policy | {key: value for key, value in definition.items() if key not in ("version", "name", "enabled")}
    click.echo(f"{name}: {shown.pop('name')}, {'on' if counts.enabled else 'off'}")
    for key, value in shown.items():
        if value is not None and value != {}:
            click.echo(f"  {key}: {value}")
    if activation is not None:
        said = ", ".join(
            f"{key} {value}" for key, value in activation.items() if value is not None and key != "enabled"
        )
        click.echo(f"  activation: {'on' if activated is None or activated.activated else 'off'}, {said}")
    click.echo(
        f"{counts.arrived:,} arrived, {counts.held:,} held, {counts.queued:,} queued, {counts.in_hand:,} in hand"
    )
    click.echo(
        f"{counts.late:,} late, {counts.duplicate:,} duplicate, {counts.invalid:,} invalid, "
        f"{counts.rejected:,} rejected, {counts.dead:,} dead"
    )
    for subscription, state in leading.items():
        click.echo(f"subscription {subscription}: {state}")


@queue.command("on")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@which_box
def _on(names: tuple[str, ...], *, dsn: str | None, schema: str) -> None:
    """Turn queues on: they hand messages out."""
    from seriatim.operations import queues  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        changes = queues.turn_on(box, *names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@queue.command("off")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@which_box
def _off(names: tuple[str, ...], *, dsn: str | None, schema: str) -> None:
    """Turn queues off: they accept messages, but hand none out."""
    from seriatim.operations import queues  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        changes = queues.turn_off(box, *names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@queue.command("activation")
@click.argument("switch", metavar="on|off", type=click.Choice(["on", "off"]))
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@which_box
def _activation(switch: str, names: tuple[str, ...], *, dsn: str | None, schema: str) -> None:
    """Turn the activation of queues on or off. When it is off, no readers are started, and running ones end after their
    turn.
    """
    from seriatim.operations import queues  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        changes = queues.activate(box, *names) if switch == "on" else queues.deactivate(box, *names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@queue.command("release")
@click.argument("name")
@click.option("--reason", required=True, help="The reason, for the operator log.")
@click.option("--actor", help="Your name for the operator log (default: the user name on this system).")
@which_box
@json_option("Print one JSON object.", RELEASED)
def _release(name: str, *, reason: str, actor: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """Release the queue NAME from a pipeline that is gone, so that workers can receive from it.

    Refused while the pipeline runs. Its unfinished messages are queued again in their old places; messages that it has
    delivered without reporting so are handed out a second time. Its checkpoint can't go on with the queue, except with
    takeOver.
    """
    from seriatim.operations import queues  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        done = queues.release(box, name, actor=actor or getpass.getuser(), reason=reason)
    if json_:
        RELEASED.print_object(done)
    else:
        click.echo(f"queue {done.queue}: the pipeline {done.pipeline} had it, with {done.messages:,} messages in hand")
