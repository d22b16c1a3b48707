"""``seriatim top``: a box at one glance, live in a terminal, once in a script."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table as Lines
from rich.text import Text

from seriatim.box.box import MessageBox
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.which import which_box
from seriatim.cli.shown.table import Column, Table, columns, json_option, lines_of, tell
from seriatim.errors import Unavailable, UsageError
from seriatim.operations.box_here import check_here
from seriatim.operations.looking import open_to_look
from seriatim.operations.overview import Overview, QueueOverview, overview
from seriatim.operations.tables.table import as_json, as_json_line, json_only
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import period_of
from seriatim.pipeline.text.plain import in_line

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST_S = 0.5
_GIB, _MIB = 2**30, 2**20


def _period(seconds: float | None) -> str | None:
    return None if seconds is None else period_of(seconds)


_QUEUES: Table[QueueOverview] = Table(
    "A queue at one glance",
    Column("queue"),
    Column("enabled", "state", shown=lambda one: "on" if one.enabled else "off"),
    Column("waiting"),
    Column("ready_s", "oldest", shown=lambda one: _period(one.ready_s)),
    *columns("in_hand", "held"),
    Column("missing", "missing a number"),
    Column("hole_s", "oldest hole", shown=lambda one: _period(one.hole_s)),
    *columns("suspended", "faulted", "dead", "processes"),
    *json_only("standing_holes"),
    row=QueueOverview,
    nothing="there are no queues",
)
_OVERVIEW: Table[Overview] = Table("A box at one glance", Column("queues", None, rows=_QUEUES), row=Overview)


@click.command()
@flag("--once", "Print it once, and end. So it is where the output is no terminal.")
@option("--every", "Time between two looks, at least 0.5.", default=2.0, metavar="SECONDS")
@which_box
@json_option("Print JSON: with --once an object, else one a line at each look.", _OVERVIEW)
def top(*, once: bool, every: float, dsn: str | None, schema: str, json_: bool) -> None:
    """Show a box at one glance, live: its queues with what waits, how long, and what needs a hand.

    It reads what `--metrics` tells: a statement whose cost doesn't grow with the box. Counts with a ~ are estimated. Ctrl-C ends it.
    """
    if not every >= _LEAST_S or every > 86_400:
        raise UsageError(f"--every can't be {every:g}", remedy="from 0.5 seconds to a day")

    check_here(dsn)
    live = not once and (json_ or sys.stdout.isatty())
    with open_to_look(dsn, schema=schema, reads_only=True) as box:
        if not live:
            _print_once(box, json_=json_)
            return
        try:
            if json_:
                for found in _looks(box, every):
                    if not isinstance(found, str):
                        click.echo(as_json_line(_OVERVIEW.object_of(found)))
                        sys.stdout.flush()
            else:
                _show(box, every)
        except KeyboardInterrupt:
            return


def _print_once(box: MessageBox, *, json_: bool) -> None:
    found = overview(box)
    if json_:
        click.echo(as_json(_OVERVIEW.object_of(found)))
        return
    tell(*_lines(found, None))


def _looks(box: MessageBox, every: float) -> Iterator[Overview | str]:
    """The box at each look; text: why it can't be seen at present."""
    while True:
        began = time.monotonic()
        try:
            yield overview(box)
        except Unavailable as error:
            yield str(error)
        time.sleep(max(every - (time.monotonic() - began), _LEAST_S / 5))


def _lines(found: Overview, before: Overview | None) -> Iterator[str]:
    yield _head(found, before)
    yield from lines_of(_QUEUES, found.queues)
    if any(one.is_estimated for one in found.queues):
        named = ", ".join(one.queue for one in found.queues if one.is_estimated)
        yield in_line(f"estimated from a sample: {named}")


def _head(found: Overview, before: Overview | None) -> str:
    parts = [found.at.astimezone().strftime("%H:%M:%S")]
    if found.published is not None:
        parts.append(f"{found.published:,} published{_rate(found, before)}")
    if found.unrouted:
        parts.append(counted(found.unrouted, "unrouted message"))
    if found.size_bytes is not None:
        parts.append(
            f"{found.size_bytes / (_GIB if found.size_bytes > _GIB else _MIB):.1f} {'GiB' if found.size_bytes > _GIB else 'MiB'}"
        )
    if found.transaction_s is not None and found.transaction_s > 60:
        parts.append(f"a transaction has been open for {_period(found.transaction_s)}")
    return "  ·  ".join(parts)


def _rate(found: Overview, before: Overview | None) -> str:
    if before is None or before.published is None or found.published is None:
        return ""
    seconds = (found.at - before.at).total_seconds()
    return f" ({(found.published - before.published) / seconds:,.0f}/s)" if seconds > 0 else ""


def _show(box: MessageBox, every: float) -> None:
    before: Overview | None = None
    shown: RenderableType = ""
    with Live(shown, screen=True, auto_refresh=False) as live:
        for found in _looks(box, every):
            if not isinstance(found, str):
                shown, before = _drawn(found, before), found
                live.update(shown, refresh=True)
            else:
                live.update(_away(found, shown), refresh=True)


def _drawn(found: Overview, before: Overview | None) -> RenderableType:
    """The overview for a terminal: what needs a hand is red, and a narrow one cuts the names of queues."""
    shown = _QUEUES.shown_for(found.queues)
    lines = Lines(box=None, pad_edge=False, header_style="bold")
    for heading in shown.headings:
        lines.add_column(
            heading,
            justify="left" if heading in ("queue", "state") else "right",
            overflow="ellipsis",
            no_wrap=heading == "queue",
        )
    for one in found.queues:
        cells = [_cell(value, estimated=one.is_estimated) for value in shown.cells(one)]
        lines.add_row(*map(Text, cells), style="red" if one.needs_hand else "")
    return Group(Text(_head(found, before)), Text(""), lines)


def _cell(value: Any, *, estimated: bool) -> str:
    if value is None or value == 0:
        return "" if value is None else "0"
    return f"{'~' if estimated else ''}{value:,}" if isinstance(value, int) else in_line(str(value))


def _away(why: str, shown: RenderableType) -> RenderableType:
    return Group(Text(in_line(f"the box can't be seen: {why}"), style="bold red"), shown)
