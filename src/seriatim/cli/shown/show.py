"""Show a run to a person: a live line on a terminal, a line for each batch elsewhere, and the law in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.segment import Segments
from rich.spinner import Spinner
from rich.table import Table as Lines
from rich.text import Text

from seriatim.cli.shown.table import Column, Table, columns, text_only
from seriatim.operations.tables.texts import SET_ASIDE
from seriatim.pipeline.text.counted import counted

if TYPE_CHECKING:
    from seriatim.runtime.pipelines import progress as reports
    from seriatim.runtime.pipelines.unread_files import UnreadFile, UnreadFiles

# A batch that takes longer is told of where there is no live line; and then again every so often.
_RUNNING_S = 10.0

_MOST_ROWS = 50
_WIDEST = 10_000  # characters; a width that no table reaches
_DISPOSITIONS = ("released", "held", *SET_ASIDE)
ACCOUNTS: Table[reports.Account] = Table(
    "The account of a destination",
    *columns("destination", "held_before"),
    Column("arrived", "in"),
    text_only("=", lambda _: "=", "the left side of the law is equal to the right"),
    *columns("released", "held"),
    *(Column(one, meaning=f"set aside as {one}") for one in SET_ASIDE),
    Column(
        "void", meaning="messages that let the next number pass and left nothing; people see it where there are some"
    ),
    Column(
        "copy", meaning="copies of messages that the other of two regions had shown; people see it where there are some"
    ),
    row="seriatim.runtime.pipelines.progress:Account",
)
ROUTING: Table[reports.Routing] = Table("The account of the router", row="seriatim.runtime.pipelines.progress:Routing")
WAITING: Table[reports.Waiting] = Table("A destination that waits", row="seriatim.spark.deliver.outgoing:Waiting")


def example_of(reason: reports.SetAsideReason) -> str:
    """The example of a reason: a message's id, with its group and sequence if it has them."""
    place = " ".join(str(one) for one in (reason.group, plain_sequence(reason.sequence)) if one is not None)
    return f"{reason.message_id} ({place})" if place else reason.message_id


def plain_sequence(sequence: object) -> str | None:
    """A sequence in a word, a ticket as in a text file; None: there is none."""
    if isinstance(sequence, dict):
        return "/".join(str(sequence.get(name)) for name in ("location", "epoch", "number"))
    return None if sequence is None else str(sequence)


HELD_GROUPS: Table[reports.HeldGroup] = Table(
    "A group that holds messages",
    *columns("destination", "group"),
    text_only(
        "waits for",
        lambda one: one.missing or one.reason.removeprefix("waits for "),
        "the missing numbers, or else the reason",
    ),
    *columns("held", "since"),
    row="seriatim.runtime.pipelines.progress:HeldGroup",
)
SKIPPED_HOLES: Table[reports.SkippedHole] = Table(
    "A hole that was skipped",
    *columns("destination", "group"),
    text_only("skipped", lambda one: one.numbers, "the missing numbers"),
    row="seriatim.runtime.pipelines.progress:SkippedHole",
)
SKIPPED: Table[reports.SkippedHoles] = Table(
    "The holes that a run has skipped",
    Column("first", None, rows=SKIPPED_HOLES),
    row="seriatim.runtime.pipelines.progress:SkippedHoles",
)
SUSPECTED_RESTARTS: Table[reports.SuspectedRestart] = Table(
    "A group whose producer seems to have begun anew",
    *columns("destination", "group", "number"),
    row="seriatim.runtime.pipelines.progress:SuspectedRestart",
)
SUSPECTED: Table[reports.SuspectedRestarts] = Table(
    "The groups whose producer seems to have begun anew",
    Column("first", None, rows=SUSPECTED_RESTARTS),
    row="seriatim.runtime.pipelines.progress:SuspectedRestarts",
)
UNREAD_FILES: Table[UnreadFile] = Table(
    "An input file that isn't read", *columns("path", "why"), row="seriatim.runtime.pipelines.unread_files:UnreadFile"
)
UNREAD: Table[UnreadFiles] = Table(
    "The input files that aren't read",
    Column("first", None, rows=UNREAD_FILES),
    row="seriatim.runtime.pipelines.unread_files:UnreadFiles",
)
REASONS: Table[reports.SetAsideReason] = Table(
    "A reason for which messages were set aside",
    *columns("messages", "disposition", "destination", "reason"),
    text_only("such as", example_of, "a message that was set aside for it"),
    row="seriatim.spark.deliver.set_aside_reasons:SetAsideReason",
)


class Display:
    """The progress of a run, on standard error."""

    def __init__(self, name: str, *, quiet: bool = False) -> None:
        self._name = name
        self._quiet = quiet
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._line = "starting"
        self._told_s = 0.0

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(self._spinner("starting Spark"), console=self._console, transient=True)
            self._live.start()
        elif not self._quiet:
            self._print("starting Spark")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: reports.Progress) -> None:
        self._line, self._told_s = line_of(progress), 0.0
        if self._live is not None:
            self._live.update(self._spinner(self._line))
        elif not self._quiet:
            self._print(self._line)

    def tell(self, news: reports.News) -> None:
        """Show an event between micro-batches."""
        from seriatim.runtime.pipelines import progress as reports  # noqa: PLC0415 - imports Spark, which is slow

        if self._quiet:
            return
        if isinstance(news, reports.Again):
            self._print(again_line(news), "yellow")
            return
        if isinstance(news, reports.LeaseState):
            self._print(news.in_words, "yellow" if news.state == "waiting" else "green")
            return
        if isinstance(news, reports.Ports):
            for line in [waiting_line(one) for one in news.waiting] or ["all ports work"]:
                self._print(line, "yellow" if news.waiting else "green")
            return
        running = f"batch {news.batch} has been running for {news.seconds:,.0f} s"
        if news.call is not None:
            running += f", {counted(news.call.messages, 'message')} of it in {news.call.function}"
        if self._live is not None:
            self._live.update(self._spinner(f"{self._line} · {running}"))
        elif news.seconds - self._told_s >= _RUNNING_S:
            self._told_s = news.seconds
            self._print(running)

    def _print(self, text: str, style: str | None = None) -> None:
        self._console.print(f"{self._name}: {text}", soft_wrap=True, style=style)

    def _spinner(self, text: str) -> Spinner:
        return Spinner("dots", Text.assemble((self._name, "bold"), "  ", text, overflow="ellipsis", no_wrap=True))


def line_of(progress: reports.Progress) -> str:
    """A batch in a line: what it received, its law of conservation, the holes after it, its rate and time."""
    routing = progress.routing
    facts = [
        f"batch {progress.batch}: received {routing.received:,}",
        _law(progress.accounts),
        f"holes {progress.holes:,}",
    ]
    facts += [f"unrouted {routing.unrouted:,}"] * bool(routing.unrouted)
    facts += [f"invalid without a destination {routing.invalid:,}"] * bool(routing.invalid)
    waiting = sum(one.rows for one in progress.waiting if one.reason and not one.stands_by)
    facts += [f"waiting for ports {waiting:,}"] * bool(waiting)
    rate = f"{progress.rows_per_s:,.{0 if progress.rows_per_s >= 10 else 1}f} rows/s"
    return " · ".join([*facts, rate, f"{progress.seconds:.1f} s"])


def _law(accounts: Sequence[reports.Account]) -> str:
    """The law of conservation over all destinations; of what set messages aside only what did."""
    before, arrived = (sum(getattr(one, name) for one in accounts) for name in ("held_before", "arrived"))
    counts = {name: sum(getattr(one, name) for one in accounts) for name in _DISPOSITIONS}
    right = [f"{name} {count:,}" for name, count in counts.items() if count or name in _DISPOSITIONS[:2]]
    return f"{f'held before {before:,} + ' if before else ''}in {arrived:,} = {' + '.join(right)}"


def waiting_line(waiting: reports.Waiting) -> str:
    """A destination whose port fails, in a line."""
    kept = (
        f"{counted(waiting.rows, 'row')} of {counted(waiting.batches, 'batch')} waiting"
        if waiting.rows
        else "nothing waits yet"
    )
    return f"{waiting.destination}: {kept} since {waiting.since}: {waiting.reason or 'on their way'}"


def again_line(again: reports.Again) -> str:
    begun = f"the query is begun again in {again.seconds:g} s (try {again.attempt} of {again.attempts})"
    return f"{again.what}; {begun}: {again.reason}"


def routing_line(routing: reports.Routing) -> str:
    """The law of conservation of the router; empty if every message had a destination."""
    if not routing.unrouted and not routing.invalid:
        return ""
    invalid = f" + invalid {routing.invalid:,}" if routing.invalid else ""
    return f"received {routing.received:,} = routed {routing.routed:,} + unrouted {routing.unrouted:,}{invalid}"


def accounts_table(accounts: Sequence[reports.Account], console: Console | None = None) -> None:
    """Print the law of conservation, a line for each destination: held before + in = released + held + … If there are very many
    destinations, those without messages are only counted.
    """
    console = console or Console(highlight=False)
    shown = [one for one in accounts if len(accounts) <= _MOST_ROWS or one.held_before or one.arrived]
    columns = ACCOUNTS if any(account.held_before for account in accounts) else ACCOUNTS.without("held before")
    for rare in ("void", "copy"):
        columns = columns if any(getattr(account, rare) for account in accounts) else columns.without(rare)
    table = Lines(box=None, pad_edge=False, header_style="bold")
    for heading in columns.headings:
        table.add_column(heading, justify="left" if heading == "destination" else "right", no_wrap=True)
    for account in shown:
        table.add_row(*(f"{one:,}" if isinstance(one, int) else str(one) for one in columns.cells(account)))
    # A count that is cut off is none: the table is as wide as it has to be, also where the output is narrower.
    wide = console.options.update(max_width=_WIDEST)
    console.print(Segments(console.render(table, wide)), soft_wrap=True)
    if len(shown) < len(accounts):
        console.print(f"{counted(len(accounts) - len(shown), 'more destination')} got nothing")
