"""The pipelines of the console: whether each runs, its last batch, and what it holds."""

from __future__ import annotations

from typing import Any

from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations.tables.pipelines import COUNTS


def _read(asked: Asked) -> Answer:
    rows: list[Any] = []
    unknown: list[tuple[str, str]] = []
    for name, one in asked.pipelines.all():
        if isinstance(one, str):
            unknown.append((name, one))
            continue
        from seriatim.operations.pipelines.pipelines import counts_of  # noqa: PLC0415 -- Spark is slow to import

        rows.append(counts_of(one))
    links = {"pipeline": lambda one: ("pipelines", one.pipeline)}
    listing = Rows(
        COUNTS.without("age"), rows, "Pipelines", links,
        nothing="Nothing is known of them." if unknown else "The console was started without --pipelines.",
    )  # fmt: skip
    return Answer(COUNTS.objects_of(rows), listing=listing, values={"unknown": unknown})


PAGE = Page(("pipelines",), "Pipelines", _read, "pipelines.html", section="Work", of_pipelines=True)
