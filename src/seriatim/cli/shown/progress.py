"""The progress of a command that acts on many things: a bar on standard error, at a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from seriatim.operations.bulk_operations import BulkOperation

_Done = TypeVar("_Done")
#: Fewer than that are done before anybody could read a bar.
_WORTH_A_BAR = 10


def shown_progress(done: Iterable[_Done], total: int, what: str, *, quiet: bool = False) -> Iterator[_Done]:
    if quiet or total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield from done
        return
    with _bar(what) as bar:
        yield from bar.track(done, total=total)


def shown_portions(
    steps: Iterable[BulkOperation], found: BulkOperation, *, quiet: bool = False
) -> Iterator[BulkOperation]:
    if quiet or not sys.stderr.isatty():
        yield from steps
        return
    with _bar(found.action.replace("_", "-")) as bar:
        task = bar.add_task("", total=found.groups)
        for one in steps:
            bar.update(task, completed=one.groups - one.left)
            yield one


@contextmanager
def shown_share(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Within the block a bar shows what it is told: how many are done, of how many."""
    if quiet or not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with _bar(what) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _bar(what: str) -> Progress:
    columns = (SpinnerColumn(), TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
