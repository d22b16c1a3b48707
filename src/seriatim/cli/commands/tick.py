"""``seriatim box tick``: do work that is due even without a receiver."""

import click

from seriatim.box.box import MessageBox
from seriatim.box.tick import Tick
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Table, as_json, json_only, json_option
from seriatim.pipeline.text.counted import counted

TICK: Table[Tick] = Table(
    "A tick",
    *json_only("routed", "groups", "recovered", "dialogs", "scheduled", "put_right", "failed"),
    row="seriatim.box.tick:Tick",
)


@click.command("tick")
@click.option(
    "--now",
    "at_once",
    is_flag=True,
    help="First count from now what waits by a time of the database's clock when that was ahead.",
)
@json_option("Print one JSON object.", TICK)
@on_box
def tick(box: MessageBox, *, at_once: bool, json_: bool) -> None:
    """Route messages that were published through SQL, publish those of schedules, judge what has arrived, fire due timers of
    groups and dialogs, and retry faulted groups.
    """
    done = box.tick(at_once=at_once)
    click.echo(
        as_json(TICK.object_of(done))
        if json_
        else f"routed {counted(done.routed, 'message')}, judged {counted(done.groups, 'group')}, "
        f"fired the timers of {counted(done.dialogs, 'dialog')}, "
        f"recovered {done.recovered:,}, published {done.scheduled:,} of schedules"
        + (f"; {done.put_right:,} that waited by a clock that was ahead count from now" if at_once else "")
    )
    for one in done.failed:
        click.echo(f"failed: {one}", err=True)
    if done.failed:
        click.get_current_context().exit(1)
