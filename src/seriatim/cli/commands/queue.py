"""``seriatim queues`` and ``seriatim queue``: count the messages of each; show one, turn it on or off, release it from a pipeline."""

from __future__ import annotations

from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.definitions.change import Change
from seriatim.box.operators.queues import Released
from seriatim.cli.options.changes import changes
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.option import option, repeated
from seriatim.cli.options.which import acts_on_box, looks_at_box, on_box
from seriatim.cli.options.why import Why, may_say_why
from seriatim.cli.shown.table import Column, Table, json_option, print_object, print_row, tell
from seriatim.errors import UsageError
from seriatim.operations import queues as operations
from seriatim.operations import workers
from seriatim.operations.queue_standing import queue_standing
from seriatim.operations.tables.queues import COUNTS, SETTINGS
from seriatim.operations.tables.workers import WORKER, ago
from seriatim.pipeline.declared.work_limits import rate_of, rate_text
from seriatim.pipeline.files.json_form import to_json
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local, period_of

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
    Column("settings", None, rows=SETTINGS, kind="QueueSettings", meaning="what is set for it"),
    Column(
        "workers", None, rows=WORKER, kind="list[WorkerView]", meaning="the processes at work, with what each obeys"
    ),
)
RELEASED: Table[Released] = Table("A queue that was released", row=Released)
queues = list_command("queues", operations.queues, COUNTS)

queue = Commands(
    "queue", help="Show one queue of a message box; turn it on or off; release it from a pipeline that is gone."
)


@queue.command("show")
@click.argument("name")
@looks_at_box(QUEUE)
def _show(box: MessageBox, name: str, *, json_: bool) -> None:
    """Show the queue NAME: its definition, its message counts, the subscriptions that lead to it, its settings, and what
    each process obeys.
    """
    definitions = box.definitions()
    its = definitions.queue(name).declared
    standing = queue_standing(box, name)
    counts = standing.counts
    settings, at_work = operations.settings(box, name), workers.workers(box, name)
    activated = next((one for one in operations.activations(box) if one.queue == name), None)
    leading = {one.declared.name: one.state for one in definitions.subscriptions.values() if one.declared.to == name}
    if json_:
        print_object(
            QUEUE,
            counts,
            definition=to_json(its),
            subscriptions=leading,
            activated=None if activated is None else activated.activated,
            settings=settings,
            workers=at_work,
        )
        return
    definition: dict[str, Any] = to_json(its)
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
        + (f"; stopped groups: {counts.stopped:,}" if counts.stopped else "")
        + (f"; waiting groups: {counts.waiting_groups:,}" if counts.waiting_groups else "")
        + ("" if counts.age_s is None else f"; the oldest message is {period_of(counts.age_s)} old")
    )
    click.echo(
        f"{counts.late:,} late, {counts.duplicate:,} duplicate, {counts.invalid:,} invalid, "
        f"{counts.rejected:,} rejected, {counts.dead:,} dead"
    )
    for subscription, state in leading.items():
        click.echo(f"subscription {subscription}: {state}")
    if settings.set_at is not None:
        click.echo(f"set: {settings}; by {settings.set_by}, {local(settings.set_at)}")
    for one in at_work:
        click.echo(
            f"process {one.pid} on {one.host}, seen {ago(one.silent_s)}: {counted(one.workers, 'worker')}, {one.threads:,} of them "
            f"running, rate {rate_text(one.rate)}, run length {one.run_length:,}, {one.busy:,} in hand"
        )
    tell(f"state: {standing.words}")
    tell(*(f"{finding.state}: {finding.found}" for finding in standing.findings))
    if standing.helps is not None:
        tell(f"helps: {standing.helps}")


@queue.command("set")
@click.argument("name")
@option("--workers", "Threads in each process of `seriatim work`; readers of `seriatim serve` at most.", type=int)
@option("--in-flight", "Groups that all processes together work on at once, at most.", type=int)
@option("--rate", "Messages per second of all processes together, such as 100/s, 30/m or 500/h.", metavar="RATE")
@option("--run-length", "Messages of a group in one transaction, at most.", type=int)
@repeated(
    "--unset",
    "Take this setting away, so that processes work as they were started.",
    type=click.Choice(["workers", "in-flight", "rate", "run-length"]),
)
@may_say_why
@on_box
@json_option("Print one JSON object.", SETTINGS)
def _set(
    box: MessageBox,
    name: str,
    *,
    unset: tuple[str, ...],
    rate: str | None,
    why: Why,
    json_: bool,
    **numbers: int | None,
) -> None:
    """Set how the queue NAME is worked on while processes run; they obey within seconds.

    A setting counts before an option of `seriatim work`, or the activation, until it is unset. `seriatim queue show` tells
    the settings, and what each process obeys.
    """
    given: dict[str, Any] = {key: value for key, value in numbers.items() if value is not None}
    if rate is not None:
        given["rate"] = rate_of(rate)
    for one in (one.replace("-", "_") for one in unset):
        if one in given:
            raise UsageError(f"{one.replace('_', '-')} can't be set and unset", remedy="give one of the two")
        given[one] = None
    found = operations.set_queue(box, name, **why(), **given)
    processes = sum(not one.is_silent for one in workers.workers(box, name))
    obey = (
        f"{counted(processes, 'process obeys', 'processes obey')} within seconds"
        if processes
        else "no process works on it now"
    )
    print_row(SETTINGS, found, f"queue {name}: {found}; {obey}", json_=json_)


@queue.command("on")
@may_say_why
@changes
def on(box: MessageBox, *names: str, why: Why) -> list[Change]:
    """Turn queues on: they hand messages out."""
    return operations.turn_on(box, *names, **why())


@queue.command("off")
@may_say_why
@changes
def off(box: MessageBox, *names: str, why: Why) -> list[Change]:
    """Turn queues off: they accept messages, but hand none out."""
    return operations.turn_off(box, *names, **why())


@queue.command("activation")
@click.argument("switch", metavar="on|off", type=click.Choice(["on", "off"]))
@changes
def activation(box: MessageBox, *names: str, switch: str) -> list[Change]:
    """Turn the activation of queues on or off. When it is off, no readers are started, and running ones end after their
    turn.
    """
    return operations.activate(box, *names) if switch == "on" else operations.deactivate(box, *names)


@queue.command("release")
@click.argument("name")
@acts_on_box(RELEASED)
def release(box: MessageBox, name: str, *, why: Why, json_: bool) -> None:
    """Release the queue NAME from a pipeline that is gone, so that workers can receive from it.

    Refused while the pipeline runs. Its unfinished messages are queued again in their old places; messages that it has
    delivered without reporting so are handed out a second time. Its checkpoint can't go on with the queue, except with
    takeOver.
    """
    done = operations.release(box, name, **why())
    text = f"queue {done.queue}: the pipeline {done.pipeline} had it, with {counted(done.messages, 'message')} in hand"
    print_row(RELEASED, done, text, json_=json_)
