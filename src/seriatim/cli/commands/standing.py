"""The state of one group, printed for people."""

from __future__ import annotations

import click

from seriatim.cli.commands.journal import VERBS
from seriatim.cli.shown.table import print_rows, tell
from seriatim.operations.groups import Head, Processed, Standing
from seriatim.operations.tables.events import EVENTS
from seriatim.operations.tables.standing import LOG
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local


def tell_standing(found: Standing) -> None:
    view = found.view
    since = f" since {local(view.since)}" if view.since else ""
    tell(f"{view.queue}, group {view.group}: {view.state}{', closing' if view.closing else ''}{since}")
    tell(f"  {found.why}")
    for what, head in (("blocks", found.blocks), ("next message", found.following)):
        if head is not None:
            tell(f"  {what}: {_head(head)}")
    counts = {"arrived": view.arrived, "held": view.held, "queued": view.queued, "in hand": view.in_hand}
    behind = f", {found.behind:,} of them behind it" if found.blocks else ""
    parts = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    click.echo(f"  messages that wait: {view.waiting:,} ({parts}){behind}")
    if view.hole_since is not None:
        due = f", due {local(view.due_at)}" if view.due_at else ""
        due = f", {view.clock_was_ahead}" if view.clock_was_ahead else due
        click.echo(f"  hole: {view.next}..{view.hole_through} since {local(view.hole_since)}{due}")
    _tell_places(found)
    click.echo(
        f"  next number {_or_none(view.next)}, last released {_or_none(view.last_released)}, released {view.ordinal:,}"
    )
    tell(f"  last processed: {_told(found.processed)}")
    click.echo(f"  allowed: {', '.join(one.replace('_', '-') for one in found.allowed)}{_on_journal(view.regions)}")
    tell(*(f"  helps: {one}" for one in found.commands))
    if found.operations:
        print_rows(LOG, found.operations)
    if found.events:
        print_rows(EVENTS.without("queue", "group"), found.events)


def _tell_places(found: Standing) -> None:
    view, place = found.view, found.place
    if view.places is None or view.open_places is None:
        return
    click.echo(f"  places that haven't passed: {view.places:,}, {view.open_places:,} of them open")
    if place is None:
        return
    since = "" if place.since is None else f" since {local(place.since)}"
    click.echo(f"  first open place: {place.number}{since}; it waits for {counted(place.messages, 'message')}:")
    for one in place.waits_for:
        group = "" if one.group is None else f", group {one.group}"
        until = "" if one.until is None else f", until {local(one.until)}"
        tell(f"    {one.message_id} ({one.type}) in queue {one.queue}{group}: {one.reason}{until}")
    if place.messages > len(place.waits_for):
        click.echo(f"    and {place.messages - len(place.waits_for):,} more")


def _on_journal(regions: str | None) -> str:
    """The verbs by which an operator of two regions decides."""
    if regions is None:
        return ""
    return f"; in the journal of the regions {regions}, which decides for both: {', '.join(VERBS)}"


def _head(head: Head) -> str:
    facts = [head.type]
    given = "" if head.given in (None, head.sequence) else f", its producer's {head.given}"
    facts += [] if head.sequence is None else [f"sequence {head.sequence}{given}"]
    facts += [] if head.ordinal is None else [f"ordinal {head.ordinal}"]
    facts += [f"handed out {counted(head.attempt, 'time')}"] if head.attempt else []
    told = head.postponement
    facts += [told] if told else [f"not before {local(head.visible_at)}"] if head.visible_at else []
    return f"{head.message_id} ({', '.join(facts)})"


def _told(done: Processed | None) -> str:
    if done is None:
        return "none"
    sequence = "" if done.sequence is None else f"sequence {done.sequence}, "
    at = "" if done.at is None else f", {'at' if done.is_kept else 'not after'} {local(done.at)}"
    by = f", by {done.by}" if done.by else "" if done.is_kept else "; the queue doesn't keep by which worker (keep)"
    return f"{sequence}ordinal {done.ordinal:,}{at}{by}"


def _or_none(number: int | str | None) -> str:
    return "none" if number is None else str(number)
