"""``seriatim regions``: two regions that have the same sessions: define, compare, see, and keep them up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from seriatim.cli.commands.apply import CHANGE
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.why import Why, exit_if, says_why
from seriatim.cli.shown.table import Column, Table, as_json_line, columns, json_option, print_object, print_rows, tell
from seriatim.operations import regions as operations
from seriatim.operations.regions import RegionHere
from seriatim.operations.tables.journal import SESSIONS
from seriatim.operations.tables.table import if_any
from seriatim.regions.closing import ForgottenSessions
from seriatim.regions.journal.views import SessionCounts
from seriatim.regions.outbox import Copied
from seriatim.regions.regions import Regions
from seriatim.regions.regions_file import load
from seriatim.regions.seeing import Difference, RegionsStatus, RegionStatus
from seriatim.runtime.regional.tending import tend_until
from seriatim.runtime.stop_signal import Stop

HERE: Table[RegionHere] = Table(
    "The box as one of two regions",
    *columns("name", "region"),
    Column("queues", shown=lambda one: ", ".join(one.queues)),
    Column("incarnation"),
    Column("defined_at", "defined"),
    row=RegionHere,
    nothing="there are no regions to which the box belongs",
)
REGION: Table[RegionStatus] = Table(
    "A region",
    *columns("region", "state", "incarnation", "outbox"),
    Column("lag_s", "lag", shown=lambda one: None if one.lag_s is None else f"{one.lag_s:.1f} s"),
    if_any("beside"),
    Column("reported_at", "tended", optional=True),
    *columns("place", "why", optional=True),
    row=RegionStatus,
)
COUNTS: Table[SessionCounts] = Table(
    "The sessions of two regions, in numbers",
    *columns("idle", "working", "suspended"),
    Column("take_overs", "take-overs"),
    Column("conflicts"),
    row=SessionCounts,
)
STATUS: Table[RegionsStatus] = Table(
    "Two regions",
    Column("name"),
    Column("regions", rows=REGION),
    Column("sessions", rows=COUNTS),
    Column("standing", rows=SESSIONS),
    Column("why", optional=True),
    row=RegionsStatus,
)
DIFFERENCES: Table[Difference] = Table(
    "What isn't defined alike in two regions",
    *columns("kind", "name", "what"),
    row=Difference,
    nothing="both boxes and the journal have the same",
)
COPIED: Table[Copied] = Table(
    "What became of the outbox of a region",
    *columns("region", "copied"),
    if_any("sent"),
    Column("over"),
    Column("waiting", shown=lambda one: len(one.waiting)),
    Column("why", optional=True),
    row=Copied,
)
FORGOTTEN: Table[ForgottenSessions] = Table(
    "Sessions that were forgotten", *columns("queue", "before", "a", "b", "journal", "left"), row=ForgottenSessions
)
APPLIED: Table[dict[str, object]] = Table(
    "Applied definitions of two regions",
    Column("file", None, kind="str", meaning="the file"),
    Column("a", None, rows=CHANGE, meaning="the changes in the box of region a, in order"),
    Column("b", None, rows=CHANGE, meaning="those in the box of region b"),
)


@contextmanager
def _opened(file: Path) -> Iterator[tuple[Regions, tuple[object, ...]]]:
    """The regions of a file, and what it defines."""
    said = load(file)
    with Regions(**said.arguments) as found:
        yield found, said.definitions


_FILE = click.argument("file_", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))

regions = Commands("regions")
regions.add_command(list_command("list", operations.regions, HERE))


@regions.command("apply")
@_FILE
@json_option("Print one JSON object.", APPLIED)
def _apply(file_: Path, *, json_: bool) -> None:
    """Define what FILE says in both boxes, and the rules of its queues in the journal; a second run changes nothing.

    Makes the boxes and the journal where they are missing. All three have to be there.
    """
    with _opened(file_) as (of, definitions):
        changes = of.define(*definitions)
    if json_:
        print_object(APPLIED, {"file": str(file_), **changes})
        return
    for region, its in changes.items():
        tell(*(f"region {region}: {one}" for one in its))
    if not any(changes.values()):
        click.echo("nothing to change in the boxes; the journal has the rules of the queues")


@regions.command("check")
@_FILE
@json_option("Print a JSON list.", DIFFERENCES)
def _check(file_: Path, *, json_: bool) -> None:
    """Compare both boxes and the journal with FILE, and with each other. Exit code 1: something isn't defined alike."""
    with _opened(file_) as (of, definitions):
        found = of.check(*definitions)
    print_rows(DIFFERENCES, found, json_=json_)
    exit_if(found)


@regions.command("status")
@_FILE
@option("--limit", "List at most this many sessions.", type=click.IntRange(1, 100_000), default=20)
@json_option("Print one JSON object.", STATUS)
def _status(file_: Path, *, limit: int, json_: bool) -> None:
    """Show both regions and the journal: the waiting messages and their age, sessions by state, and what sessions wait for."""
    with _opened(file_) as (of, _):
        found = of.status(limit=limit)
    if json_:
        print_object(STATUS, found)
        return
    print_rows(REGION, found.regions)
    click.echo()
    if found.sessions is None:
        tell(f"the journal is away: {found.why}")
        return
    print_rows(COUNTS, [found.sessions])
    if found.standing:
        click.echo()
        print_rows(SESSIONS, found.standing, limit=limit)


@regions.command("forget")
@_FILE
@click.argument("queue")
@option("--before", "Forget the sessions whose keys come before this one.", required=True, metavar="KEY")
@says_why
@json_option("Print one JSON object.", FORGOTTEN)
def _forget(file_: Path, queue: str, *, before: str, why: Why, json_: bool) -> None:
    """Forget all sessions of QUEUE before a key, in both boxes and in the journal that FILE declares. They take no messages any more.

    For sessions that are used once, under keys that ascend with time. Exit code 1: something is left of them; run this again
    when it is worked off.
    """
    with _opened(file_) as (of, _):
        found = of.forget(queue, before, **why())
    if json_:
        print_object(FORGOTTEN, found)
    elif not found.left:
        tell(f"sessions forgotten: {found.a} in region a, {found.b} in region b, {found.journal} in the journal")
    if found.left:
        text = f"nothing is forgotten yet, because this is left: {', '.join(found.left)}; run this again when it is worked off"
        tell(text, err=True)
    exit_if(found.left)


@regions.command("run")
@_FILE
@flag("--once", "Tend the regions once, and end.")
@json_option("Print a line of JSON for each region in which something was done.", COPIED)
def _run(file_: Path, *, once: bool, json_: bool) -> None:
    """Copy what one region has and the other lacks, until SIGTERM or Ctrl-C; any number of processes may do it.

    Lets a restored box learn from the others, and reports to the journal what may be forgotten.
    """

    def told(one: Copied) -> None:
        if not (one.sent or one.copied or one.over or one.waiting or one.why or once):
            return
        if json_:
            click.echo(as_json_line(COPIED.object_of(one)))
        else:
            text = f"region {one.region}: sent {one.sent}, copied {one.copied}, over {one.over}, waiting {len(one.waiting)}"
            tell(text + (f"; {one.why}" if one.why else ""))

    stop = Stop()
    with _opened(file_) as (of, _), stop.listening():
        tend_until(of, lambda: stop.requested, stop.wait, told, once=once)
