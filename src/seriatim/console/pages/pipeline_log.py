"""The operator log of a pipeline: commands that it has obeyed or refused, and those that wait for it; newest first."""

from __future__ import annotations

from seriatim.console.lists import fields_of, given
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations.log_entries import entries_of_box
from seriatim.operations.tables.pipelines import LOGGED


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.log import operator_log  # noqa: PLC0415 -- Spark is slow to import

    rows = operator_log(found, **given(asked, entries_of_box))
    base = ("pipelines", found.name, "groups")
    of_group = {"group": lambda one: (*base, one.queue, one.group) if one.queue and one.group is not None else None}
    return Answer(
        LOGGED.objects_of(rows),
        title=f"Operator log of pipeline {found.name}",
        about="Newest first. A command that the pipeline hasn't obeyed yet is queued.",
        listing=Rows(
            LOGGED.without("pipeline"), rows, "Operator log", of_group, nothing="No operator has done anything."
        ),
    )


PAGE = Page(
    ("pipelines/{pipeline}/log",),
    "Operator log of a pipeline",
    _read,
    fields=fields_of(entries_of_box, of_pipeline=True),
)
