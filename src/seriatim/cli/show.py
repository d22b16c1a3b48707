"""Showing a run to a person: a live line on a terminal, a line a batch elsewhere, and the law in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from seriatim.runtime.progress import Account, Progress

__all__ = ["Display", "accounts_table", "line_of"]

_DISPOSITIONS = ("released", "held", "late", "duplicate", "invalid", "rejected", "dead")


class Display:
    """The progress of a run, on standard error.

    Args:
        name: what is running.
        quiet: show nothing.
        console: where; None: standard error.
    """

    def __init__(self, name: str, *, quiet: bool = False, console: Console | None = None) -> None:
        self._name = name
        self._quiet = quiet
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if not self._quiet and self._console.is_terminal:
            self._live = Live(self._spinner("starting Spark"), console=self._console, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Show a micro-batch."""
        if self._live is not None:
            self._live.update(self._spinner(line_of(progress)))
        elif not self._quiet:
            self._console.print(f"{self._name}: batch {progress.batch}: {line_of(progress)}", soft_wrap=True)

    def _spinner(self, text: str) -> Spinner:
        return Spinner("dots", Text.assemble((self._name, "bold"), "  ", text, overflow="ellipsis", no_wrap=True))


def line_of(progress: Progress) -> str:
    """A batch in a line: rates, held, holes, late, time."""
    accounts = progress.accounts
    facts = [
        f"{progress.rows_per_s:,.0f} rows/s",
        f"in {sum(account.arrived for account in accounts):,}",
        f"released {sum(account.released for account in accounts):,}",
        f"held {progress.held:,}",
        f"holes {progress.holes:,}",
        f"late {sum(account.late for account in accounts):,}",
        f"invalid {sum(account.invalid for account in accounts):,}",
        f"batch {progress.seconds:.1f} s",
    ]
    return " · ".join(facts)


def accounts_table(accounts: Sequence[Account], console: Console | None = None) -> None:
    """Print the law of conservation, a destination a line: held before + in = released + held + …"""
    console = console or Console(highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    before = any(account.held_before for account in accounts)
    columns = ("destination", *(("held before",) if before else ()), "in", "=", *_DISPOSITIONS)
    for column in columns:
        table.add_column(column, justify="left" if column == "destination" else "right", no_wrap=True)
    for account in accounts:
        first = [f"{account.held_before:,}"] if before else []
        counts = [f"{getattr(account, disposition):,}" for disposition in _DISPOSITIONS]
        table.add_row(account.destination, *first, f"{account.arrived:,}", "=", *counts)
    console.print(table)
