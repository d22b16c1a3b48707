"""The progress of a command that acts on many things: a bar on standard error, at a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

__all__ = ["shown_progress"]

_Done = TypeVar("_Done")
#: Fewer than that are done before anybody could read a bar.
_WORTH_A_BAR = 10


def shown_progress(done: Iterable[_Done], total: int, what: str, *, quiet: bool = False) -> Iterator[_Done]:
    """Pass on what is done, and show how far that is.

    Args:
        done: the results, one after another.
        total: how many there will be.
        what: what is done, as in "retry".
        quiet: show nothing.
    """
    if quiet or total < _WORTH_A_BAR or not sys.stderr.isatty():
        yield from done
        return
    from rich.console import Console  # noqa: PLC0415 -- rarely needed
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (SpinnerColumn(), TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(done, total=total)
