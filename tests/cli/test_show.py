"""What a person is shown of a run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from seriatim.cli.shown.progress import shown_progress
from seriatim.cli.shown.show import accounts_table
from seriatim.runtime.pipelines.progress import Account


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_law_is_shown_whole_however_narrow_the_output(width: int) -> None:
    written = io.StringIO()
    accounts_table([Account("fulfilment", 1, 123_456_789, 123_456_789, held=1)], Console(file=written, width=width))
    heading, counts = written.getvalue().splitlines()
    assert " ".join(heading.split()) == (
        "destination held before in = released held late duplicate invalid rejected dead"
    )
    assert counts.split() == ["fulfilment", "1", "123,456,789", "=", "123,456,789", "1", "0", "0", "0", "0", "0"]


@pytest.mark.parametrize(("terminal", "quiet", "total", "shown"), [
    (True, False, 20, True), (False, False, 20, False), (True, True, 20, False), (True, False, 1, False),
])  # fmt: skip
def test_how_far_the_work_on_many_is_is_shown_at_a_terminal_only(monkeypatch, terminal, quiet, total, shown) -> None:
    written = io.StringIO()
    monkeypatch.setattr(written, "isatty", lambda: terminal)
    monkeypatch.setattr("sys.stderr", written)
    monkeypatch.setenv("TERM", "xterm")
    assert list(shown_progress(iter(range(total)), total, "retry", quiet=quiet)) == list(range(total))
    assert ("retry" in written.getvalue()) is shown
