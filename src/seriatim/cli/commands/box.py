"""``seriatim box``: set up a message box and look after it."""

from __future__ import annotations

import click
from rich.console import Console

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import FOLDER
from seriatim.box.operators.purge import Purgeable, Purged
from seriatim.box.postgres.migrate import fresh_sql
from seriatim.box.server.embedded import trust
from seriatim.box.tick import Tick
from seriatim.box.views.box_status import BoxStatus, Dispenser, TableSize
from seriatim.cli.commands.apply import apply
from seriatim.cli.commands.box_identity import IDENTITY, disable, enable, identity_lines, new_id
from seriatim.cli.commands.grants import grant, grants, revoke
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.which import looks_at_box, which_box, which_schema
from seriatim.cli.options.why import exit_if
from seriatim.cli.shown.table import Column, Table, json_only, print_object, print_row, print_rows, tell
from seriatim.operations import identity, retention
from seriatim.operations.box_status import box_status
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local

_LOCATION: Table[Dispenser] = Table("The ticket counter of a location", row=Dispenser)
_TABLE: Table[TableSize] = Table(
    "A table of a box",
    Column("name", "table", meaning="its name"),
    Column("rows"),
    Column("dead_rows", "dead"),
    Column("size_bytes", "bytes", meaning="its bytes with all indexes"),
    Column("more_rows", shown=lambda one: f"{one.more_rows:+,}"),
    Column("more_bytes", shown=lambda one: f"{one.more_bytes:+,}"),
    row=TableSize,
    nothing=None,
)
PURGEABLE: Table[Purgeable] = Table("Rows that a purge would delete", row=Purgeable)
PURGED: Table[Purged] = Table("Rows that a purge has deleted", row=Purged)
STATUS: Table[BoxStatus] = Table(
    "The status of a box",
    *json_only(schema="the schema of the box"),
    Column("identity", None, rows=IDENTITY, kind="BoxIdentity | None", meaning="who the box is, and where it lives"),
    Column("locations", None, rows=_LOCATION),
    Column("tables", None, rows=_TABLE),
    Column("more_bytes", None, meaning="the growth in bytes since the time `since`"),
    Column("purgeable", None, rows=PURGEABLE, kind="Purgeable", meaning="the rows that a purge would delete"),
    row=BoxStatus,
)

#: Singular and plural.
_ENTRY = ("entry of the history", "entries of the history")

TICK: Table[Tick] = Table("A tick", row=Tick)


@click.command("tick")
@flag("--now", "at_once", "First count from now what waits by a time of the database's clock when that was ahead.")
@looks_at_box(TICK)
def tick(box: MessageBox, *, at_once: bool, json_: bool) -> None:
    """Route messages that were published through SQL, publish those of schedules, judge what has arrived, fire due timers of
    groups and dialogs, and retry faulted groups.
    """
    done = box.tick(at_once=at_once)
    told = (
        f"routed {counted(done.routed, 'message')}, judged {counted(done.groups, 'group')}, "
        f"fired the timers of {counted(done.dialogs, 'dialog')}, "
        f"recovered {done.recovered:,}, published {done.scheduled:,} of schedules"
    )
    later = f"; {done.put_right:,} that waited by a clock that was ahead count from now" if at_once else ""
    print_row(TICK, done, told + later, json_=json_)
    for one in done.failed:
        click.echo(f"failed: {one}", err=True)
    exit_if(done.failed)


box = Commands("box")
for _command in (apply, disable, enable, grant, grants, new_id, revoke, tick):
    box.add_command(_command)


@box.command("migrate")
@which_box
def _migrate(*, dsn: str | None, schema: str) -> None:
    """Create the schema of a box, or migrate it to this version.

    Other users of this machine can see a password in --dsn. Take it from the environment with ${NAME}, from
    ~/.pgpass, or from a file of mode 600: --dsn file:PATH.
    """
    applied = MessageBox.migrate(dsn, schema=schema)
    for one in applied:
        click.echo(f"applied {one.number:04} {one.name}")
    if not applied:
        click.echo("up to date")


@box.command("trust")
def _trust() -> None:
    """Trust the data of the embedded PostgreSQL in this folder, which you have not created here.

    Their author can run programs as you as soon as the server starts. Your own data need this once after they were
    copied, unpacked or restored.
    """
    now = trust(FOLDER)
    click.echo(f"{'trusted' if now else 'trusted already'}: {FOLDER.absolute()}")


@box.command("status")
@looks_at_box(STATUS)
def _status(box: MessageBox, *, json_: bool) -> None:
    """Show the box's id and where it lives, its version, the rows, bytes and growth of each table, the space that a purge
    would free, and the next number of each location.
    """
    found, free, who = box_status(box), retention.purgeable(box), identity.identity(box)
    if json_:
        print_object(STATUS, found, purgeable=free, identity=who)
        return
    click.echo(
        f"{found.place}: version {found.version}, PostgreSQL {found.postgresql}, {counted(found.size_bytes, 'byte')}"
    )
    tell(*identity_lines(who))
    for one in found.locations:
        sent = "" if one.last_sent is None else f", sent through {one.last_sent:,} of epoch {one.last_sent_epoch:,}"
        click.echo(
            f"  {one.location}: next is {one.next_number:,} of epoch {one.epoch:,}{sent}, {one.in_queue:,} in queues"
        )
    shown = [one for one in found.tables if one.rows or one.dead_rows]
    print_rows(_TABLE.without("more rows", "more bytes") if found.since is None else _TABLE, shown)
    if found.since is None:
        click.echo("growth is known after the first clean-up: seriatim box purge")
    else:
        click.echo(f"{found.more_bytes:+,} bytes since {local(found.since)}")
    click.echo(f"a purge {_would(free)}")


@box.command("purge")
@option("--queue", "Only the history and the groups of this queue.")
@option(
    "--older-than",
    "Delete history that is older (such as 7d), in place of the time that each queue keeps it.",
    metavar="PERIOD",
)
@flag("--forget-expired", "Forget groups that have been idle for their queue's expire_after.")
@flag("--dry-run", "Delete nothing; count what would be deleted.")
@looks_at_box(PURGED, PURGEABLE)
def _purge(
    box: MessageBox, *, queue: str | None, older_than: str | None, forget_expired: bool, dry_run: bool, json_: bool
) -> None:
    """Delete messages, history, message ids, tickets, faults and events that are no longer needed.

    Deletes messages that no queue refers to, history that its queue need not keep any longer, message ids behind the
    horizon, tickets of deleted messages, and old faults and events. Runs in small batches that don't block other users of
    the box; if it is stopped, the next run continues.
    """
    if dry_run:
        would = retention.purgeable(box, queue=queue, older_than=older_than)
        print_row(PURGEABLE, would, _would(would), json_=json_)
        return
    with Console(stderr=True).status("looking") as shown:
        done = retention.purge(
            box,
            queue=queue,
            older_than=older_than,
            forget_expired=forget_expired,
            progress=lambda so_far: shown.update(_gone(so_far) or "looking"),
        )
    print_row(PURGED, done, _gone(done) or "there was nothing to delete", json_=json_)


def _would(found: Purgeable) -> str:
    return (
        f"would delete at most {counted(found.messages, 'message')}, {counted(found.history, *_ENTRY)} and "
        f"{counted(found.message_ids, 'message id')}: about {counted(found.size_bytes, 'byte')}"
        + (f"; faults older than they are kept: at most {found.faults:,}" if found.faults else "")
        + (f"; events older than they are kept: {found.events:,}" if found.events else "")
        + (f"; expired groups: at most {found.groups:,}" if found.groups else "")
    )


def _gone(done: Purged) -> str:
    of_bodies = f"({counted(done.message_bytes, 'byte')} of bodies)"
    counts = (
        (done.messages, (f"message {of_bodies}", f"messages {of_bodies}")),
        (done.history, _ENTRY),
        (done.days, ("day of it at once", "days of it at once")),
        (done.message_ids, ("message id",)),
        (done.requests, ("request",)),
        (done.region_numbers, ("number of two regions", "numbers of two regions")),
        (done.tickets, ("run of tickets", "runs of tickets")),
        (done.places, ("run of place numbers", "runs of place numbers")),
        (done.waiters, ("waiter",)),
        (done.arrivals, ("message numbered", "messages numbered")),
        (done.groups, ("group forgotten", "groups forgotten")),
        (done.faults, ("fault",)),
        (done.events, ("event",)),
        (done.bulk_operations, ("bulk operation",)),
    )
    return ", ".join(counted(count, *what) for count, what in counts if count)


@box.command("sql")
@which_schema
def _sql(*, schema: str) -> None:
    """Print the SQL that creates a box, to be run by hand."""
    click.echo(fresh_sql(schema))
