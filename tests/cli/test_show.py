"""What a person is shown of a run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from seriatim.cli.show import accounts_table
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
